"""Benchmarks of vector stores on the same rows and queries, compared with exact search and memory bandwidth."""

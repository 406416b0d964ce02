"""Traces of runs."""

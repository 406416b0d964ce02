"""Caches of responses."""

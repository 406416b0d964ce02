"""Indexing: the catalog, incremental builds, verification, and read access."""

"""Hostile text, names, URLs and files."""

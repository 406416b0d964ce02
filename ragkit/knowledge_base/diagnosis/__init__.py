"""Explain why a search misses a passage, or an answer leaves out a text."""

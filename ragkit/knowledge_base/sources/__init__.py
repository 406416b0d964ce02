"""The sources of a knowledge base: which files an index run reads."""

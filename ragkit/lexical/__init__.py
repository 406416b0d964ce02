"""Lexical search: text analysis and the BM25 index."""

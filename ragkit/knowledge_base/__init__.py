"""The knowledge base: index, search, ask, verify, copy, watch and diagnose."""

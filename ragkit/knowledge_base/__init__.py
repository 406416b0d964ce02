"""The knowledge base: index, search, ask, verify, migrate, watch and diagnose."""

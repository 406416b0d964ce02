"""Parse files in processes of their own, which may hang or crash."""

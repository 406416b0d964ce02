"""Local copies of remote documents, and the ids of sources."""

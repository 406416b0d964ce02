"""One file for each vector store."""

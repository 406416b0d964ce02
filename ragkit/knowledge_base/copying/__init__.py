"""Copy a knowledge base to another vector store, directory or database."""

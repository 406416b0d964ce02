"""The catalog: documents, chunks, vectors and settings of one knowledge base, in SQLite."""

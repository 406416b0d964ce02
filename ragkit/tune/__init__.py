"""Search for pipeline settings on your own documents and questions."""

"""Grid search for pipeline options on your own documents and questions."""

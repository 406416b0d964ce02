"""HTML pages, and EPUB books, whose chapters are HTML pages."""

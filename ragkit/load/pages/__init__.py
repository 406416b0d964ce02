"""Documents that consist of pages: PDF files, and their layout."""

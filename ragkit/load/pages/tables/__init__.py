"""Tables of a PDF page."""

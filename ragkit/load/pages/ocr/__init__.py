"""Text of scanned pages and of images."""

"""Whether passages support the statements of an answer."""

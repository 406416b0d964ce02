"""What a snapshot of the catalog is made of: arrays, filters, rows and look-ups of whole documents."""

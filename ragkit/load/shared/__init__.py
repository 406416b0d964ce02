"""What loaders of several formats share: encodings, blocks of text, tables, parts of archives."""

"""No one let in: what hostile text, names, addresses and files cannot do."""

"""The runners of index runs, and the one body of work that all of them carry out."""

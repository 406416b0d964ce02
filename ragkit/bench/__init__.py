"""Vector stores side by side: the same rows and queries, held against exact search and what the machine can do."""

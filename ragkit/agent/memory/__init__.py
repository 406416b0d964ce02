"""The memory of a conversation, and where conversations are stored."""

"""Mail messages and mailboxes."""

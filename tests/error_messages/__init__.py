"""The most common mistakes of users, with exact messages and exit codes."""

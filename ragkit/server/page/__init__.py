"""The web UI: its files, and the routes that only it uses."""

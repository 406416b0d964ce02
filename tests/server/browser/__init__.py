"""The web page in a real Chromium, against the real server."""

"""Servers that the tests start for themselves, on loopback, and stop again. None needs a system package."""

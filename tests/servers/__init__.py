"""Servers that tests start and stop on loopback. None needs a system package."""

"""Conformance checks for custom components. Not imported by the rest of ragkit."""

"""Fuzz tests of all parsers of untrusted input: `make fuzz`, and a short run in `make test`."""

"""The real services: `make test-live`."""

"""Tests with real services: `make test-live`."""

"""The HTTP API: routes, requests and responses."""

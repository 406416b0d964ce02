"""Chat providers against servers that speak each service's wire format on loopback."""

"""Random bytes for everything that reads what strangers wrote: `make fuzz`, and a small part in `make test`."""

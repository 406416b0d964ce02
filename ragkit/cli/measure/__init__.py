"""The commands that measure: `bench`, `eval` and `tune`."""

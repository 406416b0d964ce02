"""Read YAML into dataclasses, and report every mistake with its place: `file:line:column`."""

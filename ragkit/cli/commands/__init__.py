"""The commands, one module each; those that measure are in `ragkit.cli.measure`."""

"""One component of each kind for ragkit. The entry points in `pyproject.toml` name the classes of `components`."""

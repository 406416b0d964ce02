"""Open any registered store in a temporary directory, according to its options."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import cast

import numpy as np

from ragkit.store import STORES
from ragkit.store.base import Rows, Store

PATH_OPTIONS = ("path", "directory")
"""Options that take a directory."""
NAME_OPTIONS = ("collection", "table", "index", "namespace")
"""Options that take the name of a collection; each test has its own."""


class StoreUnavailable(Exception):
    """The store needs a server or a key that is not configured."""


def scratch_options(name: str, directory: Path) -> dict[str, object]:
    """The options that open a store in a directory.

    Other options, such as the address of a server, are read from the environment variables RAGKIT_TEST_NAME_OPTION.

    Raises:
        StoreUnavailable: a required option is not set; the message names the variable.
    """
    kind = STORES.options_class(name)
    selected: dict[str, object] = {}
    for field in fields(kind) if kind else ():
        variable = f"RAGKIT_TEST_{name}_{field.name}".upper()
        if field.name in PATH_OPTIONS:
            selected[field.name] = directory / name
        elif field.name in NAME_OPTIONS:
            selected[field.name] = f"ragkit_{directory.name}".replace("-", "_")[-40:]
        elif variable in os.environ:
            selected[field.name] = os.environ[variable]
        elif field.default is MISSING and field.default_factory is MISSING:
            raise StoreUnavailable(f"the store {name!r} requires the option {field.name!r}: set {variable}")
    return selected


def open_store(name: str, directory: Path) -> Store:
    """Open the store `name` in a directory. Raises StoreUnavailable, MissingExtra, and the errors of the store."""
    kind = STORES.options_class(name)
    options = scratch_options(name, directory)
    make = cast("Callable[..., Store]", STORES.find(name))
    return make(kind(**options)) if kind else make()


def unit_rows(n: int, dimension: int, seed: int) -> Rows:
    """Random unit vectors of (n, dimension), deterministic for a seed."""
    rows = np.random.default_rng(seed).standard_normal((n, dimension))
    unit: Rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit

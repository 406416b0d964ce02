"""Opens any registered store in a scratch directory, by what its options ask for."""

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
"""Options that take a name, one for each test, where a server or a file holds many."""


class StoreUnavailable(Exception):
    """The store needs something that is not here: a server, a key."""


def scratch_options(name: str, directory: Path) -> dict[str, object]:
    """Options that open the store in that directory.

    Anything else that its options cannot do without is taken from the environment, as RAGKIT_TEST_NAME_OPTION:
    the address of a server, say.

    Raises:
        StoreUnavailable: it is not there; the message says which variable to set.
    """
    kind = STORES.options_class(name)
    chosen: dict[str, object] = {}
    for field in fields(kind) if kind else ():
        variable = f"RAGKIT_TEST_{name}_{field.name}".upper()
        if field.name in PATH_OPTIONS:
            chosen[field.name] = directory / name
        elif field.name in NAME_OPTIONS:
            chosen[field.name] = f"ragkit_{directory.name}".replace("-", "_")[-40:]
        elif variable in os.environ:
            chosen[field.name] = os.environ[variable]
        elif field.default is MISSING and field.default_factory is MISSING:
            raise StoreUnavailable(f"the store {name!r} needs its option {field.name!r}: set {variable}")
    return chosen


def open_store(name: str, directory: Path) -> Store:
    """The store of that name in that directory. Raises StoreUnavailable, MissingExtra and what the store itself raises."""
    kind = STORES.options_class(name)
    options = scratch_options(name, directory)
    make = cast("Callable[..., Store]", STORES.find(name))
    return make(kind(**options)) if kind else make()


def unit_rows(n: int, dimension: int, seed: int) -> Rows:
    """Random rows of length 1, the same for the same seed."""
    rows = np.random.default_rng(seed).standard_normal((n, dimension))
    unit: Rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit

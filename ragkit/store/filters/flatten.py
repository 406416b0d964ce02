"""Metadata in the form that filters read: each field name or dotted path with its scalar values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

from ragkit.records import JSON, Metadata
from ragkit.store.filters.language import Scalar

FlatMetadata: TypeAlias = dict[str, list[Scalar]]
"""Field -> the scalars that a filter on it is compared with; a mapping there has none."""


def flatten_metadata(metadata: Metadata) -> FlatMetadata:
    """Metadata as a filter sees them: under each field that a filter can name, what it is compared with.

    Nested mappings are reached by their dotted path, and a key of the document itself comes before a path.
    """
    found: FlatMetadata = {key: _scalar_elements(value) for key, value in metadata.items()}
    open_paths: list[tuple[str, JSON]] = [(key, value) for key, value in metadata.items() if "." not in key]
    while open_paths:
        path, value = open_paths.pop()
        if not isinstance(value, Mapping):
            continue
        for key, inner in value.items():
            if "." not in key:
                found.setdefault(f"{path}.{key}", _scalar_elements(inner))
                open_paths.append((f"{path}.{key}", inner))
    return found


def _scalar_elements(value: JSON) -> list[Scalar]:
    if isinstance(value, Mapping):
        return []
    if isinstance(value, list | tuple):
        return [cast("Scalar", each) for each in value if not isinstance(each, Mapping | list | tuple)]
    return [cast("Scalar", value)]

"""Flatten metadata for filters: each field name or dotted path with its scalar values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

from ragkit.records import JSON, Metadata
from ragkit.store.filters.language import Scalar

FlatMetadata: TypeAlias = dict[str, list[Scalar]]
"""Field -> the scalars that a filter on it compares with; none for a mapping."""


def flatten_metadata(metadata: Metadata) -> FlatMetadata:
    """The scalars of every field that a filter can name.

    Nested mappings are addressed by dotted paths; a literal key of the document takes precedence over a path.
    """
    flat: FlatMetadata = {key: _scalar_elements(value) for key, value in metadata.items()}
    pending: list[tuple[str, JSON]] = [(key, value) for key, value in metadata.items() if "." not in key]
    while pending:
        path, value = pending.pop()
        if not isinstance(value, Mapping):
            continue
        for key, inner in value.items():
            if "." not in key:
                flat.setdefault(f"{path}.{key}", _scalar_elements(inner))
                pending.append((f"{path}.{key}", inner))
    return flat


def _scalar_elements(value: JSON) -> list[Scalar]:
    if isinstance(value, Mapping):
        return []
    if isinstance(value, list | tuple):
        return [cast("Scalar", item) for item in value if not isinstance(item, Mapping | list | tuple)]
    return [cast("Scalar", value)]

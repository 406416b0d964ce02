"""Filters of searches: text or mapping, restricted to a source, with notes on what they cannot match."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from ragkit.errors import InvalidFilter, did_you_mean
from ragkit.index.reader import CatalogSnapshot
from ragkit.index.sources.ids import is_within
from ragkit.records import JSON
from ragkit.store.filters.where_syntax import parse_where

Where: TypeAlias = Mapping[str, JSON] | str | None
"""A filter: a mapping, or text as on the command line; None or empty matches everything."""


def read_filter(where: Where) -> Mapping[str, JSON] | None:
    """The filter as a mapping. Raises InvalidFilter for invalid text."""
    if isinstance(where, str):
        return parse_where(where) if where.strip() else None
    return where


def filter_source(snapshot: CatalogSnapshot, source: str, normalized: str) -> Mapping[str, JSON]:
    """The filter for the documents of a source: its file, everything below its folder, its parts, or its file name.

    Args:
        snapshot: of the catalog.
        source: as the user wrote it.
        normalized: its source id.

    Raises:
        InvalidFilter: no document has this source.
    """
    rows = snapshot.connection.execute("SELECT source FROM documents WHERE live = 1 ORDER BY source")
    sources = [row[0] for row in rows]
    for name in (normalized, source):
        if found := [item for item in sources if is_within(item, name) or item.startswith(f"{name}#")]:
            return {"source": {"$in": found}}
    if named := [item for item in sources if os.path.basename(item) == source]:  # noqa: PTH119 - also of a URL
        return {"source": {"$in": named}}
    hint = did_you_mean(source, [os.path.basename(item) for item in sources])  # noqa: PTH119
    raise InvalidFilter(f"no document has the source {source!r}{hint}: see `ragkit list`")


def filter_notes(snapshot: CatalogSnapshot, where: Mapping[str, JSON] | None) -> list[str]:
    """What a filter cannot match: fields that no document has, or any document at all."""
    if not where:
        return []
    fields = list(dict.fromkeys(_iter_fields(where)))
    unknown = [field for field in fields if not snapshot.count_matches({field: {"$exists": True}})]
    notes = [f"the filter names {field!r}, which no document has" for field in unknown]
    if not notes and not snapshot.count_matches(where):
        notes = ["no document matches the filter"]
    return notes


def _iter_fields(where: Mapping[str, JSON]) -> Iterator[str]:
    for key, value in where.items():
        if not key.startswith("$"):
            yield key
            continue
        for part in value if isinstance(value, list | tuple) else [value]:
            if isinstance(part, Mapping):
                yield from _iter_fields(part)

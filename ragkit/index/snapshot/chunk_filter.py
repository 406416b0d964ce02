"""Which live chunks a filter on metadata selects."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ragkit.index.catalog.duplicate_index import DuplicateIndex
from ragkit.index.catalog.sqlite import filter_metadata
from ragkit.index.snapshot.arrays import SnapshotArrays
from ragkit.lexical.base import ChunkKeys
from ragkit.records import Metadata, Where
from ragkit.store.filters.language import parse_filter


class ChunkFilter:
    """The filters of one generation."""

    def __init__(
        self, connection: sqlite3.Connection, arrays: SnapshotArrays, *, leaves_out_copies: bool = False
    ) -> None:
        """`leaves_out_copies`: `mask` selects one chunk of each group of passages that say the same."""
        self._connection = connection
        self._arrays = arrays
        self.leaves_out_copies = leaves_out_copies

    def mask(self, where: Where) -> NDArray[np.bool_] | None:
        """Mask of the live chunks that searches may return; None for all. Raises InvalidFilter."""
        mask = self.match(where)
        if not self.leaves_out_copies:
            return mask
        positions, groups = self._copies()
        allowed = np.ones(len(self._arrays.chunk_keys), np.bool_) if mask is None else mask.copy()
        matching = allowed[positions]
        _, first = np.unique(groups[matching], return_index=True)
        kept = positions[matching][first]
        allowed[positions] = False
        allowed[kept] = True
        return allowed

    def _copies(self) -> tuple[ChunkKeys, ChunkKeys]:
        """See `SnapshotArrays.copies`."""
        index = DuplicateIndex(self._connection)
        stamp = index.stamp()
        copies = self._arrays.copies.get(stamp)
        if copies is None:
            members = [*index.all_members()]
            members.sort(key=lambda member: member.key)
            members.sort(key=lambda member: member.version[1], reverse=True)
            keys = np.array([member.key for member in members], np.int64)
            groups = np.array([member.group for member in members], np.int64)
            copies = np.searchsorted(self._arrays.chunk_keys, keys), groups
            self._arrays.copies.set(stamp, copies)
        return copies

    def match(self, where: Where) -> NDArray[np.bool_] | None:
        """Mask of the live chunks that match a filter; None for all. Raises InvalidFilter."""
        if not where:
            return None
        condition = parse_filter(where)
        name = repr(condition)  # not the condition itself: True equals 1, and their masks differ
        mask = self._arrays.filter_masks.get(name)
        if mask is None:
            documents = np.unique(self._arrays.document_keys)
            self._arrays.metadata_index.extend_to(len(documents), self._iter_metadata)
            matching = documents[self._arrays.metadata_index.mask(condition, len(documents))]
            mask = np.isin(self._arrays.document_keys, matching)
            self._arrays.filter_masks.set(name, mask)
        return mask

    def _iter_metadata(self, first: int) -> Iterator[Metadata]:
        """Filter metadata of live documents with chunks, by key, starting at position `first`."""
        rows = self._connection.execute(
            "SELECT source, title, metadata FROM documents WHERE live = 1"
            " AND key IN (SELECT document FROM chunks WHERE live = 1) ORDER BY key LIMIT -1 OFFSET ?",
            (first,),
        )
        return (filter_metadata(*row) for row in rows)

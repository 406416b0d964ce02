"""The arrays of one generation in memory, which all snapshots of it share."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ragkit.lexical.base import ChunkKeys
from ragkit.lru_cache import LruCache
from ragkit.store.native.metadata_index import MetadataIndex
from ragkit.store.native.scanner import Scanner

MAX_FILTER_MASKS = 64
"""Masks of recent filters kept in memory: one byte per chunk each."""


@dataclass(frozen=True)
class StaticVectors:
    """The static vectors of the chunks that have no vector of the embedder yet."""

    embedder: int
    """The key of the static embedder in the catalog."""
    fingerprint: str
    matrix: NDArray[np.float32]
    """(rows, dimension)"""
    scanner: Scanner
    used_rows: ChunkKeys
    """Rows of live chunks, ascending."""


@dataclass(frozen=True)
class SnapshotArrays:
    """In-memory arrays of one generation. Row i of each array belongs to the i-th live chunk by key."""

    generation: int
    filled: int
    """How many times chunks had got their vectors after they were published."""
    chunk_keys: ChunkKeys
    vector_rows: ChunkKeys
    """Row of the chunk's vector in `matrix`; < 0: it has none yet, and `~row` is its row in `static.matrix`."""
    document_keys: ChunkKeys
    """Key of the chunk's document."""
    matrix: NDArray[np.float32]
    """(rows, dimension): all committed vectors, including unused ones."""
    used_rows: ChunkKeys | None
    """Rows of live chunks, ascending; None if all rows are used."""
    scanner: Scanner
    static: StaticVectors | None
    """None if all chunks have vectors."""
    metadata_index: MetadataIndex = field(default_factory=MetadataIndex)
    """Metadata of the documents, one row each by key; filled on the first filter."""
    filter_masks: LruCache[str, NDArray[np.bool_]] = field(default_factory=lambda: LruCache(MAX_FILTER_MASKS))
    """Parsed filter as text -> mask of matching chunks, (n,)."""
    copies: LruCache[int, tuple[ChunkKeys, ChunkKeys]] = field(default_factory=lambda: LruCache(1))
    """Stamp of the groups -> (positions, groups) of the passages that say the same as others, the newest of each group
    first."""
    verified_documents: set[str] = field(default_factory=set)
    """Ids of documents whose rows were verified; used if there is no checksum file."""

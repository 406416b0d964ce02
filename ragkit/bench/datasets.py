"""The rows and queries of a benchmark, written where every process of it can map them.

Rows are made here, read from a file in ann-benchmarks' layout, or handed over. Nothing here knows a store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from ragkit.errors import InvalidOption, InvalidVector, MissingExtra
from ragkit.store.base import Rows

FILTER_FIELD = "bucket"
"""The metadata that filters ask for: a number from 0 to BUCKETS - 1, drawn by lot for each row."""
BUCKETS = 10_000
BLOCK_ROWS = 20_000
"""Rows that are made, scaled or compared at once."""
CLUSTER_SPREAD = 0.8
"""How far a made row is from the middle of its cluster, whose length is 1."""


@dataclass(frozen=True)
class Dataset:
    """A folder of arrays: `rows.npy`, `queries.npy`, `buckets.npy`, `texts.npy` with `texts.bin`."""

    folder: Path
    name: str
    """For people: what it is and how many."""
    base_count: int
    """How many rows a store is built with; those behind them are added later."""
    seed: int
    """Of the rows that are deleted."""

    @property
    def rows(self) -> Rows:
        """All rows, (base + added, dimension), of length 1, mapped."""
        return np.load(self.folder / "rows.npy", mmap_mode="r")  # type: ignore[no-any-return]

    @property
    def queries(self) -> Rows:
        """(queries, dimension), of length 1."""
        return np.load(self.folder / "queries.npy")  # type: ignore[no-any-return]

    @property
    def buckets(self) -> NDArray[np.int32]:
        """Of each row, the number that filters ask for."""
        return np.load(self.folder / "buckets.npy")  # type: ignore[no-any-return]

    @property
    def deleted_rows(self) -> NDArray[np.int64]:
        """The hundredth of the base rows that is deleted, rising."""
        lot = np.random.default_rng(self.seed + 1)
        return np.sort(lot.choice(self.base_count, max(1, self.base_count // 100), replace=False))

    def texts(self, first: int, last: int) -> list[str]:
        """The texts of some rows."""
        ends = np.load(self.folder / "texts.npy", mmap_mode="r")
        with (self.folder / "texts.bin").open("rb") as file:
            file.seek(int(ends[first]))
            raw = file.read(int(ends[last] - ends[first]))
        cuts = (ends[first : last + 1] - ends[first]).tolist()
        return [raw[a:b].decode() for a, b in pairwise(cuts)]

    def fingerprint(self) -> str:
        """The same for the same rows and queries: shape, all queries, and a thousand rows."""
        rows = self.rows
        digest = blake2b(repr((rows.shape, self.base_count, self.seed)).encode(), digest_size=8)
        digest.update(rows[:: max(1, len(rows) // 1000)].tobytes())
        digest.update(self.queries.tobytes())
        return digest.hexdigest()


def bucket_limit(share: float) -> int:
    """The bucket below which a filter of this share ends."""
    return max(1, round(share * BUCKETS))


def generate_dataset(folder: Path, rows: int, dimension: int, *, queries: int = 200, seed: int = 1) -> Dataset:
    """Rows in clusters, as embeddings of texts are: a few directions carry most of what differs within a cluster.

    There are about as many clusters as the square root of the rows, of very different sizes. Queries are drawn as
    rows are, and are none of them.
    """
    lot = np.random.default_rng(seed)
    centres = _normalize_rows(lot.standard_normal((max(2, round(rows**0.5)), dimension), np.float32))
    weights = (1 + np.arange(dimension)) ** -0.25
    turn = np.linalg.qr(lot.standard_normal((dimension, dimension)))[0]
    shape = (CLUSTER_SPREAD * weights[:, None] / np.linalg.norm(weights) * turn).astype(np.float32)
    sizes = lot.pareto(2.0, len(centres)) + 0.2
    sizes /= sizes.sum()

    def drawn(n: int) -> Rows:
        noise = lot.standard_normal((n, dimension), np.float32) @ shape
        return _normalize_rows(centres[lot.choice(len(centres), n, p=sizes)] + noise)

    total = rows + max(1, rows // 100)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "queries.npy", drawn(queries))
    out = open_memmap(folder / "rows.npy", mode="w+", dtype=np.float32, shape=(total, dimension))
    for first in range(0, total, BLOCK_ROWS):
        out[first : first + BLOCK_ROWS] = drawn(len(out[first : first + BLOCK_ROWS]))
    out.flush()
    _write_metadata(folder, (f"row {number}" for number in range(total)), total, seed)
    return Dataset(folder, f"{rows:,} rows x {dimension}, made in clusters, seed {seed}", rows, seed)


@dataclass(frozen=True)
class ExternalVectors:
    """Rows from elsewhere: chunks of a knowledge base, say."""

    name: str
    rows: NDArray[np.floating]
    """(n, dimension), none of them zero; they are scaled to length 1."""
    queries: NDArray[np.floating] | None = None
    """(q, dimension); None holds back rows and asks for the nearest of those that remain."""
    texts: Sequence[str] | None = None
    """One for each row."""
    shuffle: bool = True
    """Neighbours in the list may belong together: which rows are added last is then drawn by lot."""


def write_dataset(folder: Path, given: ExternalVectors, *, queries: int = 200, seed: int = 1) -> Dataset:
    """Write rows from elsewhere for the processes of a benchmark. A hundredth of them is left to be added later.

    Raises:
        InvalidOption: there are fewer than 20 rows.
        InvalidVector: a row is zero or not finite.
    """
    lot = np.random.default_rng(seed)
    order = lot.permutation(len(given.rows)) if given.shuffle else np.arange(len(given.rows))
    asked = given.queries
    if asked is None:
        held = max(1, min(queries, len(order) // 10))
        asked, order = given.rows[order[:held]], order[held:]
    if len(order) < 20 or not len(asked):
        raise InvalidOption("data", f"{len(given.rows)} rows", "at least 30 rows")
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "queries.npy", _normalize_rows(np.asarray(asked[:queries], np.float32)))
    out = open_memmap(folder / "rows.npy", mode="w+", dtype=np.float32, shape=(len(order), given.rows.shape[1]))
    for first in range(0, len(order), BLOCK_ROWS):
        out[first : first + BLOCK_ROWS] = _normalize_rows(
            np.asarray(given.rows[order[first : first + BLOCK_ROWS]], np.float32), first
        )
    out.flush()
    texts = given.texts
    _write_metadata(folder, (texts[i] if texts else f"row {i}" for i in order.tolist()), len(order), seed)
    base = len(order) - max(1, len(order) // 100)
    return Dataset(folder, f"{given.name}: {base:,} rows x {given.rows.shape[1]}", base, seed)


def read_hdf5(file: Path) -> ExternalVectors:
    """A file in ann-benchmarks' layout: rows in `train`, queries in `test`. Its own neighbours are not used.

    Rows are scaled to length 1 and compared by their cosine, also those of a Euclidean data set: neighbours and
    recall are computed anew.

    Raises:
        MissingExtra: h5py is not installed.
        InvalidOption: it is no such file.
    """
    try:
        import h5py  # noqa: PLC0415 - only a benchmark of such a file needs it
    except ImportError as error:
        raise MissingExtra("a HDF5 file", extra="bench") from error
    try:
        with h5py.File(file, "r") as opened:
            rows, queries = np.asarray(opened["train"], np.float32), np.asarray(opened["test"], np.float32)
    except (OSError, KeyError, ValueError) as error:
        raise InvalidOption("--hdf5", str(file), f"a file in ann-benchmarks' layout ({error})") from error
    return ExternalVectors(file.stem, rows, queries, shuffle=False)


def _write_metadata(folder: Path, texts: Iterator[str], total: int, seed: int) -> None:
    np.save(folder / "buckets.npy", np.random.default_rng(seed + 2).integers(0, BUCKETS, total, np.int32))
    ends = np.zeros(total + 1, np.int64)
    with (folder / "texts.bin").open("wb") as file:
        for number, text in enumerate(texts):
            ends[number + 1] = ends[number] + file.write(text.encode("utf-8", "replace"))
    np.save(folder / "texts.npy", ends)


def _normalize_rows(rows: Rows, first: int = 0) -> Rows:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    wrong = np.flatnonzero(~(np.isfinite(lengths[:, 0]) & (lengths[:, 0] > 0)))
    if len(wrong):
        raise InvalidVector(first + int(wrong[0]), f"has length {lengths[wrong[0], 0]:.4g}")
    unit: Rows = (rows / lengths).astype(np.float32)
    return unit

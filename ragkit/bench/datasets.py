"""The vectors and queries of a benchmark, in files that its processes map into memory.

Vectors are generated, read from an ann-benchmarks file, or passed by the caller. Independent of the stores.
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
"""The metadata field that filters use: a random integer from 0 to BUCKETS - 1 for each row."""
BUCKETS = 10_000
BLOCK_ROWS = 20_000
"""Rows that are generated, normalized or compared at once."""
MIN_SMALL_ROWS = 100
CLUSTER_SPREAD = 0.8
"""Mean distance of a generated row from its cluster centre, which has length 1."""


@dataclass(frozen=True)
class Dataset:
    """A directory of arrays: `rows.npy`, `queries.npy`, `buckets.npy`, `texts.npy` with `texts.bin`."""

    folder: Path
    name: str
    """Description with the number of rows, for reports."""
    base_count: int
    """Number of rows that a store is built with; the rows after them are added later."""
    seed: int
    """Selects the rows to delete."""

    @property
    def small_count(self) -> int:
        """Number of rows of the smaller size at which times are measured too, a quarter; 0 if it is below 100."""
        return self.base_count // 4 if self.base_count >= 4 * MIN_SMALL_ROWS else 0

    @property
    def rows(self) -> Rows:
        """All rows, (base + added, dimension), of length 1, memory-mapped."""
        rows: Rows = np.load(self.folder / "rows.npy", mmap_mode="r")
        return rows

    @property
    def queries(self) -> Rows:
        """(queries, dimension), of length 1."""
        queries: Rows = np.load(self.folder / "queries.npy")
        return queries

    @property
    def buckets(self) -> NDArray[np.int32]:
        """The bucket of each row, (base + added,)."""
        buckets: NDArray[np.int32] = np.load(self.folder / "buckets.npy")
        return buckets

    @property
    def deleted_rows(self) -> NDArray[np.int64]:
        """The 1 % of the base rows that is deleted, in ascending order."""
        rng = np.random.default_rng(self.seed + 1)
        return np.sort(rng.choice(self.base_count, max(1, self.base_count // 100), replace=False))

    def texts(self, first: int, last: int) -> list[str]:
        """The texts of the rows [first:last]."""
        ends = np.load(self.folder / "texts.npy", mmap_mode="r")
        with (self.folder / "texts.bin").open("rb") as file:
            file.seek(int(ends[first]))
            raw = file.read(int(ends[last] - ends[first]))
        offsets = (ends[first : last + 1] - ends[first]).tolist()
        return [raw[a:b].decode() for a, b in pairwise(offsets)]

    def fingerprint(self) -> str:
        """Digest of the shape, all queries and a thousand rows."""
        rows = self.rows
        digest = blake2b(repr((rows.shape, self.base_count, self.seed)).encode(), digest_size=8)
        digest.update(rows[:: max(1, len(rows) // 1000)].tobytes())
        digest.update(self.queries.tobytes())
        return digest.hexdigest()


def bucket_limit(share: float) -> int:
    """The bucket below which a filter selects this share of the rows."""
    return max(1, round(share * BUCKETS))


def generate_dataset(folder: Path, rows: int, dimension: int, *, queries: int = 200, seed: int = 1) -> Dataset:
    """Generate clustered rows that resemble text embeddings: a few directions carry most of the variance in a cluster.

    There are about sqrt(rows) clusters of very different sizes. Queries have the same distribution and are not rows.
    """
    rng = np.random.default_rng(seed)
    centres = _normalize_rows(rng.standard_normal((max(2, round(rows**0.5)), dimension), np.float32))
    weights = (1 + np.arange(dimension)) ** -0.25
    rotation = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0]
    shape = (CLUSTER_SPREAD * weights[:, None] / np.linalg.norm(weights) * rotation).astype(np.float32)
    sizes = rng.pareto(2.0, len(centres)) + 0.2
    sizes /= sizes.sum()

    def draw(n: int) -> Rows:
        noise = rng.standard_normal((n, dimension), np.float32) @ shape
        return _normalize_rows(centres[rng.choice(len(centres), n, p=sizes)] + noise)

    total = rows + max(1, rows // 100)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "queries.npy", draw(queries))
    out = open_memmap(folder / "rows.npy", mode="w+", dtype=np.float32, shape=(total, dimension))
    for first in range(0, total, BLOCK_ROWS):
        out[first : first + BLOCK_ROWS] = draw(len(out[first : first + BLOCK_ROWS]))
    out.flush()
    _write_metadata(folder, (f"row {number}" for number in range(total)), total, seed)
    return Dataset(folder, f"{rows:,} rows x {dimension}, generated in clusters, seed {seed}", rows, seed)


@dataclass(frozen=True)
class ExternalVectors:
    """Vectors from another source, such as the chunks of a knowledge base."""

    name: str
    rows: NDArray[np.floating]
    """(n, dimension), not zero; they are normalized to length 1."""
    queries: NDArray[np.floating] | None = None
    """(q, dimension); None holds out some of the rows as queries."""
    texts: Sequence[str] | None = None
    """One for each row."""
    shuffle: bool = True
    """Select the rows to add later at random, since adjacent rows may be related."""


def write_dataset(folder: Path, vectors: ExternalVectors, *, queries: int = 200, seed: int = 1) -> Dataset:
    """Write vectors for the processes of a benchmark. 1 % of the rows is kept for the add measurement.

    Raises:
        InvalidOption: there are fewer than 20 rows.
        InvalidVector: a row is zero or not finite.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(vectors.rows)) if vectors.shuffle else np.arange(len(vectors.rows))
    query_rows = vectors.queries
    if query_rows is None:
        held_out = max(1, min(queries, len(order) // 10))
        query_rows, order = vectors.rows[order[:held_out]], order[held_out:]
    if len(order) < 20 or not len(query_rows):
        raise InvalidOption("data", f"{len(vectors.rows)} rows", "at least 30 rows")
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "queries.npy", _normalize_rows(np.asarray(query_rows[:queries], np.float32)))
    out = open_memmap(folder / "rows.npy", mode="w+", dtype=np.float32, shape=(len(order), vectors.rows.shape[1]))
    for first in range(0, len(order), BLOCK_ROWS):
        block = np.asarray(vectors.rows[order[first : first + BLOCK_ROWS]], np.float32)
        out[first : first + BLOCK_ROWS] = _normalize_rows(block, first)
    out.flush()
    texts = vectors.texts
    _write_metadata(folder, (texts[i] if texts else f"row {i}" for i in order.tolist()), len(order), seed)
    base = len(order) - max(1, len(order) // 100)
    return Dataset(folder, f"{vectors.name}: {base:,} rows x {vectors.rows.shape[1]}", base, seed)


def read_hdf5(file: Path) -> ExternalVectors:
    """Read an ann-benchmarks file: rows in `train`, queries in `test`. Its neighbours are ignored.

    Rows are normalized and compared by cosine, even if the data set is Euclidean, so the neighbours are recomputed.

    Raises:
        MissingExtra: h5py is not installed.
        InvalidOption: the file has another layout.
    """
    try:
        import h5py  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("reading HDF5 files", extra="bench") from error
    try:
        with h5py.File(file, "r") as opened:
            rows, queries = np.asarray(opened["train"], np.float32), np.asarray(opened["test"], np.float32)
    except (OSError, KeyError, ValueError) as error:
        raise InvalidOption("--hdf5", str(file), f"a file in the ann-benchmarks layout: {error}") from error
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

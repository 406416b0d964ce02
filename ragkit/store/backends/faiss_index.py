"""A faiss index over the first rows of a matrix that only grows: built, grown, asked, and kept in a file.

The file is nothing but a saving of time. It is written whole and then put in its place, bound to its vector file by
that file's id, and given to faiss only after its checksum was found right: faiss itself trusts what it reads. That
keeps out damage, not malice: remove the `.faiss` file of a directory from a stranger. There is no pickle in it.
"""

from __future__ import annotations

import math
import os
import secrets
import struct
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import faiss
import numpy as np
from numpy.typing import NDArray

from ragkit.errors import InvalidOption
from ragkit.store.base import Rows
from ragkit.store.native.exact_search import RowNumbers
from ragkit.store.options import FaissOptions

_untyped_faiss: Any = faiss
"""faiss without its type hints, which are not those of the wrappers that it puts around its classes."""

_MAGIC = b"ragkfai\n"
_VERSION = 1
_HEADER = struct.Struct("<8sI16s16sQQ")
"""Magic, version, id of the vector file, fingerprint of the settings, rows it was trained on, bytes of the body."""
_CHECKSUM_BYTES = 16
"""Then a checksum of the header and the body, and the body."""
_READ_BLOCK_BYTES = 1 << 22
_MIN_ROWS_PER_CENTROID = 39
"""Rows for each centroid, of which faiss wants no fewer for its k-means."""
_KMEANS_ITERATIONS = 8
"""Recall was the same as with faiss's 25, in a third of the time."""
_RETRAIN_GROWTH = 4
"""An `ivfpq` index that has grown by this factor since it was trained is made anew."""


class FaissIndex:
    """An index of one of the three kinds. One thread may search while others search, but not while one adds."""

    def __init__(self, index: faiss.Index, options: FaissOptions, trained_rows: int) -> None:
        """For `of` and `read` alone."""
        self._index, self._options, self._trained_rows = index, options, trained_rows
        self.rows = int(index.ntotal)
        """How many rows are in it."""

    @classmethod
    def create(cls, matrix: Rows, options: FaissOptions) -> FaissIndex:
        """An empty index for a matrix like this one, trained on it where the kind needs that."""
        rows, dimension = matrix.shape
        if options.method == "flat":
            return cls(faiss.IndexFlatIP(dimension), options, 0)
        if options.method == "hnsw":
            graph = faiss.IndexHNSWFlat(dimension, options.m, faiss.METRIC_INNER_PRODUCT)
            graph.hnsw.efConstruction = options.ef_construction
            return cls(graph, options, 0)
        cells = min(options.nlist or 4 * math.isqrt(rows), max(1, rows // _MIN_ROWS_PER_CENTROID))
        # np: without polysemous training, which takes minutes and is of no use here
        code = f"IVF{cells},PQ{_code_bytes(dimension, options.code_bytes)}x8np"
        index = faiss.index_factory(dimension, code, faiss.METRIC_INNER_PRODUCT)
        if isinstance(index, faiss.IndexIVFPQ):
            index.pq.cp.niter = _KMEANS_ITERATIONS
        index.train(np.ascontiguousarray(matrix))
        return cls(index, options, rows)

    @property
    def has_exact_scores(self) -> bool:
        """Whether the scores that it gives are those of the rows, but for rounding; those of `ivfpq` are estimates."""
        return self._options.method != "ivfpq"

    @property
    def refine_factor(self) -> int:
        """How many times as many candidates as results are wanted of it."""
        return self._options.refine if self._options.method == "ivfpq" else 1

    def is_outgrown(self, rows: int) -> bool:
        """Whether it was trained on far fewer rows than there are."""
        return bool(self._trained_rows) and rows > _RETRAIN_GROWTH * self._trained_rows

    def add(self, rows: Rows) -> None:
        """Add rows at the end."""
        self._index.add(np.ascontiguousarray(rows))
        self.rows = int(self._index.ntotal)

    def search(
        self, query: Rows, n: int, allowed: NDArray[np.bool_] | None, share: float
    ) -> tuple[RowNumbers, NDArray[np.float32]]:
        """The nearest rows, and their products with the query as the index sees them; it may run dry before `n`.

        Args:
            query: (dimension,), of length 1.
            n: how many are wanted.
            allowed: (rows,): which rows may be found; None for all.
            share: about how many of them are allowed, above 0 and up to 1.
        """
        effort = self._search_width(n, share)
        if allowed is None:
            parameters = _unfiltered_parameters(self._options.method, effort)
            scores, rows = self._index.search(query[None], min(n, self.rows), params=parameters)
        else:
            # the selector looks at the bits, and faiss at the selector, as long as the search runs
            bits = np.packbits(allowed, bitorder="little")
            parameters = _search_parameters(self._options.method, effort, _untyped_faiss.IDSelectorBitmap(bits))
            scores, rows = self._index.search(query[None], min(n, self.rows), params=parameters)
        if rows[0, -1] >= 0:
            return rows[0], scores[0]
        found = rows[0] >= 0
        return rows[0][found], scores[0][found]

    def _search_width(self, n: int, share: float) -> int:
        """How much a search looks at: of that, only this share counts."""
        if self._options.method == "ivfpq":
            return math.ceil(self._options.nprobe / share)
        return max(n, math.ceil(self._options.ef_search / share))

    def save(self, path: Path, file_id: bytes) -> bool:
        """Keep it in a file, for the vector file of that id; whether the disk took it."""
        # what a process that is killed leaves behind is swept away by that name, as old vector files are
        fresh = path.with_name(f"vectors-{secrets.token_hex(4)}.part")
        try:
            with fresh.open("xb") as file:
                file.write(bytes(_HEADER.size + _CHECKSUM_BYTES))
                body = _HashingWriter(file)
                faiss.write_index(self._index, _untyped_faiss.PyCallbackIOWriter(body.write))
                settings = _fingerprint(self._options)
                head = _HEADER.pack(_MAGIC, _VERSION, file_id, settings, self._trained_rows, body.size)
                file.seek(0)
                file.write(head + _checksum(head, body.digest))
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        except OSError:
            return False
        finally:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
        return True

    @classmethod
    def load(cls, path: Path, file_id: bytes, matrix: Rows, options: FaissOptions) -> FaissIndex | None:
        """The index of the matrix that is kept in a file; None where that is missing, damaged or of something else."""
        with suppress(OSError, struct.error), path.open("rb") as file:
            head = file.read(_HEADER.size)
            expected = file.read(_CHECKSUM_BYTES)
            magic, version, owner, settings, trained_rows, size = _HEADER.unpack(head)
            wanted = (_MAGIC, _VERSION, file_id, _fingerprint(options))
            if (magic, version, owner, settings) != wanted or _checksum(head, _hash_rest(file, size)) != expected:
                return None
            file.seek(_HEADER.size + _CHECKSUM_BYTES)
            with suppress(RuntimeError):  # written by another version of faiss, which this one cannot read
                index = faiss.read_index(_untyped_faiss.PyCallbackIOReader(file.read))
                if index.d == matrix.shape[1] and index.ntotal <= len(matrix):
                    return cls(index, options, trained_rows)
        return None


def min_index_rows(options: FaissOptions) -> int:
    """From how many rows on there is an index: what was asked for, or what it takes to train one."""
    return max(1, options.index_rows, _MIN_ROWS_PER_CENTROID * 256 if options.method == "ivfpq" else 0)


def _search_parameters(method: str, effort: int, selector: faiss.IDSelector | None) -> faiss.SearchParameters:
    parameters: faiss.SearchParameters
    if method == "flat":
        parameters = _untyped_faiss.SearchParameters(sel=selector)
    elif method == "ivfpq":
        parameters = _untyped_faiss.SearchParametersIVF(sel=selector, nprobe=effort)
    else:
        parameters = _untyped_faiss.SearchParametersHNSW(sel=selector, efSearch=effort)
    return parameters


@lru_cache(maxsize=64)
def _unfiltered_parameters(method: str, effort: int) -> faiss.SearchParameters:
    """Made once: that takes as long as a tenth of a search. Nobody changes them."""
    return _search_parameters(method, effort, None)


class _HashingWriter:
    """Writes to a file, and sums up what was written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._hash = file, blake2b(digest_size=_CHECKSUM_BYTES)
        self.size = 0

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self.size += len(data)

    @property
    def digest(self) -> bytes:
        return self._hash.digest()


def _hash_rest(file: BinaryIO, size: int) -> bytes:
    """The checksum of the rest of a file; of less than all when it is not of this size."""
    total = blake2b(digest_size=_CHECKSUM_BYTES)
    while block := file.read(_READ_BLOCK_BYTES):
        size -= len(block)
        total.update(block)
    return total.digest() if not size else b""


def _checksum(head: bytes, body: bytes) -> bytes:
    return blake2b(head + body, digest_size=_CHECKSUM_BYTES).digest()


def _fingerprint(options: FaissOptions) -> bytes:
    """What the file depends on: an index of other settings is made anew."""
    by_method: dict[str, tuple[object, ...]] = {
        "flat": (),
        "hnsw": (options.m, options.ef_construction),
        "ivfpq": (options.nlist, options.code_bytes),
    }
    return blake2b(repr((options.method, by_method[options.method])).encode(), digest_size=16).digest()


def _code_bytes(dimension: int, wanted: int | None) -> int:
    """Into how many pieces of one byte a row is cut: what was asked for, or the divisor nearest to an eighth of it."""
    if wanted is not None:
        if dimension % wanted:
            raise InvalidOption("code_bytes", wanted, f"a divisor of the dimension {dimension}")
        return wanted
    return max(n for n in range(1, max(2, dimension // 8 + 1)) if dimension % n == 0)

"""A faiss index of the first rows of a matrix that only grows, cached in a file.

The file is replaced atomically, contains the id of its vector file, and is passed to faiss only if its checksum
matches, because faiss does not validate what it reads. The checksum detects corruption, not tampering: delete the
`.faiss` file of a directory from an untrusted source. The format does not use pickle.
"""

from __future__ import annotations

import math
import os
import secrets
import struct
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b, file_digest
from io import BufferedRandom, BufferedReader
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from ragkit.errors import InvalidOption
from ragkit.store.base import Rows
from ragkit.store.native.exact_search import RowNumbers
from ragkit.store.options import FaissOptions

_untyped_faiss: Any = faiss
"""faiss without its type hints, which do not match the Python wrappers of its classes."""

_MAGIC = b"ragkfai\n"
_VERSION = 1
_HEADER = struct.Struct("<8sI16s16sQQ")
"""Magic, version, id of the vector file, fingerprint of the settings, number of training rows, bytes of the body."""
_CHECKSUM_BYTES = 16
"""The header is followed by a checksum of the header and the body, and by the body."""
_BODY_OFFSET = _HEADER.size + _CHECKSUM_BYTES
_MIN_ROWS_PER_CENTROID = 39
"""Minimum of faiss's k-means."""
_KMEANS_ITERATIONS = 8
"""Same recall as with faiss's default of 25, in a third of the time."""
_RETRAIN_GROWTH = 4
"""An `ivfpq` index is rebuilt when it has grown by this factor since it was trained."""


class FaissIndex:
    """A faiss index. Searches may run in parallel, but not while rows are added."""

    def __init__(self, index: faiss.Index, options: FaissOptions, trained_rows: int) -> None:
        """Use `create` or `load`."""
        self._index, self._options, self._trained_rows = index, options, trained_rows
        self.rows = int(index.ntotal)
        """Number of rows."""

    @classmethod
    def create(cls, matrix: Rows, options: FaissOptions) -> FaissIndex:
        """An empty index for a matrix; an `ivfpq` index is trained on it."""
        rows, dimension = matrix.shape
        if options.method == "flat":
            return cls(faiss.IndexFlatIP(dimension), options, 0)
        if options.method == "hnsw":
            graph = faiss.IndexHNSWFlat(dimension, options.m, faiss.METRIC_INNER_PRODUCT)
            graph.hnsw.efConstruction = options.ef_construction
            return cls(graph, options, 0)
        cells = min(options.nlist or 4 * math.isqrt(rows), max(1, rows // _MIN_ROWS_PER_CENTROID))
        # np: no polysemous training, which takes minutes and is not used
        code = f"IVF{cells},PQ{_code_bytes(dimension, options.code_bytes)}x8np"
        index = faiss.index_factory(dimension, code, faiss.METRIC_INNER_PRODUCT)
        if isinstance(index, faiss.IndexIVFPQ):
            index.pq.cp.niter = _KMEANS_ITERATIONS
        index.train(np.ascontiguousarray(matrix))
        return cls(index, options, rows)

    @property
    def has_exact_scores(self) -> bool:
        """Whether its scores are exact except for rounding; the scores of `ivfpq` are estimates."""
        return self._options.method != "ivfpq"

    @property
    def refine_factor(self) -> int:
        """Number of candidates per result."""
        return self._options.refine if self._options.method == "ivfpq" else 1

    def is_outgrown(self, rows: int) -> bool:
        """Whether it was trained on far fewer than `rows` rows."""
        return bool(self._trained_rows) and rows > _RETRAIN_GROWTH * self._trained_rows

    def add(self, rows: Rows) -> None:
        """Append rows."""
        self._index.add(np.ascontiguousarray(rows))
        self.rows = int(self._index.ntotal)

    def search(
        self, query: Rows, n: int, allowed: NDArray[np.bool_] | None, share: float
    ) -> tuple[RowNumbers, NDArray[np.float32]]:
        """The nearest rows, and their scores in the index; possibly fewer than `n`.

        Args:
            query: (dimension,), of length 1.
            n: the number of results.
            allowed: (rows,): which rows may be returned; None for all.
            share: approximate share of the allowed rows, above 0 and up to 1.
        """
        effort = self._search_width(n, share)
        if allowed is None:
            parameters = _unfiltered_parameters(self._options.method, effort)
            scores, rows = self._index.search(query[None], min(n, self.rows), params=parameters)
        else:
            # the selector refers to `bits`, which must exist until the search returns
            bits = np.packbits(allowed, bitorder="little")
            parameters = _search_parameters(self._options.method, effort, _untyped_faiss.IDSelectorBitmap(bits))
            scores, rows = self._index.search(query[None], min(n, self.rows), params=parameters)
        if rows[0, -1] >= 0:
            return rows[0], scores[0]
        is_found = rows[0] >= 0
        return rows[0][is_found], scores[0][is_found]

    def _search_width(self, n: int, share: float) -> int:
        """nprobe or efSearch, increased because only a share of the visited rows is allowed."""
        if self._options.method == "ivfpq":
            return math.ceil(self._options.nprobe / share)
        return max(n, math.ceil(self._options.ef_search / share))

    def save(self, path: Path, file_id: bytes) -> bool:
        """Save the index for the vector file with this id; returns whether that succeeded."""
        # by this name, the store deletes the file after a crash, like old vector files
        fresh = path.with_name(f"vectors-{secrets.token_hex(4)}.part")
        try:
            with fresh.open("x+b") as file:
                file.seek(_BODY_OFFSET)
                faiss.write_index(self._index, _untyped_faiss.PyCallbackIOWriter(file.write))
                body_bytes = file.tell() - _BODY_OFFSET
                header = _HEADER.pack(
                    _MAGIC, _VERSION, file_id, _fingerprint(self._options), self._trained_rows, body_bytes
                )
                checksum = _checksum(header, file)
                file.seek(0)
                file.write(header + checksum)
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
        """Load the index of the matrix; None if the file is missing, damaged, or has other settings or rows."""
        with suppress(OSError, struct.error), path.open("rb") as file:
            header = file.read(_HEADER.size)
            checksum = file.read(_CHECKSUM_BYTES)
            *identity, trained_rows, body_bytes = _HEADER.unpack(header)
            if identity != [_MAGIC, _VERSION, file_id, _fingerprint(options)]:
                return None
            if os.fstat(file.fileno()).st_size != _BODY_OFFSET + body_bytes or _checksum(header, file) != checksum:
                return None
            file.seek(_BODY_OFFSET)
            with suppress(RuntimeError):  # written by an incompatible version of faiss
                index = faiss.read_index(_untyped_faiss.PyCallbackIOReader(file.read))
                if index.d == matrix.shape[1] and index.ntotal <= len(matrix):
                    return cls(index, options, trained_rows)
        return None


def min_index_rows(options: FaissOptions) -> int:
    """The number of rows from which an index is built: the option, or the minimum for training."""
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
    """Cached, because creating them takes a tenth of a search. They are not modified."""
    return _search_parameters(method, effort, None)


def _checksum(header: bytes, file: BufferedReader | BufferedRandom) -> bytes:
    """The checksum of the header and of the body in the file."""
    file.seek(_BODY_OFFSET)
    body = file_digest(file, lambda: blake2b(digest_size=_CHECKSUM_BYTES)).digest()
    return blake2b(header + body, digest_size=_CHECKSUM_BYTES).digest()


def _fingerprint(options: FaissOptions) -> bytes:
    """The fingerprint of the build settings; an index with another one is rebuilt."""
    by_method: dict[str, tuple[object, ...]] = {
        "flat": (),
        "hnsw": (options.m, options.ef_construction),
        "ivfpq": (options.nlist, options.code_bytes),
    }
    return blake2b(repr((options.method, by_method[options.method])).encode(), digest_size=16).digest()


def _code_bytes(dimension: int, option: int | None) -> int:
    """The bytes of a vector's code: the option, or the largest divisor of the dimension up to an eighth of it."""
    if option is not None:
        if dimension % option:
            raise InvalidOption("code_bytes", option, f"a divisor of the dimension {dimension}")
        return option
    return max(n for n in range(1, max(2, dimension // 8 + 1)) if dimension % n == 0)

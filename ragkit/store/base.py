"""The protocol of the vector stores, and the validation that they share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import DimensionMismatch, InvalidOption, InvalidVector, StoreError
from ragkit.records import JSON, Document, SearchResult

Rows: TypeAlias = NDArray[np.float32]
Filter: TypeAlias = Mapping[str, JSON]
"""A filter of the filter language (`ragkit.store.filters.language`); an empty one matches every document."""

UNIT_TOLERANCE = 1e-3
"""Maximum deviation of a vector's length from 1; float16 and int8 services round by less."""

REQUIRED_METHODS = ("add_documents", "search", "delete", "clear", "count", "scan", "close")
"""The methods of `Store`, which a registered store implements."""

MethodT = TypeVar("MethodT")


class Store(Protocol):
    """Stores documents by id, with one vector of length 1 each, and finds the nearest.

    A score is the cosine similarity, in [-1, 1]; equal scores are ordered by id. Results are complete: a search
    returns `min(top_k, number of matches)` results, whatever the filter. Documents are returned unchanged, except
    that their metadata are plain dicts and lists. The constructor takes one argument, the options of the store.
    """

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """Add documents with their vectors, an array of (n, dimension); returns the ids in order.

        An existing id is replaced; if an id occurs twice in a call, the last document wins.

        Raises:
            DimensionMismatch: the store holds vectors of another dimension.
            InvalidVector: a vector is not finite or not of length 1.
            StoreError: a document's metadata are not JSON values; nothing was added.
        """

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """The documents that match the filter and are nearest to a vector of (dimension,), best first.

        Raises:
            DimensionMismatch: the query has another dimension than the stored vectors.
            InvalidVector: the query is not finite or not of length 1.
            InvalidFilter: the filter has an unknown operator or a value of the wrong type.
            InvalidOption: `top_k` is below 1.
        """

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents; returns the number of deleted documents."""

    def clear(self) -> None:
        """Delete all documents. The next ones may have another dimension, unless the options fix it."""

    def count(self) -> int:
        """The number of documents."""

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """Every (id, document, vector), streamed, ordered by id."""

    def close(self) -> None:
        """Close files and connections; may be called twice."""


def placeholder(method: MethodT) -> MethodT:
    """Mark a method that only raises; `missing_methods` counts it as missing."""
    vars(method)["is_placeholder"] = True
    return method


def missing_methods(store: type[object]) -> list[str]:
    """The REQUIRED_METHODS that a class does not implement, in that order."""
    methods = {name: getattr(store, name, None) for name in REQUIRED_METHODS}
    return [name for name, method in methods.items() if not method or getattr(method, "is_placeholder", False)]


MAX_METADATA_DEPTH = 64
"""Maximum nesting depth of a document's metadata."""


def validate_rows(embeddings: NDArray[np.floating], documents: int, dimension: int | None) -> Rows:
    """`embeddings` as contiguous float32 of (documents, dimension). Raises InvalidVector or DimensionMismatch."""
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow of float32 becomes inf, which is rejected below
        rows = np.ascontiguousarray(embeddings, np.float32)
        if rows.ndim != 2 or len(rows) != documents:
            raise InvalidVector(0, f"has shape {rows.shape} instead of ({documents}, dimension)")
        if dimension is not None and documents and rows.shape[1] != dimension:
            raise DimensionMismatch(rows.shape[1], dimension)
        lengths = np.linalg.norm(rows, axis=1)
    invalid = np.flatnonzero(~(np.abs(lengths - 1) <= UNIT_TOLERANCE))
    if len(invalid):
        raise InvalidVector(int(invalid[0]), f"has length {lengths[invalid[0]]:.4g}")
    return rows


def validate_query(query: NDArray[np.floating], dimension: int | None) -> Rows:
    """`query` as a float32 vector of (dimension,). Raises InvalidVector or DimensionMismatch."""
    row = query
    if type(query) is not np.ndarray or query.dtype != np.float32 or query.ndim != 1 or not query.flags.c_contiguous:
        with np.errstate(over="ignore", invalid="ignore"):  # float32 may overflow to inf, which is rejected below
            row = np.ascontiguousarray(query, np.float32).reshape(-1)
    # fast path: a search takes less than a millisecond
    if dimension in {None, len(row)} and abs(float(row.dot(row)) - 1) <= UNIT_TOLERANCE:
        return row
    validate_rows(row[None], 1, dimension)
    return row


def validate_stored_dimension(stored: int, expected: int | None) -> None:
    """Raise DimensionMismatch if the stored vectors (dimension 0: none) contradict the option `dimension`."""
    if stored and expected not in {None, stored}:
        raise DimensionMismatch(expected or 0, stored)


def validate_top_k(top_k: int) -> int:
    """`top_k`. Raises InvalidOption if it is below 1."""
    if top_k < 1:
        raise InvalidOption("top_k", top_k, ">= 1")
    return top_k


def validate_ids(ids: Sequence[str]) -> list[str]:
    """The distinct ids, in order of first appearance. Raises InvalidOption for a single string."""
    if isinstance(ids, str):
        raise InvalidOption("ids", ids, "a list of ids")
    return list(dict.fromkeys(ids))


def validate_documents(documents: Sequence[Document]) -> list[Document]:
    """The documents with their metadata copied as plain dicts and lists, so that callers cannot change them later.

    Raises:
        StoreError: metadata that JSON cannot represent: another type, NaN, infinity, or a key that is not a string.
    """
    return [replace(document, metadata=_to_json_metadata(document)) for document in documents]


def _to_json_metadata(document: Document) -> dict[str, JSON]:
    try:
        return {_validate_key(key): _to_json_value(value, key, 0) for key, value in document.metadata.items()}
    except ValueError as error:
        raise StoreError(f"the metadata of document {document.id!r} cannot be stored: {error}") from error


def _to_json_value(value: object, path: str, depth: int) -> JSON:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{path!r} must be a finite number (got {value})")
        return value
    if depth >= MAX_METADATA_DEPTH:
        raise ValueError(f"{path[:40]!r} exceeds the nesting limit of {MAX_METADATA_DEPTH} levels")
    if isinstance(value, Mapping):
        return {_validate_key(key): _to_json_value(item, f"{path}.{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_value(item, path, depth + 1) for item in value]
    raise ValueError(f"{path!r} must be a JSON value (got a {type(value).__name__})")


def _validate_key(key: object) -> str:
    if not isinstance(key, str):
        raise ValueError(f"keys must be strings (got {key!r})")
    return key

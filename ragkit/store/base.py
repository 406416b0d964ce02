"""What every vector store keeps: documents with unit rows in, the nearest of them out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import DimensionMismatch, InvalidOption, InvalidVector, StoreError
from ragkit.records import JSON, Document, SearchResult

Rows: TypeAlias = NDArray[np.float32]
Filter: TypeAlias = Mapping[str, JSON]
"""The one filter language (`ragkit.store.filters.language`); an empty one lets everything through."""

UNIT_TOLERANCE = 1e-3
"""How far a row's length may be from 1; float16 and int8 services round by less than this."""


class Store(Protocol):
    """Holds documents with one unit row each, by id, and finds the nearest.

    A score is the cosine, in [-1, 1]; equal scores are ordered by id. Results are complete:
    `min(top_k, how many match)` of them, whatever the filter. A document comes out as it went in, but for its
    metadata, which come out as plain dicts and lists. The constructor takes one argument, the store's options.
    """

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """Put documents in, one row of (n, dimension) each; returns their ids in order.

        An id that exists is replaced; of two documents with one id in a call the last one stays.

        Raises:
            DimensionMismatch: the rows are of another width than those that are here.
            InvalidVector: a row is not finite or not of length 1.
            StoreError: a document's metadata are not JSON values; nothing was put in.
        """

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """The nearest documents to a (dimension,) row among those that the filter lets through, best first.

        Raises:
            DimensionMismatch: the query is of another width than the rows.
            InvalidVector: the query is not finite or not of length 1.
            InvalidFilter: the filter has an unknown operator or a value of the wrong type.
            InvalidOption: `top_k` is below 1.
        """

    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents; returns how many of the ids were there."""

    def clear(self) -> None:
        """Remove every document. The next ones may be of another dimension, unless the options fix it."""

    def count(self) -> int:
        """How many documents are here."""

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """Every (id, document, row), streamed, in the order of the ids."""

    def close(self) -> None:
        """Let go of files and connections; closing twice is fine."""


MAX_METADATA_DEPTH = 64
"""How deep a document's metadata may be nested."""


def validate_rows(embeddings: NDArray[np.floating], documents: int, dimension: int | None) -> Rows:
    """`embeddings` as contiguous float32 of (documents, dimension), or the error that says what is wrong."""
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large for float32 becomes inf, and is refused
        rows = np.ascontiguousarray(embeddings, np.float32)
        if rows.ndim != 2 or len(rows) != documents:
            raise InvalidVector(0, f"has shape {rows.shape} where ({documents}, dimension) is wanted")
        if dimension is not None and documents and rows.shape[1] != dimension:
            raise DimensionMismatch(rows.shape[1], dimension)
        lengths = np.linalg.norm(rows, axis=1)
    wrong = np.flatnonzero(~(np.abs(lengths - 1) <= UNIT_TOLERANCE))
    if len(wrong):
        raise InvalidVector(int(wrong[0]), f"has length {lengths[wrong[0]]:.4g}")
    return rows


def validate_query(query: NDArray[np.floating], dimension: int | None) -> Rows:
    """`query` as a float32 row of (dimension,), or the error that says what is wrong."""
    row = query
    if type(query) is not np.ndarray or query.dtype != np.float32 or query.ndim != 1 or not query.flags.c_contiguous:
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large becomes inf, and is refused
            row = np.ascontiguousarray(query, np.float32).reshape(-1)
    # what is right in every way is seen at a glance: a search is short
    if dimension in {None, len(row)} and abs(float(row.dot(row)) - 1) <= UNIT_TOLERANCE:
        return row
    validate_rows(row[None], 1, dimension)
    return row


def validate_top_k(top_k: int) -> int:
    """`top_k`, or InvalidOption when it is below 1."""
    if top_k < 1:
        raise InvalidOption("top_k", top_k, ">= 1")
    return top_k


def validate_ids(ids: Sequence[str]) -> list[str]:
    """The distinct ids, in order of first appearance; a lone string, which is a sequence too, is refused."""
    if isinstance(ids, str):
        raise InvalidOption("ids", ids, "a list of ids")
    return list(dict.fromkeys(ids))


def validate_documents(documents: Sequence[Document]) -> list[Document]:
    """The documents with their metadata copied as plain dicts and lists, so that no caller can change them later.

    Raises:
        StoreError: metadata hold something that JSON cannot: another type, NaN, an infinity, a key that is no string.
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
            raise ValueError(f"{path!r} holds {value}, JSON knows finite numbers only")
        return value
    if depth >= MAX_METADATA_DEPTH:
        raise ValueError(f"{path[:40]!r} is nested more than {MAX_METADATA_DEPTH} levels deep")
    if isinstance(value, Mapping):
        return {_validate_key(key): _to_json_value(each, f"{path}.{key}", depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_value(each, path, depth + 1) for each in value]
    raise ValueError(f"{path!r} holds a {type(value).__name__}, a JSON value is wanted")


def _validate_key(key: object) -> str:
    if not isinstance(key, str):
        raise ValueError(f"the key {key!r} is not a string")
    return key

"""A Qdrant server, through the official client (package `qdrant-client`).

The URL `:memory:` selects the in-memory mode of the client, which is written in Python: slow, and not persistent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast

import httpx
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from ragkit.batches import batches_by_size
from ragkit.errors import StoreError
from ragkit.store.backends.qdrant_engine import DOCUMENT_KEY, NAME_KEY, NUMBER_PREFIX, Payload
from ragkit.store.base import Rows
from ragkit.store.filters.pushdown import AllOf, AnyOf, Condition, FieldMatches, FieldMatchesNone, FieldPresent
from ragkit.store.filters.tokens import to_column_filter
from ragkit.store.options import QdrantOptions

_PAGE_POINTS = 1_000
_UPSERT_POINTS = 10_000
_UPSERT_BYTES = 8 * 2**20
"""Approximate size of a request; by default, a server rejects requests over 32 MiB."""
_VALUE_BYTES = 12
"""Size of a vector's number as JSON."""

ResultT = TypeVar("ResultT")


class QdrantServerEngine:
    """A `QdrantEngine` with a collection of a server."""

    def __init__(self, options: QdrantOptions) -> None:
        self._options = options
        self._collection_name = options.collection
        self._location = f"the Qdrant server at {options.url}"
        self._is_in_memory = options.url == ":memory:"
        self._client: QdrantClient | None = None
        with self._translate_errors():
            self._client = self._connect(options)

    def dimension(self) -> int:
        if not self._call(lambda client: client.collection_exists(self._collection_name)):
            return 0
        rows = self._call(lambda client: client.get_collection(self._collection_name)).config.params.vectors
        if not isinstance(rows, models.VectorParams) or rows.distance != models.Distance.DOT:
            raise StoreError(
                f"the collection {self._collection_name!r} of {self._location} was not created by this store: "
                "choose another name with its option `collection`"
            )
        return rows.size

    def create(self, dimension: int) -> None:
        rows = models.VectorParams(size=dimension, distance=models.Distance.DOT)
        self._call(lambda client: client.create_collection(self._collection_name, vectors_config=rows))

    def drop(self) -> None:
        self._call(lambda client: client.delete_collection(self._collection_name))

    def delete_all(self) -> None:
        everything = models.FilterSelector(filter=models.Filter())
        self._call(lambda client: client.delete(self._collection_name, everything, wait=True))

    def indexed_fields(self) -> set[str]:
        return set(self._call(lambda client: client.get_collection(self._collection_name)).payload_schema)

    def create_index(self, name: str, kind: str) -> None:
        if self._is_in_memory:
            return  # not supported, with a warning
        schema = models.PayloadSchemaType(kind)
        self._call(lambda client: client.create_payload_index(self._collection_name, name, schema, wait=True))

    def upsert(self, keys: Sequence[str], rows: Rows, payloads: Sequence[Payload]) -> None:
        points = [
            models.PointStruct(id=key, vector=row, payload=dict(payload))
            for key, row, payload in zip(keys, rows.tolist(), payloads, strict=True)
        ]
        row_bytes = _VALUE_BYTES * rows.shape[1]
        for batch in batches_by_size(
            points, lambda point: row_bytes + 2 * len(str(point.payload)), _UPSERT_POINTS, _UPSERT_BYTES
        ):
            self._upsert_batch(batch)

    def _upsert_batch(self, points: list[models.PointStruct]) -> None:
        self._call(lambda client: client.upsert(self._collection_name, points, wait=True))

    def search(self, query: Rows, limit: int, condition: Condition) -> list[tuple[str, float]]:
        if self._options.method == "hnsw":
            points = self._query(query, limit, condition, exact=False)
            if len(points) == limit:
                return points
        # a graph search may return too few
        return self._query(query, limit, condition, exact=True)

    def _query(self, query: Rows, limit: int, condition: Condition, *, exact: bool) -> list[tuple[str, float]]:
        answer = self._call(
            lambda client: client.query_points(
                self._collection_name,
                query=query.tolist(),
                limit=limit,
                query_filter=None if condition is True else _to_filter(condition),
                search_params=self._search_params(limit, exact=exact),
                with_payload=[DOCUMENT_KEY],
            )
        )
        return [(self._payload_text(point, DOCUMENT_KEY), point.score) for point in answer.points]

    def _search_params(self, limit: int, *, exact: bool) -> models.SearchParams | None:
        if self._is_in_memory:
            return None  # always exact; parameters cause a warning
        return models.SearchParams(exact=exact, hnsw_ef=None if exact else max(self._options.ef, limit))

    def filter_existing(self, keys: Sequence[str]) -> list[str]:
        points = self._call(lambda client: client.retrieve(self._collection_name, list(keys), with_payload=False))
        return [str(point.id) for point in points]

    def delete(self, keys: Sequence[str]) -> None:
        points = models.PointIdsList(points=list(keys))
        self._call(lambda client: client.delete(self._collection_name, points, wait=True))

    def scroll_names(self) -> Iterator[tuple[str, str]]:
        offset: models.ExtendedPointId | None = None
        while True:
            points, offset = self._scroll_page(offset)
            for point in points:
                yield self._payload_text(point, NAME_KEY), str(point.id)
            if offset is None:
                return

    def _scroll_page(
        self, offset: models.ExtendedPointId | None
    ) -> tuple[list[models.Record], models.ExtendedPointId | None]:
        name, keys = self._collection_name, [NAME_KEY]
        return self._call(lambda client: client.scroll(name, limit=_PAGE_POINTS, offset=offset, with_payload=keys))

    def retrieve(self, keys: Sequence[str]) -> list[tuple[str, list[float]]]:
        name, payload = self._collection_name, [DOCUMENT_KEY]
        points = self._call(lambda client: client.retrieve(name, list(keys), with_payload=payload, with_vectors=True))
        return [(self._payload_text(point, DOCUMENT_KEY), cast("list[float]", point.vector)) for point in points]

    def count(self) -> int:
        return self._call(lambda client: client.count(self._collection_name, exact=True)).count

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connect(self, options: QdrantOptions) -> QdrantClient:
        if self._is_in_memory:
            return QdrantClient(":memory:")
        key = options.api_key or None
        return QdrantClient(url=options.url, api_key=key, timeout=options.timeout_seconds, check_compatibility=False)

    def _require_client(self) -> QdrantClient:
        if self._client is None:
            raise StoreError(f"the store in {self._location} is closed: open it again")
        return self._client

    def _payload_text(self, point: models.ScoredPoint | models.Record, key: str) -> str:
        text = (point.payload or {}).get(key)
        if not isinstance(text, str):
            raise StoreError(
                f"the collection {self._collection_name!r} of {self._location} has points of another writer: "
                "choose another name with its option `collection`"
            )
        return text

    def _call(self, function: Callable[[QdrantClient], ResultT]) -> ResultT:
        with self._translate_errors():
            return function(self._require_client())

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate the errors of the client."""
        try:
            yield
        except ResourceExhaustedResponse as error:
            raise StoreError(f"{self._location} is rate limited: retry in {error.retry_after_s} seconds") from error
        except UnexpectedResponse as error:
            raise StoreError(f"{self._location} rejected a request: {_format_response(error)}") from error
        except (ResponseHandlingException, httpx.HTTPError) as error:
            cause = error.source if isinstance(error, ResponseHandlingException) else error
            hint = "start it, or correct the option `url`"
            raise StoreError(f"{self._location} cannot be reached ({cause}): {hint}") from error
        except (ApiException, QdrantException, ValueError) as error:
            raise StoreError(f"{self._location} failed: {error}") from error


def _format_response(error: UnexpectedResponse) -> str:
    """The response of the server on one line."""
    text = error.content.decode("utf-8", "replace")
    return " ".join(f"{error.status_code} {error.reason_phrase} {text}".split())[:300]


def _to_filter(condition: Condition) -> models.Filter:
    match condition:
        case AllOf(parts):
            return models.Filter(must=[_to_filter(part) for part in parts])
        case AnyOf(parts):
            return models.Filter(should=[_to_filter(part) for part in parts])
        case FieldPresent(expected=expected):
            empty = models.IsEmptyCondition(is_empty=models.PayloadField(key=to_column_filter(condition).name))
            return models.Filter(must_not=[empty]) if expected else models.Filter(must=[empty])
        case FieldMatches() | FieldMatchesNone():
            return _to_field_filter(condition)
        case _:
            raise AssertionError("True and False are not rendered")


def _to_field_filter(condition: FieldMatches | FieldMatchesNone) -> models.Filter:
    column = to_column_filter(condition)
    parts: list[models.Condition] = [
        models.FieldCondition(key=NUMBER_PREFIX + column.name, range=models.Range(**{item.op: item.value}))
        for item in column.ranges
    ]
    if column.tokens:
        parts.append(models.FieldCondition(key=column.name, match=models.MatchAny(any=list(column.tokens))))
    return models.Filter(should=parts) if isinstance(condition, FieldMatches) else models.Filter(must_not=parts)

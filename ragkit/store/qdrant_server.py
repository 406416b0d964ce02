"""A Qdrant server, through its own client (package `qdrant-client`).

The address `:memory:` is the client's imitation of a server, in Python and in this process: small, slow, and gone
with the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, cast

import httpx
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from ragkit.errors import StoreError
from ragkit.store.base import Rows
from ragkit.store.portable import runs_by_size
from ragkit.store.pushdown import All, Condition, Holds, Lacks, Present, Some
from ragkit.store.qdrant_points import DOCUMENT, NAME, NUMBERS, Payload
from ragkit.store.server_options import QdrantOptions
from ragkit.store.tokens import Range, sieve_of

_PAGE = 1_000
_PUT_POINTS = 10_000
_PUT_BYTES = 8 * 2**20
"""About what is sent at a time; a server refuses requests over 32 MiB as it is shipped."""
_VALUE_BYTES = 12
"""What one number of a row takes as JSON."""

Done = TypeVar("Done")


class ServerPoints:
    """A collection of a server; `ragkit.store.qdrant_points.Points` says what the methods do."""

    def __init__(self, options: QdrantOptions) -> None:
        self._options = options
        self._name = options.collection
        self._where = f"the Qdrant server at {options.url}"
        self._is_imitation = options.url == ":memory:"
        self._client: QdrantClient | None = self._do(lambda: self._connect(options))

    def dimension(self) -> int:
        if not self._do(lambda: self._open().collection_exists(self._name)):
            return 0
        rows = self._do(lambda: self._open().get_collection(self._name)).config.params.vectors
        if not isinstance(rows, models.VectorParams) or rows.distance != models.Distance.DOT:
            raise StoreError(
                f"the collection {self._name!r} of {self._where} was not made by this store: "
                "choose another name with its option `collection`"
            )
        return rows.size

    def make(self, dimension: int) -> None:
        rows = models.VectorParams(size=dimension, distance=models.Distance.DOT)
        self._do(lambda: self._open().create_collection(self._name, vectors_config=rows))

    def drop(self) -> None:
        self._do(lambda: self._open().delete_collection(self._name))

    def empty(self) -> None:
        everything = models.FilterSelector(filter=models.Filter())
        self._do(lambda: self._open().delete(self._name, everything, wait=True))

    def indexed(self) -> set[str]:
        return set(self._do(lambda: self._open().get_collection(self._name)).payload_schema)

    def index(self, name: str, kind: str) -> None:
        if self._is_imitation:
            return  # it has none, and warns
        schema = models.PayloadSchemaType(kind)
        self._do(lambda: self._open().create_payload_index(self._name, name, schema, wait=True))

    def put(self, keys: Sequence[str], rows: Rows, payloads: Sequence[Payload]) -> None:
        points = [
            models.PointStruct(id=key, vector=row, payload=dict(payload))
            for key, row, payload in zip(keys, rows.tolist(), payloads, strict=True)
        ]
        sizes = [_VALUE_BYTES * rows.shape[1] + 2 * len(str(payload)) for payload in payloads]
        for some in runs_by_size(points, sizes, _PUT_POINTS, _PUT_BYTES):
            self._upsert(some)

    def _upsert(self, points: list[models.PointStruct]) -> None:
        self._do(lambda: self._open().upsert(self._name, points, wait=True))

    def nearest(self, query: Rows, limit: int, condition: Condition) -> list[tuple[str, float]]:
        if self._options.method == "hnsw":
            found = self._query(query, limit, condition, exact=False)
            if len(found) == limit:
                return found
        # a walk through a graph may end early: whether there are no more is seen by looking at all
        return self._query(query, limit, condition, exact=True)

    def _query(self, query: Rows, limit: int, condition: Condition, *, exact: bool) -> list[tuple[str, float]]:
        answer = self._do(
            lambda: self._open().query_points(
                self._name,
                query=query.tolist(),
                limit=limit,
                query_filter=None if condition is True else _filter(condition),
                search_params=self._params(limit, exact=exact),
                with_payload=[DOCUMENT],
            )
        )
        return [(self._text(point, DOCUMENT), point.score) for point in answer.points]

    def _params(self, limit: int, *, exact: bool) -> models.SearchParams | None:
        if self._is_imitation:
            return None  # it is exact, and warns
        return models.SearchParams(exact=exact, hnsw_ef=None if exact else max(self._options.ef, limit))

    def there(self, keys: Sequence[str]) -> list[str]:
        found = self._do(lambda: self._open().retrieve(self._name, list(keys), with_payload=False))
        return [str(point.id) for point in found]

    def delete(self, keys: Sequence[str]) -> None:
        self._do(lambda: self._open().delete(self._name, models.PointIdsList(points=list(keys)), wait=True))

    def names(self) -> Iterator[tuple[str, str]]:
        offset: models.ExtendedPointId | None = None
        while True:
            points, offset = self._page(offset)
            for point in points:
                yield self._text(point, NAME), str(point.id)
            if offset is None:
                return

    def _page(self, offset: models.ExtendedPointId | None) -> tuple[list[models.Record], models.ExtendedPointId | None]:
        return self._do(lambda: self._open().scroll(self._name, limit=_PAGE, offset=offset, with_payload=[NAME]))

    def read(self, keys: Sequence[str]) -> list[tuple[str, list[float]]]:
        found = self._do(
            lambda: self._open().retrieve(self._name, list(keys), with_payload=[DOCUMENT], with_vectors=True)
        )
        return [(self._text(point, DOCUMENT), cast("list[float]", point.vector)) for point in found]

    def count(self) -> int:
        return self._do(lambda: self._open().count(self._name, exact=True)).count

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connect(self, options: QdrantOptions) -> QdrantClient:
        if self._is_imitation:
            return QdrantClient(":memory:")
        key = options.api_key or None
        return QdrantClient(url=options.url, api_key=key, timeout=options.timeout_seconds, check_compatibility=False)

    def _open(self) -> QdrantClient:
        if self._client is None:
            raise StoreError(f"the store in {self._where} is closed: open it again")
        return self._client

    def _text(self, point: models.ScoredPoint | models.Record, key: str) -> str:
        text = (point.payload or {}).get(key)
        if not isinstance(text, str):
            raise StoreError(
                f"the collection {self._name!r} of {self._where} holds points of somebody else: "
                "choose another name with its option `collection`"
            )
        return text

    def _do(self, work: Callable[[], Done]) -> Done:
        """Do work; what the client raises becomes a StoreError."""
        try:
            return work()
        except ResourceExhaustedResponse as error:
            raise StoreError(f"{self._where} is busy: try again in {error.retry_after_s} seconds") from error
        except UnexpectedResponse as error:
            raise StoreError(f"{self._where} refused a request: {_reason(error)}") from error
        except (ResponseHandlingException, httpx.HTTPError) as error:
            cause = error.source if isinstance(error, ResponseHandlingException) else error
            raise StoreError(
                f"{self._where} cannot be reached ({cause}): start it, or correct the option `url`"
            ) from error
        except (ApiException, QdrantException, ValueError) as error:
            raise StoreError(f"{self._where} cannot be used: {error}") from error


def _reason(error: UnexpectedResponse) -> str:
    """What the server says, on one line."""
    text = error.content.decode("utf-8", "replace")
    return " ".join(f"{error.status_code} {error.reason_phrase} {text}".split())[:300]


def _filter(condition: Condition) -> models.Filter:
    match condition:
        case All(parts):
            return models.Filter(must=[_filter(part) for part in parts])
        case Some(parts):
            return models.Filter(should=[_filter(part) for part in parts])
        case Present(wanted=wanted):
            empty = models.IsEmptyCondition(is_empty=models.PayloadField(key=sieve_of(condition).name))
            return models.Filter(must_not=[empty]) if wanted else models.Filter(must=[empty])
        case Holds() | Lacks():
            return _sieve(condition)
        case _:
            raise AssertionError("a condition that is always or never so is not rendered")


def _sieve(condition: Holds | Lacks) -> models.Filter:
    sieve = sieve_of(condition)
    parts: list[models.Condition] = [
        models.FieldCondition(key=NUMBERS + sieve.name, range=_range(each)) for each in sieve.ranges
    ]
    if sieve.tokens:
        parts.append(models.FieldCondition(key=sieve.name, match=models.MatchAny(any=list(sieve.tokens))))
    return models.Filter(should=parts) if isinstance(condition, Holds) else models.Filter(must_not=parts)


def _range(wanted: Range) -> models.Range:
    return models.Range(**{wanted.op: wanted.value})

"""A Qdrant server, through its own client (package `qdrant-client`).

The address `:memory:` is the client's imitation of a server, in Python and in this process: small, slow, and gone
with the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, cast

import httpx
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from ragkit.errors import StoreError
from ragkit.store.base import Rows
from ragkit.store.portable import runs
from ragkit.store.pushdown import All, Condition, Holds, Lacks, Present, Some
from ragkit.store.qdrant import DOCUMENT, NAME, NUMBERS, Payload
from ragkit.store.server_options import QdrantOptions
from ragkit.store.tokens import Range, sieve_of

_PAGE = 1_000
_PUT_BYTES = 8 * 2**20
"""About what is sent at a time; a server refuses requests over 32 MiB as it is shipped."""
_VALUE_BYTES = 12
"""What one number of a row takes as JSON."""
_NO_COLLECTION = 404

Done = TypeVar("Done")


class ServerPoints:
    """A collection of a server; `ragkit.store.qdrant.Points` says what the methods do."""

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
        for some in _by_size(points, sizes):
            self._do(lambda some=some: self._open().upsert(self._name, some, wait=True))

    def nearest(self, query: Rows, limit: int, condition: Condition) -> list[tuple[str, list[float]]]:
        exact = self._options.method == "exact"
        found = self._do(
            lambda: self._open().query_points(
                self._name,
                query=query.tolist(),
                limit=limit,
                query_filter=None if condition is True else _filter(condition),
                search_params=models.SearchParams(exact=exact, hnsw_ef=max(self._options.ef, limit)),
                with_payload=[DOCUMENT],
                with_vectors=True,
            )
        ).points
        if not exact and len(found) < limit:
            # a walk through a graph may end early
            return self._all_of(query, limit, condition)
        return [self._pair(point) for point in found]

    def there(self, keys: Sequence[str]) -> list[str]:
        found = self._do(lambda: self._open().retrieve(self._name, list(keys), with_payload=False))
        return [str(point.id) for point in found]

    def delete(self, keys: Sequence[str]) -> None:
        self._do(lambda: self._open().delete(self._name, models.PointIdsList(points=list(keys)), wait=True))

    def names(self) -> Iterator[tuple[str, str]]:
        offset = None
        while True:
            points, offset = self._do(
                lambda offset=offset: self._open().scroll(self._name, limit=_PAGE, offset=offset, with_payload=[NAME])
            )
            for point in points:
                yield self._text(point, NAME), str(point.id)
            if offset is None:
                return

    def read(self, keys: Sequence[str]) -> list[tuple[str, list[float]]]:
        found = self._do(
            lambda: self._open().retrieve(self._name, list(keys), with_payload=[DOCUMENT], with_vectors=True)
        )
        return [self._pair(point) for point in found]

    def count(self) -> int:
        return self._do(lambda: self._open().count(self._name, exact=True)).count

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

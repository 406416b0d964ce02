"""Qdrant's engine in this process, in a directory (package `qdrant-edge-py`).

The client's own local mode is not used for directories: it searches in Python, and reads its files with pickle, so
that a directory from elsewhere could run code.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar, cast
from uuid import UUID

import qdrant_edge as edge

from ragkit.errors import Locked, StoreError
from ragkit.store.base import Rows
from ragkit.store.portable import runs
from ragkit.store.pushdown import All, Condition, Holds, Lacks, Present, Some
from ragkit.store.qdrant_points import DOCUMENT, NAME, NUMBERS, Payload
from ragkit.store.server_options import QdrantOptions
from ragkit.store.tokens import Range, sieve_of

_CONFIG = "edge_config.json"
_PAGE = 1_000
_PUT_POINTS = 1_000
_NO_INDEX = 2**40
"""Kilobytes of rows from which on a graph would be made: never, as searches here are exact."""
_REPAIR = ": run `ragkit verify --repair`, or fill it again"

Done = TypeVar("Done")


class EmbeddedPoints:
    """One shard in a directory, for one process at a time; `qdrant_points.Points` says what the methods do."""

    def __init__(self, options: QdrantOptions) -> None:
        self._path = Path(options.path)
        self._shard: edge.EdgeShard | None = None
        if (self._path / _CONFIG).exists():
            self._shard = self._do(lambda: edge.EdgeShard.load(str(self._path)), _REPAIR)
        elif self._path.exists() and any(self._path.iterdir()):
            raise StoreError(f"{self._path} holds something else than a store 'qdrant': choose another `path`")

    def dimension(self) -> int:
        if self._shard is None:
            return 0
        vectors = json.loads((self._path / _CONFIG).read_text(encoding="utf-8"))["vectors"]
        if list(vectors) != [""] or vectors[""]["distance"] != "Dot":
            raise StoreError(f"{self._path} was not made by the store 'qdrant': choose another `path`")
        return int(vectors[""]["size"])

    def make(self, dimension: int) -> None:
        rows = edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Dot)
        config = edge.EdgeConfig(vectors=rows, optimizers=edge.EdgeOptimizersConfig(indexing_threshold=_NO_INDEX))
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self._path} cannot be made a directory: {error.strerror}") from error
        self._shard = self._do(lambda: edge.EdgeShard.create(str(self._path), config))

    def drop(self) -> None:
        if self._shard is not None:
            self.close()
            shutil.rmtree(self._path)

    def empty(self) -> None:
        self._update(edge.UpdateOperation.delete_points_by_filter(edge.Filter()))

    def indexed(self) -> set[str]:
        return set(self._do(lambda: self._open().info().payload_schema))

    def index(self, name: str, kind: str) -> None:
        kinds = {"keyword": edge.PayloadSchemaType.Keyword, "float": edge.PayloadSchemaType.Float}
        self._update(edge.UpdateOperation.create_field_index(name, kinds[kind]))

    def put(self, keys: Sequence[str], rows: Rows, payloads: Sequence[Payload]) -> None:
        points = [
            edge.Point(UUID(key), row, dict(payload))
            for key, row, payload in zip(keys, rows.tolist(), payloads, strict=True)
        ]
        for some in runs(points, _PUT_POINTS):
            self._update(edge.UpdateOperation.upsert_points(list(some)))

    def nearest(self, query: Rows, limit: int, condition: Condition) -> list[tuple[str, float]]:
        request = edge.QueryRequest(
            query=edge.Query.Nearest(query.tolist()),
            limit=limit,
            filter=None if condition is True else _filter(condition),
            with_payload=[DOCUMENT],
            with_vector=False,
            params=edge.SearchParams(exact=True),
        )
        found = self._do(lambda: self._open().query(request))
        payloads = [(point.payload or {}) for point in found]
        if any(DOCUMENT not in payload for payload in payloads):
            raise StoreError(f"{self._path} is damaged: a point has lost its document: run `ragkit verify --repair`")
        return [(payload[DOCUMENT], point.score) for payload, point in zip(payloads, found, strict=True)]

    def there(self, keys: Sequence[str]) -> list[str]:
        found = self._do(lambda: self._open().retrieve([UUID(key) for key in keys], False, False))
        return [str(point.id) for point in found]

    def delete(self, keys: Sequence[str]) -> None:
        self._update(edge.UpdateOperation.delete_points([UUID(key) for key in keys]))

    def names(self) -> Iterator[tuple[str, str]]:
        offset: edge.PointId | None = None
        while True:
            points, offset = self._page(offset)
            for point in points:
                yield str((point.payload or {})[NAME]), str(point.id)
            if offset is None:
                return

    def _page(self, offset: edge.PointId | None) -> tuple[list[edge.Record], edge.PointId | None]:
        request = edge.ScrollRequest(offset=offset, limit=_PAGE, with_payload=[NAME], with_vector=False)
        return self._do(lambda: self._open().scroll(request))

    def read(self, keys: Sequence[str]) -> list[tuple[str, list[float]]]:
        found = self._do(lambda: self._open().retrieve([UUID(key) for key in keys], [DOCUMENT], True))
        return [_pair(point) for point in found]

    def count(self) -> int:
        return self._do(lambda: self._open().count(edge.CountRequest(exact=True)))

    def close(self) -> None:
        shard, self._shard = self._shard, None
        if shard is not None:
            self._do(shard.close)

    def _open(self) -> edge.EdgeShard:
        if self._shard is None:
            raise StoreError(f"the store in {self._path} is closed: open it again")
        return self._shard

    def _update(self, operation: edge.UpdateOperation) -> None:
        self._do(lambda: self._open().update(operation))

    def _do(self, work: Callable[[], Done], hint: str = "") -> Done:
        try:
            return work()
        except StoreError:
            raise
        except Exception as error:  # the engine raises nothing narrower
            if "WouldBlock" in str(error):
                raise Locked(str(self._path), "another process") from error
            raise StoreError(f"{self._path} cannot be used: {error}{hint}") from error
        except BaseException as error:
            if not _is_panic(error):
                raise
            self._shard = None  # nothing that it says from now on can be relied on
            said = " ".join(str(error).split())[:100]
            raise StoreError(f"{self._path} is damaged ({said}){_REPAIR}") from error


def _is_panic(error: BaseException) -> bool:
    """Whether the engine itself gave up, as it does over files whose bytes it trusted.

    Rust's panics come as a BaseException that no module exports; an interrupt or an exit is none of them.
    """
    return (type(error).__module__, type(error).__name__) == ("pyo3_runtime", "PanicException")


def _pair(point: edge.Record) -> tuple[str, list[float]]:
    return (point.payload or {})[DOCUMENT], cast("list[float]", point.vector)


def _filter(condition: Condition) -> edge.Filter:
    match condition:
        case All(parts):
            return edge.Filter(must=[_filter(part) for part in parts])
        case Some(parts):
            return edge.Filter(should=[_filter(part) for part in parts])
        case Present(wanted=wanted):
            empty = edge.IsEmptyCondition(sieve_of(condition).name)
            return edge.Filter(must_not=[empty]) if wanted else edge.Filter(must=[empty])
        case Holds() | Lacks():
            return _sieve(condition)
        case _:
            raise AssertionError("a condition that is always or never so is not rendered")


def _sieve(condition: Holds | Lacks) -> edge.Filter:
    sieve = sieve_of(condition)
    parts = [edge.FieldCondition(NUMBERS + sieve.name, range=_range(each)) for each in sieve.ranges]
    if sieve.tokens:
        parts.append(edge.FieldCondition(sieve.name, match=edge.MatchAny(list(sieve.tokens))))
    return edge.Filter(should=list(parts)) if isinstance(condition, Holds) else edge.Filter(must_not=list(parts))


def _range(wanted: Range) -> edge.RangeFloat:
    bounds = {name: wanted.value if name == wanted.op else None for name in ("gt", "gte", "lt", "lte")}
    return edge.RangeFloat(**bounds)

"""Qdrant's engine embedded in this process, with a directory (package `qdrant-edge-py`).

The local mode of the client is not used: it searches in Python, and reads its files with pickle, so that an untrusted
directory could run code.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar, cast
from uuid import UUID

import qdrant_edge as edge

from ragkit.errors import KnowledgeBaseLocked, StoreError
from ragkit.store.backends.adapter_utils import batches
from ragkit.store.backends.qdrant_engine import DOCUMENT_KEY, NAME_KEY, NUMBER_PREFIX, Payload
from ragkit.store.base import Rows
from ragkit.store.filters.pushdown import AllOf, AnyOf, Condition, FieldMatches, FieldMatchesNone, FieldPresent
from ragkit.store.filters.tokens import NumberRange, to_column_filter
from ragkit.store.options import QdrantOptions

_CONFIG_FILE = "edge_config.json"
_PAGE_POINTS = 1_000
_UPSERT_POINTS = 1_000
_NEVER_INDEX_KB = 2**40
"""Kilobytes of vectors from which a graph is built: never, because searches here are exact."""
_REPAIR_HINT = ": run `ragkit verify --repair`, or rebuild the store"

ResultT = TypeVar("ResultT")


class QdrantEmbeddedEngine:
    """A `QdrantEngine` with one shard in a directory, for one process at a time."""

    def __init__(self, options: QdrantOptions) -> None:
        self._path = Path(options.path)
        self._shard: edge.EdgeShard | None = None
        if (self._path / _CONFIG_FILE).exists():
            self._shard = self._call(lambda: edge.EdgeShard.load(str(self._path)), _REPAIR_HINT)
        elif self._path.exists() and any(self._path.iterdir()):
            raise StoreError(f"{self._path} is not a directory of the store 'qdrant': choose another `path`")

    def dimension(self) -> int:
        if self._shard is None:
            return 0
        vectors = json.loads((self._path / _CONFIG_FILE).read_text(encoding="utf-8"))["vectors"]
        if list(vectors) != [""] or vectors[""]["distance"] != "Dot":
            raise StoreError(f"{self._path} was not created by the store 'qdrant': choose another `path`")
        return int(vectors[""]["size"])

    def create(self, dimension: int) -> None:
        rows = edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Dot)
        config = edge.EdgeConfig(vectors=rows, optimizers=edge.EdgeOptimizersConfig(indexing_threshold=_NEVER_INDEX_KB))
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot create the directory {self._path}: {error.strerror}") from error
        self._shard = self._call(lambda: edge.EdgeShard.create(str(self._path), config))

    def drop(self) -> None:
        if self._shard is not None:
            self.close()
            shutil.rmtree(self._path)

    def delete_all(self) -> None:
        self._update(edge.UpdateOperation.delete_points_by_filter(edge.Filter()))

    def indexed_fields(self) -> set[str]:
        return set(self._call(lambda: self._require_shard().info().payload_schema))

    def create_index(self, name: str, kind: str) -> None:
        kinds = {"keyword": edge.PayloadSchemaType.Keyword, "float": edge.PayloadSchemaType.Float}
        self._update(edge.UpdateOperation.create_field_index(name, kinds[kind]))

    def upsert(self, keys: Sequence[str], rows: Rows, payloads: Sequence[Payload]) -> None:
        points = [
            edge.Point(UUID(key), row, dict(payload))
            for key, row, payload in zip(keys, rows.tolist(), payloads, strict=True)
        ]
        for batch in batches(points, _UPSERT_POINTS):
            self._update(edge.UpdateOperation.upsert_points(list(batch)))

    def search(self, query: Rows, limit: int, condition: Condition) -> list[tuple[str, float]]:
        request = edge.QueryRequest(
            query=edge.Query.Nearest(query.tolist()),
            limit=limit,
            filter=None if condition is True else _to_filter(condition),
            with_payload=[DOCUMENT_KEY],
            with_vector=False,
            params=edge.SearchParams(exact=True),
        )
        points = self._call(lambda: self._require_shard().query(request))
        payloads = [(point.payload or {}) for point in points]
        if any(DOCUMENT_KEY not in payload for payload in payloads):
            raise StoreError(f"{self._path} is damaged (a point lacks its document){_REPAIR_HINT}")
        return [(payload[DOCUMENT_KEY], point.score) for payload, point in zip(payloads, points, strict=True)]

    def filter_existing(self, keys: Sequence[str]) -> list[str]:
        points = self._call(lambda: self._require_shard().retrieve([UUID(key) for key in keys], False, False))
        return [str(point.id) for point in points]

    def delete(self, keys: Sequence[str]) -> None:
        self._update(edge.UpdateOperation.delete_points([UUID(key) for key in keys]))

    def scroll_names(self) -> Iterator[tuple[str, str]]:
        offset: edge.PointId | None = None
        while True:
            points, offset = self._scroll_page(offset)
            for point in points:
                yield str((point.payload or {})[NAME_KEY]), str(point.id)
            if offset is None:
                return

    def _scroll_page(self, offset: edge.PointId | None) -> tuple[list[edge.Record], edge.PointId | None]:
        request = edge.ScrollRequest(offset=offset, limit=_PAGE_POINTS, with_payload=[NAME_KEY], with_vector=False)
        return self._call(lambda: self._require_shard().scroll(request))

    def retrieve(self, keys: Sequence[str]) -> list[tuple[str, list[float]]]:
        points = self._call(lambda: self._require_shard().retrieve([UUID(key) for key in keys], [DOCUMENT_KEY], True))
        return [((point.payload or {})[DOCUMENT_KEY], cast("list[float]", point.vector)) for point in points]

    def count(self) -> int:
        return self._call(lambda: self._require_shard().count(edge.CountRequest(exact=True)))

    def close(self) -> None:
        shard, self._shard = self._shard, None
        if shard is not None:
            self._call(shard.close)

    def _require_shard(self) -> edge.EdgeShard:
        if self._shard is None:
            raise StoreError(f"the store at {self._path} is closed: open it again")
        return self._shard

    def _update(self, operation: edge.UpdateOperation) -> None:
        self._call(lambda: self._require_shard().update(operation))

    def _call(self, work: Callable[[], ResultT], hint: str = "") -> ResultT:
        try:
            return work()
        except StoreError:
            raise
        except Exception as error:  # the engine raises no narrower type
            if "WouldBlock" in str(error):
                raise KnowledgeBaseLocked(str(self._path), "another process") from error
            raise StoreError(f"Qdrant error in {self._path}: {error}{hint}") from error
        except BaseException as error:
            if not _is_panic(error):
                raise
            self._shard = None  # unreliable after a panic
            message = " ".join(str(error).split())[:100]
            raise StoreError(f"{self._path} is damaged ({message}){_REPAIR_HINT}") from error


def _is_panic(error: BaseException) -> bool:
    """Whether the error is a Rust panic, as raised for damaged files: a BaseException that no module exports."""
    return (type(error).__module__, type(error).__name__) == ("pyo3_runtime", "PanicException")


def _to_filter(condition: Condition) -> edge.Filter:
    match condition:
        case AllOf(parts):
            return edge.Filter(must=[_to_filter(part) for part in parts])
        case AnyOf(parts):
            return edge.Filter(should=[_to_filter(part) for part in parts])
        case FieldPresent(expected=expected):
            empty = edge.IsEmptyCondition(to_column_filter(condition).name)
            return edge.Filter(must_not=[empty]) if expected else edge.Filter(must=[empty])
        case FieldMatches() | FieldMatchesNone():
            return _to_field_filter(condition)
        case _:
            raise AssertionError("True and False are not rendered")


def _to_field_filter(condition: FieldMatches | FieldMatchesNone) -> edge.Filter:
    column = to_column_filter(condition)
    parts = [edge.FieldCondition(NUMBER_PREFIX + column.name, range=_to_range(item)) for item in column.ranges]
    if column.tokens:
        parts.append(edge.FieldCondition(column.name, match=edge.MatchAny(list(column.tokens))))
    return edge.Filter(should=list(parts)) if isinstance(condition, FieldMatches) else edge.Filter(must_not=list(parts))


def _to_range(number_range: NumberRange) -> edge.RangeFloat:
    bounds = {op: number_range.value if op == number_range.op else None for op in ("gt", "gte", "lt", "lte")}
    return edge.RangeFloat(**bounds)

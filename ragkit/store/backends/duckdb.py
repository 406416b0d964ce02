"""The store `duckdb`: documents and vectors as columns of one DuckDB file, searched exactly by DuckDB's scan.

Filters are pushed down as conditions on a table of field values (`ragkit.store.filters.pushdown`) with parameters.
What they cannot express exactly (numbers beyond 2**53, very long strings) is decided by the reference evaluator.
DuckDB allows one process at a time to open the file, even for reading.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import duckdb
import numpy as np

from ragkit.errors import KnowledgeBaseDamaged, KnowledgeBaseLocked, StoreError
from ragkit.records import Document, Heading, SearchResult
from ragkit.store.backends.adapter_utils import (
    batches,
    collect_top_k,
    deduplicate_by_id,
    document_from_json,
    document_to_json,
    escape_text,
)
from ragkit.store.backends.interrupts import delay_interrupts
from ragkit.store.base import (
    Filter,
    Rows,
    validate_documents,
    validate_ids,
    validate_query,
    validate_rows,
    validate_stored_dimension,
    validate_top_k,
)
from ragkit.store.filters.language import parse_filter
from ragkit.store.filters.pushdown import (
    SQL_OPERATORS,
    AllOf,
    AnyOf,
    Condition,
    FieldMatches,
    FieldMatchesNone,
    FieldPresent,
    FieldValue,
    Predicate,
    count_leaves,
    extract_field_values,
    join_sql,
    to_condition,
)
from ragkit.store.options import DuckdbOptions
from ragkit.store.vector_store import VectorStore

LAYOUT_VERSION = 1
_REPAIR_HINT = "`ragkit verify --repair`, or rebuild the store"
_BATCH_ROWS = 1_000
"""Documents that are written or read at a time."""

_MAX_LEAVES = 100
"""A filter with more leaves is not pushed down: each leaf is a join."""
_write_locks: WeakValueDictionary[Path, threading.Lock] = WeakValueDictionary()
"""Open file -> lock of its writers, all of which are in this process."""

# no access to other files or the network, and no way to enable it later
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "lock_configuration": True,
    # applies to floating-point columns. The default saves an eighth of the disk space, but halves the speed of a scan.
    "force_compression": "alp",
}

_CREATE_STATE = "CREATE TABLE state (format INTEGER, dimension INTEGER, next_row BIGINT)"
_CREATE_FACTS = "CREATE OR REPLACE TABLE facts (row BIGINT, field VARCHAR, kind VARCHAR, number DOUBLE, string VARCHAR)"
# id: UTF-8, so that ids sort by code point. whole: the document as JSON, if the other columns cannot represent it.
_CREATE_DOCUMENTS = """
    CREATE OR REPLACE TABLE documents (
        row BIGINT, id BLOB, source VARCHAR, title VARCHAR, format VARCHAR, language VARCHAR,
        page_starts JSON, headings JSON, metadata JSON, text VARCHAR, whole VARCHAR, vector FLOAT[{dimension}]
    )
"""
_DOCUMENT_COLUMNS = "id, source, title, format, language, page_starts, headings, metadata, text, whole, vector"

Connection: TypeAlias = duckdb.DuckDBPyConnection
Arrays: TypeAlias = dict[str, "np.ndarray[Any, Any]"]


class DuckdbStore(VectorStore):
    """Documents and vectors in one DuckDB file. Safe for several threads of one process."""

    persistent = True

    def __init__(self, options: DuckdbOptions) -> None:
        """Open or create the file.

        Raises:
            DimensionMismatch: the stored vectors have another dimension.
            KnowledgeBaseLocked: another process has it open.
            KnowledgeBaseDamaged: it is not a DuckDB database, or has an unknown layout.
            StoreError: it cannot be created.
        """
        self._options = options
        self._path = Path(options.path)
        self._write_lock = _write_locks.setdefault(self._path.resolve(), threading.Lock())
        self._connection: Connection | None = None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot create the directory {self._path.parent}: {error.strerror}") from error
        with _translate_errors(self._path):
            self._connection = duckdb.connect(self._path, config=_SETTINGS)
        try:
            with self._write_transaction() as connection:  # two handles may be opened at once
                _create_state_table(connection)
                validate_stored_dimension(_read_dimension(connection, self._path), options.dimension)
        except BaseException:
            self.close()
            raise

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """See `Store.add_documents`; one call is one transaction."""
        if not documents:
            return []
        validated = validate_documents(documents)
        with self._write_transaction() as connection:
            dimension = _read_dimension(connection, self._path)
            rows = validate_rows(embeddings, len(validated), dimension or self._options.dimension)
            unique, rows = deduplicate_by_id(validated, rows)
            if not dimension:
                _create_tables(connection, rows.shape[1])
            _delete(connection, [document.id for document in unique])
            for start in range(0, len(unique), _BATCH_ROWS):
                _insert(connection, unique[start : start + _BATCH_ROWS], rows[start : start + _BATCH_ROWS])
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """See `Store.search`; reads the state committed when it starts."""
        node = parse_filter(filter)
        top_k = validate_top_k(top_k)
        with delay_interrupts(), self._read_transaction() as connection:
            dimension = _read_dimension(connection, self._path)
            query = validate_query(query_embedding, dimension or self._options.dimension)
            if not dimension:
                return []
            condition = to_condition(node)
            search = _SearchQuery(query, condition if count_leaves(condition) <= _MAX_LEAVES else True)
            return collect_top_k(lambda limit: search.fetch(connection, limit), node, top_k)

    def delete(self, ids: Sequence[str]) -> int:
        """See `Store.delete`."""
        unique_ids = validate_ids(ids)
        with self._write_transaction() as connection:
            return _delete(connection, unique_ids) if _read_dimension(connection, self._path) else 0

    def clear(self) -> None:
        """See `Store.clear`."""
        with self._write_transaction() as connection:
            connection.execute("DROP TABLE IF EXISTS documents")
            connection.execute("DROP TABLE IF EXISTS facts")
            connection.execute("UPDATE state SET dimension = 0")

    def count(self) -> int:
        """See `Store.count`."""
        with delay_interrupts(), self._read_transaction() as connection:
            if not _read_dimension(connection, self._path):
                return 0
            return _fetch_int(connection, "SELECT count(*) FROM documents")

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """See `Store.scan`; iterates over a snapshot taken at the first step."""
        with self._read_transaction() as connection:
            if not _read_dimension(connection, self._path):
                return
            # row numbers first: DuckDB would sort the texts along with the ids
            with delay_interrupts():  # not around `yield`: the handler of the caller must be back then
                rows = [row for (row,) in connection.execute("SELECT row FROM documents ORDER BY id").fetchall()]
            for batch in batches(rows, _BATCH_ROWS):
                sql = f"SELECT row, {_DOCUMENT_COLUMNS} FROM documents WHERE row IN (SELECT unnest($1))"  # noqa: S608
                with delay_interrupts():
                    values_by_row = {row: values for row, *values in connection.execute(sql, [batch]).fetchall()}
                for row in batch:
                    document = _decode_document(values_by_row[row])
                    yield document.id, document, np.array(values_by_row[row][-1], np.float32)

    def close(self) -> None:
        """See `Store.close`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextmanager
    def _read_transaction(self) -> Iterator[Connection]:
        """A cursor in its own transaction, which sees one snapshot."""
        connection = self._connection
        if connection is None:
            raise StoreError(f"the store at {self._path} is closed: open it again")
        with _translate_errors(self._path):
            cursor = connection.cursor()
            try:
                cursor.execute("BEGIN")
                yield cursor
                cursor.execute("COMMIT")
            finally:
                cursor.close()

    @contextmanager
    def _write_transaction(self) -> Iterator[Connection]:
        with self._write_lock, delay_interrupts(), self._read_transaction() as connection:
            yield connection


class _SearchQuery:
    """A search as SQL with parameters."""

    def __init__(self, query: Rows, condition: Condition) -> None:
        self._values: list[object] = [query.tolist()]
        dimension = len(query)
        where = "" if condition is True else f"WHERE {self._render(condition)}"
        # DuckDB ranks in float32; the results are scored again in float64, so that only equal vectors tie.
        # The inner query selects row numbers only, because DuckDB would sort the texts along.
        self._sql_text = f"""
            SELECT array_inner_product(vector::DOUBLE[{dimension}], $1::DOUBLE[{dimension}]), {_DOCUMENT_COLUMNS}
            FROM documents WHERE row IN (SELECT row FROM (
                SELECT row, array_inner_product(vector, $1::FLOAT[{dimension}]) AS score FROM documents {where}
                ORDER BY score DESC LIMIT
        """  # noqa: S608  # numbers and parameters only

    def fetch(self, connection: Connection, limit: int) -> list[SearchResult]:
        """The nearest documents that match the condition; fewer than `limit` only if there are no more."""
        fetched = connection.execute(f"{self._sql_text} {limit}))", self._values).fetchall()
        return [SearchResult(_decode_document(values), score) for score, *values in fetched]

    def _render(self, condition: Condition) -> str:
        match condition:
            case FieldMatches(field, predicates):
                matches = join_sql(["kind = 'wild'", *self._render_predicates(predicates)], "OR")
                return f"row IN (SELECT row FROM facts WHERE field = {self._bind(field)} AND {matches})"  # noqa: S608
            case FieldMatchesNone(field, predicates):
                matches = join_sql(self._render_predicates(predicates), "OR")
                return f"row NOT IN (SELECT row FROM facts WHERE field = {self._bind(field)} AND {matches})"  # noqa: S608
            case FieldPresent(field, expected):
                operator = "IN" if expected else "NOT IN"
                return f"row {operator} (SELECT row FROM facts WHERE field = {self._bind(field)})"  # noqa: S608
            case AllOf(parts) | AnyOf(parts):
                return join_sql([self._render(part) for part in parts], "AND" if isinstance(condition, AllOf) else "OR")
            case _:
                return "TRUE" if condition else "FALSE"

    def _render_predicates(self, predicates: Sequence[Predicate]) -> list[str]:
        """One SQL condition per predicate; equality predicates of one kind are combined."""
        equal: dict[str, list[str]] = {}
        conditions: list[str] = []
        for predicate in predicates:
            if predicate.op == "any":
                conditions.append(f"kind = '{predicate.kind}'")
                continue
            value = self._bind(predicate.value)
            column = "string" if predicate.kind == "string" else "number"
            if predicate.op == "eq":
                equal.setdefault(predicate.kind, []).append(value)
            else:
                conditions.append(f"(kind = '{predicate.kind}' AND {column} {SQL_OPERATORS[predicate.op]} {value})")
        for kind, values in equal.items():
            column = "string" if kind == "string" else "number"
            conditions.append(f"(kind = '{kind}' AND {column} IN ({', '.join(values)}))")
        return conditions

    def _bind(self, value: object) -> str:
        self._values.append(value)
        return f"${len(self._values)}"


def _create_state_table(connection: Connection) -> None:
    if not _fetch_int(connection, "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'state'"):
        connection.execute(_CREATE_STATE)
        connection.execute("INSERT INTO state VALUES ($1, 0, 0)", [LAYOUT_VERSION])


def _create_tables(connection: Connection, dimension: int) -> None:
    connection.execute(_CREATE_DOCUMENTS.format(dimension=dimension))
    connection.execute(_CREATE_FACTS)
    connection.execute("UPDATE state SET dimension = $1, next_row = 0", [dimension])


def _read_dimension(connection: Connection, path: Path) -> int:
    """The dimension of the stored vectors; 0 before the first ones. Raises KnowledgeBaseDamaged."""
    rows = connection.execute("SELECT format, dimension FROM state").fetchall()
    if len(rows) != 1 or rows[0][0] != LAYOUT_VERSION:
        reason = f"has layout {rows[0][0] if rows else None}, expected {LAYOUT_VERSION}"
        raise KnowledgeBaseDamaged(str(path), reason, _REPAIR_HINT)
    return int(rows[0][1])


def _fetch_int(connection: Connection, sql: str) -> int:
    [(number,)] = connection.execute(sql).fetchall()  # an unfinished result blocks the connection
    return int(number)


def _delete(connection: Connection, ids: Sequence[str]) -> int:
    names = [name.encode("utf-8", "surrogatepass") for name in ids]
    sql = "DELETE FROM documents WHERE id IN (SELECT unnest($1::BLOB[])) RETURNING row"
    rows = [row for (row,) in connection.execute(sql, [names]).fetchall()]
    if rows:
        connection.execute("DELETE FROM facts WHERE row IN (SELECT unnest($1))", [rows])
    return len(rows)


def _insert(connection: Connection, documents: Sequence[Document], rows: Rows) -> None:
    """Insert new documents, from numpy arrays: SQL parameters take ten times as long."""
    first = _fetch_int(connection, "SELECT next_row FROM state")
    dimension, numbers = rows.shape[1], np.arange(first, first + len(documents))
    columns = zip(*(_encode_document(document) for document in documents), strict=True)
    names = _DOCUMENT_COLUMNS.removesuffix(", vector").split(", ")
    texts = {name: _object_array(values) for name, values in zip(names, columns, strict=True)}
    positions = np.tile(np.arange(dimension), len(documents))
    connection.register("incoming", {"row": numbers, **texts})
    connection.register("cells", {"row": np.repeat(numbers, dimension), "place": positions, "value": rows.reshape(-1)})
    connection.execute(
        f"INSERT INTO documents SELECT row, {_DOCUMENT_COLUMNS} FROM incoming JOIN "  # noqa: S608  # constant names
        f"(SELECT row, list(value ORDER BY place)::FLOAT[{dimension}] AS vector FROM cells GROUP BY row) USING (row)"
    )
    field_values = [
        (row, value)
        for row, document in zip(numbers.tolist(), documents, strict=True)
        for value in extract_field_values(document.metadata)
    ]
    if field_values:
        connection.register("facts_in", _field_value_arrays(field_values))
        connection.execute("INSERT INTO facts SELECT row, field, kind, number, string FROM facts_in")
    connection.execute("UPDATE state SET next_row = $1", [first + len(documents)])


def _field_value_arrays(field_values: Sequence[tuple[int, FieldValue]]) -> Arrays:
    # without None: DuckDB infers the type of a column from a sample of its values
    numbers = [0.0 if isinstance(value.value, str | None) else value.value for _, value in field_values]
    return {
        "row": np.array([row for row, _ in field_values], np.int64),
        "field": _object_array([value.field for _, value in field_values]),
        "kind": _object_array([value.kind for _, value in field_values]),
        "number": np.array(numbers, np.float64),
        "string": _object_array([value.value if isinstance(value.value, str) else "" for _, value in field_values]),
    }


def _object_array(values: Sequence[object]) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _encode_document(document: Document) -> tuple[bytes | str, ...]:
    """The values of _DOCUMENT_COLUMNS except the vector. If `whole` is not empty, only it is read back."""
    texts: tuple[str, ...] = (document.source, document.title, document.format, document.language)
    metadata = json.dumps(document.metadata)
    headings = json.dumps([heading.to_row() for heading in document.headings])
    is_plain = (
        all(escape_text(text) == text for text in (*texts, document.text))
        and _UNSTORABLE_ESCAPE.search(metadata + headings) is None
    )
    whole = "" if is_plain else document_to_json(document)
    if whole:
        texts = tuple(escape_text(text) for text in texts)
        headings, metadata = "[]", "{}"
    name = document.id.encode("utf-8", "surrogatepass")
    return (name, *texts, json.dumps(document.page_starts), headings, metadata, escape_text(document.text), whole)


_UNSTORABLE_ESCAPE = re.compile(r"\\u(?:d[89a-f]..|0000)")
"""A surrogate or a NUL as written by `json.dumps`, including surrogate pairs."""


def _decode_document(values: Sequence[Any]) -> Document:
    name, source, title, format_, language, page_starts, headings, metadata, text, whole = values[:10]
    if whole:
        return document_from_json(whole)
    return Document(
        text=text,
        metadata=json.loads(metadata),
        source=source,
        title=title,
        page_starts=tuple(json.loads(page_starts)),
        headings=tuple(Heading(*heading) for heading in json.loads(headings)),
        format=format_,
        language=language,
        id=bytes(name).decode("utf-8", "surrogatepass"),
    )


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Translate the errors of DuckDB, which reports Ctrl-C as a RuntimeError or as an error of its own."""
    try:
        yield
    except RuntimeError as error:
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from error
        raise
    except duckdb.Error as error:
        message = str(error).splitlines()[0]
        if message.startswith("KeyboardInterrupt"):
            raise KeyboardInterrupt from error
        holder = re.search(r"Conflicting lock is held in (.{0,500}?)\. ", message)
        if holder:
            raise KnowledgeBaseLocked(str(path), holder[1]) from error
        is_fatal = isinstance(error, duckdb.FatalException | duckdb.InternalException)
        if is_fatal or "not a valid DuckDB database" in message:
            reason = f"is not an intact DuckDB database ({message})"
            raise KnowledgeBaseDamaged(str(path), reason, _REPAIR_HINT) from error
        raise StoreError(f"DuckDB error in {path}: {message}") from error

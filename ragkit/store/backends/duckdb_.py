"""The store in one DuckDB file: documents and rows as columns, exact search by DuckDB's own scan.

Filters are pushed down as conditions over a table of facts (`ragkit.store.filters.pushdown`), bound as parameters; what they
cannot say exactly (numbers beyond 2**53, very long strings) is let through and sorted out by the reference evaluator.
One process at a time can have the file open: that is DuckDB's rule, for readers too.
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

from ragkit.errors import DimensionMismatch, KnowledgeBaseDamaged, KnowledgeBaseLocked, StoreError
from ragkit.records import Document, Heading, SearchResult
from ragkit.store.backends.adapter_utils import (
    EngineHit,
    collect_top_k,
    deduplicate_by_id,
    document_from_json,
    document_to_json,
    escape_text,
)
from ragkit.store.base import (
    Filter,
    Rows,
    validate_documents,
    validate_ids,
    validate_query,
    validate_rows,
    validate_top_k,
)
from ragkit.store.filters.language import parse_filter
from ragkit.store.filters.pushdown import (
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
"""The version of the layout."""
_REPAIR_HINT = "`ragkit verify --repair`, or fill the store again"
_BATCH_ROWS = 1_000
"""Documents that are put in, or read, at a time."""

_MAX_LEAVES = 100
"""A filter that looks at the facts of more fields is left to the reference evaluator: each is a join to DuckDB."""
_write_locks: WeakValueDictionary[Path, threading.Lock] = WeakValueDictionary()
"""One for each file that is open: writers of this process, which is the only one, take turns."""

# No file but its own, nothing fetched from anywhere, and no way to change that later.
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "lock_configuration": True,
    # for numbers with a fraction alone. What it would choose saves an eighth of the disk and scans rows half as fast.
    "force_compression": "alp",
}

_CREATE_STATE = "CREATE TABLE state (format INTEGER, dimension INTEGER, next_row BIGINT)"
_CREATE_FACTS = "CREATE OR REPLACE TABLE facts (row BIGINT, field VARCHAR, kind VARCHAR, number DOUBLE, string VARCHAR)"
# id: UTF-8, so that ids sort by code point. whole: all of the document as JSON, where a column could not hold its part.
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
    """Documents and rows in one DuckDB file. Safe for several threads of one process."""

    persistent = True

    def __init__(self, options: DuckdbOptions) -> None:
        """Open the file, or make it.

        Raises:
            DimensionMismatch: it holds rows of another width than the options say.
            KnowledgeBaseLocked: another process has it open.
            KnowledgeBaseDamaged: it is not a DuckDB database, or of an unknown layout.
            StoreError: it cannot be made.
        """
        self._options = options
        self._path = Path(options.path)
        self._write_lock = _write_locks.setdefault(self._path.resolve(), threading.Lock())
        self._connection: Connection | None = None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self._path.parent} cannot be made a directory: {error.strerror}") from error
        with _translate_errors(self._path):
            self._connection = duckdb.connect(self._path, config=_SETTINGS)
        try:
            with self._write_transaction() as connection:  # two handles may be opened at once
                _create_state_table(connection)
                here = _read_dimension(connection, self._path)
            if here and options.dimension not in {None, here}:
                raise DimensionMismatch(options.dimension or 0, here)
        except BaseException:
            self.close()
            raise

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """As `Store.add_documents` says; all of it is committed at once."""
        if not documents:
            return []
        kept = validate_documents(documents)
        with self._write_transaction() as connection:
            dimension = _read_dimension(connection, self._path)
            rows = validate_rows(embeddings, len(kept), dimension or self._options.dimension)
            kept, rows = deduplicate_by_id(kept, rows)
            if not dimension:
                _create_tables(connection, rows.shape[1])
            _delete(connection, [document.id for document in kept])
            for start in range(0, len(kept), _BATCH_ROWS):
                _insert(connection, kept[start : start + _BATCH_ROWS], rows[start : start + _BATCH_ROWS])
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """As `Store.search` says, on what was committed when it began."""
        node = parse_filter(filter)
        top_k = validate_top_k(top_k)
        with self._read_transaction() as connection:
            dimension = _read_dimension(connection, self._path)
            query = validate_query(query_embedding, dimension or self._options.dimension)
            if not dimension:
                return []
            condition = to_condition(node)
            ask = _SearchQuery(query, condition if count_leaves(condition) <= _MAX_LEAVES else True)
            return collect_top_k(lambda limit: ask.fetch(connection, limit), node, top_k)

    def delete(self, ids: Sequence[str]) -> int:
        """As `Store.delete` says."""
        names = validate_ids(ids)
        with self._write_transaction() as connection:
            return _delete(connection, names) if _read_dimension(connection, self._path) else 0

    def clear(self) -> None:
        """As `Store.clear` says."""
        with self._write_transaction() as connection:
            connection.execute("DROP TABLE IF EXISTS documents")
            connection.execute("DROP TABLE IF EXISTS facts")
            connection.execute("UPDATE state SET dimension = 0")

    def count(self) -> int:
        """As `Store.count` says."""
        with self._read_transaction() as connection:
            return (
                _fetch_int(connection, "SELECT count(*) FROM documents")
                if _read_dimension(connection, self._path)
                else 0
            )

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """As `Store.scan` says; a snapshot of the first step is gone through."""
        with self._read_transaction() as connection:
            if not _read_dimension(connection, self._path):
                return
            # the numbers of the rows first: DuckDB would sort all of the text along with the ids
            rows = [row for (row,) in connection.execute("SELECT row FROM documents ORDER BY id").fetchall()]
            for start in range(0, len(rows), _BATCH_ROWS):
                some = rows[start : start + _BATCH_ROWS]
                sql = f"SELECT row, {_DOCUMENT_COLUMNS} FROM documents WHERE row IN (SELECT unnest($1))"  # noqa: S608
                held = {row: values for row, *values in connection.execute(sql, [some]).fetchall()}
                for row in some:
                    document = _decode_document(held[row])
                    yield document.id, document, np.array(held[row][-1], np.float32)

    def close(self) -> None:
        """As `Store.close` says."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextmanager
    def _read_transaction(self) -> Iterator[Connection]:
        """A cursor in a transaction of its own: it sees one snapshot throughout."""
        connection = self._connection
        if connection is None:
            raise StoreError(f"{self._path} is closed: open the store again")
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
        with self._write_lock, self._read_transaction() as connection:
            yield connection


class _SearchQuery:
    """A search as SQL with its parameters."""

    def __init__(self, query: Rows, condition: Condition) -> None:
        self._values: list[object] = [query.tolist()]
        width = len(query)
        where = "" if condition is True else f"WHERE {self._render(condition)}"
        # DuckDB ranks in float32; what it found is scored again in float64, so that equal rows tie and others do not.
        # The numbers of the rows first: it would carry text along while it sorts.
        self._sql_text = f"""
            SELECT array_inner_product(vector::DOUBLE[{width}], $1::DOUBLE[{width}]), {_DOCUMENT_COLUMNS} FROM documents
            WHERE row IN (SELECT row FROM (
                SELECT row, array_inner_product(vector, $1::FLOAT[{width}]) AS score FROM documents {where}
                ORDER BY score DESC LIMIT
        """  # noqa: S608  # numbers and parameters only

    def fetch(self, connection: Connection, limit: int) -> list[EngineHit]:
        """The nearest of what passes the condition; fewer than `limit` only when there are no more."""
        held = connection.execute(f"{self._sql_text} {limit}))", self._values).fetchall()
        return [EngineHit(_decode_document(values), score) for score, *values in held]

    def _render(self, condition: Condition) -> str:
        match condition:
            case FieldMatches(field, tests):
                passed = join_sql(["kind = 'wild'", *self._render_predicates(tests)], "OR")
                return f"row IN (SELECT row FROM facts WHERE field = {self._bind(field)} AND {passed})"  # noqa: S608
            case FieldMatchesNone(field, tests):
                passed = join_sql(self._render_predicates(tests), "OR")
                return f"row NOT IN (SELECT row FROM facts WHERE field = {self._bind(field)} AND {passed})"  # noqa: S608
            case FieldPresent(field, wanted):
                word = "IN" if wanted else "NOT IN"
                return f"row {word} (SELECT row FROM facts WHERE field = {self._bind(field)})"  # noqa: S608
            case AllOf(parts) | AnyOf(parts):
                return join_sql([self._render(part) for part in parts], "AND" if isinstance(condition, AllOf) else "OR")
            case _:
                return "TRUE" if condition else "FALSE"

    def _render_predicates(self, tests: Sequence[Predicate]) -> list[str]:
        """One SQL condition a test; those for equality with one kind of values are put together."""
        equal: dict[str, list[str]] = {}
        found: list[str] = []
        for test in tests:
            if test.op == "any":
                found.append(f"kind = '{test.kind}'")
                continue
            value = self._bind(test.value)
            column = "string" if test.kind == "string" else "number"
            if test.op == "eq":
                equal.setdefault(test.kind, []).append(value)
            else:
                found.append(f"(kind = '{test.kind}' AND {column} {_SQL_OPERATORS[test.op]} {value})")
        for kind, values in equal.items():
            column = "string" if kind == "string" else "number"
            found.append(f"(kind = '{kind}' AND {column} IN ({', '.join(values)}))")
        return found

    def _bind(self, value: object) -> str:
        self._values.append(value)
        return f"${len(self._values)}"


_SQL_OPERATORS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def _create_state_table(connection: Connection) -> None:
    if not _fetch_int(connection, "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'state'"):
        connection.execute(_CREATE_STATE)
        connection.execute("INSERT INTO state VALUES ($1, 0, 0)", [LAYOUT_VERSION])


def _create_tables(connection: Connection, dimension: int) -> None:
    connection.execute(_CREATE_DOCUMENTS.format(dimension=dimension))
    connection.execute(_CREATE_FACTS)
    connection.execute("UPDATE state SET dimension = $1, next_row = 0", [dimension])


def _read_dimension(connection: Connection, path: Path) -> int:
    """The width of the rows, as the connection's transaction sees it; 0 before the first ones."""
    rows = connection.execute("SELECT format, dimension FROM state").fetchall()
    if len(rows) != 1 or rows[0][0] != LAYOUT_VERSION:
        raise KnowledgeBaseDamaged(
            str(path), f"has layout {rows[0][0] if rows else None} where {LAYOUT_VERSION} is known", _REPAIR_HINT
        )
    return int(rows[0][1])


def _fetch_int(connection: Connection, sql: str) -> int:
    [(number,)] = connection.execute(sql).fetchall()  # a result that is not fetched to its end blocks the connection
    return int(number)


def _delete(connection: Connection, ids: Sequence[str]) -> int:
    names = [name.encode("utf-8", "surrogatepass") for name in ids]
    sql = "DELETE FROM documents WHERE id IN (SELECT unnest($1::BLOB[])) RETURNING row"
    rows = [row for (row,) in connection.execute(sql, [names]).fetchall()]
    if rows:
        connection.execute("DELETE FROM facts WHERE row IN (SELECT unnest($1))", [rows])
    return len(rows)


def _insert(connection: Connection, documents: Sequence[Document], rows: Rows) -> None:
    """Put documents in whose ids are not there. Values go in as numpy arrays: parameters take ten times as long."""
    first = _fetch_int(connection, "SELECT next_row FROM state")
    width, numbers = rows.shape[1], np.arange(first, first + len(documents))
    held = zip(*(_encode_document(document) for document in documents), strict=True)
    names = _DOCUMENT_COLUMNS.removesuffix(", vector").split(", ")
    texts = {name: _object_array(values) for name, values in zip(names, held, strict=True)}
    cells = np.tile(np.arange(width), len(documents))
    connection.register("incoming", {"row": numbers, **texts})
    connection.register("cells", {"row": np.repeat(numbers, width), "place": cells, "value": rows.reshape(-1)})
    connection.execute(
        f"INSERT INTO documents SELECT row, {_DOCUMENT_COLUMNS} FROM incoming JOIN "  # noqa: S608  # names of ours
        f"(SELECT row, list(value ORDER BY place)::FLOAT[{width}] AS vector FROM cells GROUP BY row) USING (row)"
    )
    owned = [
        (row, fact)
        for row, each in zip(numbers.tolist(), documents, strict=True)
        for fact in extract_field_values(each.metadata)
    ]
    if owned:
        connection.register("facts_in", _field_value_arrays(owned))
        connection.execute("INSERT INTO facts SELECT row, field, kind, number, string FROM facts_in")
    connection.execute("UPDATE state SET next_row = $1", [first + len(documents)])


def _field_value_arrays(owned: Sequence[tuple[int, FieldValue]]) -> Arrays:
    # no None among them: DuckDB guesses a column's type from some of its values
    numbers = [0.0 if isinstance(fact.value, str | None) else fact.value for _, fact in owned]
    return {
        "row": np.array([row for row, _ in owned], np.int64),
        "field": _object_array([fact.field for _, fact in owned]),
        "kind": _object_array([fact.kind for _, fact in owned]),
        "number": np.array(numbers, np.float64),
        "string": _object_array([fact.value if isinstance(fact.value, str) else "" for _, fact in owned]),
    }


def _object_array(values: Sequence[object]) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _encode_document(document: Document) -> tuple[bytes | str, ...]:
    """The values of _COLUMNS but for the vector; with `whole`, the others are for the eyes of people only."""
    texts: tuple[str, ...] = (document.source, document.title, document.format, document.language)
    metadata = json.dumps(document.metadata)
    headings = json.dumps([[heading.start, heading.level, heading.text] for heading in document.headings])
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
"""A surrogate or a NUL as `json.dumps` writes them, the halves of a pair too."""


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
    """DuckDB's errors as ours."""
    try:
        yield
    except duckdb.Error as error:
        said = str(error).splitlines()[0]
        holder = re.search(r"Conflicting lock is held in (.{0,500}?)\. ", said)
        if holder:
            raise KnowledgeBaseLocked(str(path), holder[1]) from error
        if "not a valid DuckDB database" in said or isinstance(error, duckdb.FatalException | duckdb.InternalException):
            raise KnowledgeBaseDamaged(str(path), f"is not a whole DuckDB database ({said})", _REPAIR_HINT) from error
        raise StoreError(f"{path} cannot be used: {said}") from error

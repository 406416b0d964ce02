"""The PostgreSQL store beyond the conformance suite, on a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import psycopg
import pytest

from ragkit.errors import DimensionMismatch, InvalidOption, KnowledgeBaseLocked, StoreError
from ragkit.records import Document
from ragkit.store.backends.pgvector import MAX_ID_BYTES, PgvectorStore
from ragkit.store.backends.pgvector_filters import to_jsonb_sql
from ragkit.store.filters.language import parse_filter
from ragkit.store.options import PgvectorOptions
from ragkit.testing.store_factory import unit_rows
from ragkit.testing.store_under_test import (
    DIMENSION,
    StoreUnderTest,
    check_contents,
    check_search,
    fill_store,
    make_documents,
    sample_vectors,
)
from ragkit.testing.stores import CHECKS, StoreCheck
from tests.servers.postgres import Postgres

Opener = Callable[..., PgvectorStore]


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    server = Postgres()
    server.start()
    yield server.dsn
    server.stop()


@pytest.fixture
def opened(dsn: str) -> Iterator[Opener]:
    """Opens the store in a table of this test, with options; all are closed and the table is dropped at the end."""
    stores: list[PgvectorStore] = []

    def open_one(table: str = "ragkit test", **options: object) -> PgvectorStore:
        stores.append(PgvectorStore(replace(PgvectorOptions(dsn, table=table), **options)))  # type: ignore[arg-type]  # as the test says
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute('DROP TABLE IF EXISTS "ragkit test"')


def query(dsn: str, sql: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


@pytest.mark.rotating
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_store_with_an_index_passes_the_conformance_suite(opened: Opener, check: StoreCheck) -> None:
    check(StoreUnderTest(open=lambda: opened(method="hnsw"), examples=30))


def test_the_index_finds_nearly_all(opened: Opener) -> None:
    rows = unit_rows(2000, 16, seed=1)
    exact, indexed = opened("exact test"), opened(method="hnsw")
    for store in (exact, indexed):
        store.add_documents(make_documents(f"{n:04}" for n in range(2000)), rows)
    queries = unit_rows(20, 16, seed=2)
    results = [{item.document.id for item in indexed.search(query, 10)} for query in queries]
    expected = [{item.document.id for item in exact.search(query, 10)} for query in queries]
    exact.clear()
    assert sum(len(a & b) for a, b in zip(results, expected, strict=True)) >= 190


def test_the_index_finds_nearly_all_under_a_selective_filter(opened: Opener) -> None:
    noise, centres = unit_rows(4020, 64, seed=1), unit_rows(100, 64, seed=2)
    rows = centres[np.random.default_rng(3).integers(0, 100, 4020)] + noise
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    rows, queries = rows[:4000], rows[4000:]
    store = opened(method="hnsw", ef_search=20)
    store.add_documents([Document(f"{n}", {"few": n % 25 == 0}, id=f"{n}") for n in range(4000)], rows)
    right = 0
    for query in queries:
        expected = {str(25 * n) for n in np.argsort(-(rows[::25] @ query))[:10]}
        right += len(expected & {item.document.id for item in store.search(query, 10, {"few": True})})
    assert right >= 0.97 * 10 * len(queries)


def test_the_index_is_built_with_the_options(opened: Opener, dsn: str) -> None:
    opened(method="hnsw", m=8, ef_construction=50).add_documents(make_documents("a"), sample_vectors()[:1])
    [(created,)] = query(dsn, "SELECT indexdef FROM pg_indexes WHERE indexdef LIKE '%hnsw%'")
    assert str(created).endswith("USING hnsw (embedding vector_ip_ops) WITH (m='8', ef_construction='50')")


def test_rows_that_are_too_wide_for_the_index_are_rejected(opened: Opener) -> None:
    with pytest.raises(InvalidOption, match="method must be 'exact' for dimension 2001"):
        opened(method="hnsw").add_documents(make_documents("a"), unit_rows(1, 2001, seed=1))
    wide = opened()
    wide.add_documents(make_documents("a"), unit_rows(1, 2001, seed=1))
    assert wide.count() == 1


def test_a_foreign_table_is_never_modified(opened: Opener, dsn: str) -> None:
    query(dsn, 'CREATE TABLE "ragkit test" (id int)')
    with pytest.raises(StoreError, match=r"the table 'ragkit test' in PostgreSQL at .* was not created by this store"):
        opened()
    assert query(dsn, 'SELECT * FROM "ragkit test"') == []


def test_a_table_name_is_quoted(opened: Opener, dsn: str) -> None:
    query(dsn, "CREATE TABLE victim (id int)")
    name = 'a"; DROP TABLE victim; -- {} ü'
    store = opened(name)
    check_contents(store, fill_store(store, make_documents("ab"), sample_vectors()[:2]))
    assert query(dsn, "SELECT tablename FROM pg_tables WHERE tablename LIKE 'a\"%'") == [(name,)]
    store.clear()
    query(dsn, "DROP TABLE victim")


def test_the_sql_contains_no_text_of_a_filter() -> None:
    sql, values = to_jsonb_sql(
        parse_filter({"x'; DROP TABLE t; --": {"$in": ["'; --", 1]}, "y": {"$not": {"$gt": "%s"}}})
    )
    assert sql == (
        "(search @> %s::jsonb OR search @> %s::jsonb) AND "
        "(NOT (coalesce(jsonb_path_exists(search -> %s, %s::jsonpath, %s::jsonb), FALSE)))"
    )
    assert len(values) == 5


def test_text_that_postgres_cannot_hold_is_restored(opened: Opener) -> None:
    store = opened()
    document = Document("a\0\udc80", {"k\0\udc80": ["v\0", "\udfff"]}, source="\0", id="i\0\udc80")
    contents = fill_store(store, [document], sample_vectors()[:1])
    check_contents(store, contents)
    check_search(store, contents, sample_vectors()[0], 1, {"k\0\udc80": {"$gt": "\ud900"}})
    assert store.delete(["i\0\udc80"]) == 1


def test_an_id_that_no_index_can_hold_is_rejected(opened: Opener) -> None:
    store = opened()
    with pytest.raises(
        StoreError, match=r"the id 'x+'\.\.\. is too long for the store 'pgvector': 2001 bytes, at most 2000"
    ):
        store.add_documents(make_documents(["x" * (MAX_ID_BYTES + 1)]), sample_vectors()[:1])
    contents = fill_store(store, make_documents(["é" * (MAX_ID_BYTES // 2)]), sample_vectors()[:1])
    check_contents(store, contents)
    assert store.delete(["x" * (MAX_ID_BYTES + 1)]) == 0


def test_a_table_with_another_dimension_than_the_options_is_rejected(opened: Opener) -> None:
    opened().add_documents(make_documents("a"), sample_vectors()[:1])
    with pytest.raises(DimensionMismatch, match=f"the store has {DIMENSION}, got 3"):
        opened(dimension=3)


def test_a_connection_that_was_cut_is_replaced(opened: Opener, dsn: str) -> None:
    store = opened()
    contents = fill_store(store, make_documents("ab"), sample_vectors()[:2])
    query(dsn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ragkit'")
    check_contents(store, contents)
    query(dsn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ragkit'")
    check_search(store, contents, sample_vectors()[0], 2)


def test_a_write_waits_for_a_lock_up_to_the_timeout(opened: Opener, dsn: str) -> None:
    store = opened(lock_seconds=0.1)
    store.add_documents(make_documents("a"), sample_vectors()[:1])
    with psycopg.connect(dsn) as connection:
        connection.execute('LOCK TABLE "ragkit test" IN EXCLUSIVE MODE')
        with pytest.raises(
            KnowledgeBaseLocked, match=r"the table 'ragkit test' in PostgreSQL at .* is locked by another"
        ):
            store.add_documents(make_documents("b"), sample_vectors()[:1])
    store.add_documents(make_documents("b"), sample_vectors()[:1])
    assert store.count() == 2


def test_a_failed_call_is_rolled_back(opened: Opener) -> None:
    store = opened()
    with pytest.raises(StoreError, match="2001 bytes, at most 2000"):
        store.add_documents(make_documents(["a", "x" * 2001]), sample_vectors()[:2])
    assert store.count() == 0


def test_a_scan_sees_the_rows_of_its_first_step(opened: Opener) -> None:
    store = opened()
    store.add_documents(make_documents(f"{n:04}" for n in range(1200)), sample_vectors()[np.arange(1200) % 12])
    scan = store.scan()
    first = next(scan)[0]
    store.delete(["0700"])
    assert [first, *(name for name, _, _ in scan)] == [f"{n:04}" for n in range(1200)]


def test_a_closed_store_raises_an_error(opened: Opener) -> None:
    store = opened()
    store.close()
    with pytest.raises(StoreError, match=r"the store in PostgreSQL at .* is closed: open it again"):
        store.count()


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(
        StoreError, match=r"PostgreSQL at 127.0.0.1:1 cannot be reached .*: start it, or correct"
    ) as caught:
        PgvectorStore(PgvectorOptions("postgresql://me:secret@127.0.0.1:1/db"))
    assert "secret" not in str(caught.value)


def test_an_invalid_url_is_rejected_and_not_shown() -> None:
    with pytest.raises(
        InvalidOption, match=r"dsn must be like postgresql://user:password@host:5432/database \(got '\.\.\.'\)"
    ) as caught:
        PgvectorStore(PgvectorOptions("postgresql//me:secret@host"))
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(PgvectorOptions("postgresql://me:secret@host"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": ""}, r"table must be a name of 1 to 63 bytes without '%' \(got ''\)"),
        ({"table": "ü" * 32}, "a name of 1 to 63 bytes"),
        ({"table": "a%s"}, "a name of 1 to 63 bytes without '%'"),
        ({"method": "ivf"}, r"method must be 'exact' or 'hnsw' \(got 'ivf'\)"),
        ({"m": 1}, r"m must be between 2 and 100 \(got 1\)"),
        ({"m": 40}, r"ef_construction must be between 80 \(2 \* m\) and 1000 \(got 64\)"),
        ({"ef_search": 0}, r"ef_search must be between 1 and 1000 \(got 0\)"),
        ({"lock_seconds": -1}, r"lock_seconds must be >= 0 \(got -1\)"),
        ({"dimension": 0}, r"dimension must be >= 1 \(got 0\)"),
    ],
)
def test_inconsistent_options_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        PgvectorOptions("postgresql:///x", **options)  # type: ignore[arg-type]  # wrong on purpose

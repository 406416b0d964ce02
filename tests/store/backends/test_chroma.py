"""The Chroma store beyond the conformance suite, embedded and on a server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import psutil
import pytest
from chromadb.config import Settings

from ragkit.errors import DimensionMismatch, InvalidOption, StoreError
from ragkit.records import Document
from ragkit.store.backends.chroma import ChromaStore
from ragkit.store.backends.chroma_metadata import to_chroma_metadata, to_chroma_where
from ragkit.store.filters.language import parse_filter
from ragkit.store.filters.pushdown import to_condition
from ragkit.store.options import ChromaOptions
from ragkit.testing.persistence_checks import a_second_handle_sees_replaced_documents, documents_persist_after_reopening
from ragkit.testing.store_factory import unit_rows
from ragkit.testing.store_under_test import (
    DIMENSION,
    StoreUnderTest,
    check_contents,
    check_search,
    exact_search,
    fill_store,
    make_documents,
    sample_vectors,
)
from ragkit.testing.stores import CHECKS, StoreCheck
from tests.servers.base import free_port
from tests.servers.chroma import Chroma

Opener = Callable[..., ChromaStore]

OPEN = """
import sys
from ragkit.errors import KnowledgeBaseLocked
from ragkit.store.backends.chroma import ChromaStore
from ragkit.store.options import ChromaOptions
try:
    ChromaStore(ChromaOptions(sys.argv[1]))
except KnowledgeBaseLocked as error:
    print(error)
"""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    stores: list[ChromaStore] = []

    def open_one(**options: object) -> ChromaStore:
        stores.append(ChromaStore(ChromaOptions(tmp_path / "index", **options)))  # type: ignore[arg-type]
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = Chroma()
    server.start()
    yield server.port
    server.stop()


def on_server(port: int, collection: str) -> ChromaStore:
    return ChromaStore(ChromaOptions(host="127.0.0.1", port=port, collection=collection))


SERVED = (*CHECKS, documents_persist_after_reopening, a_second_handle_sees_replaced_documents)


@pytest.mark.rotating
@pytest.mark.parametrize("check", SERVED, ids=lambda check: check.__name__)
def test_a_store_on_a_server_passes_the_conformance_suite(port: int, check: StoreCheck) -> None:
    check(StoreUnderTest(open=lambda: on_server(port, check.__name__), examples=30))


def test_a_handle_on_a_server_sees_writes_of_another_one(port: int) -> None:
    store, other = on_server(port, "followed"), on_server(port, "followed")
    fill_store(store, make_documents("abc"), sample_vectors()[:3])
    assert other.count() == 3
    store.clear()
    assert other.search(sample_vectors()[0], 3) == []
    check_contents(other, fill_store(store, make_documents("xy"), unit_rows(2, 5, seed=1)))
    with pytest.raises(DimensionMismatch, match="the store has 5, got 8"):
        other.add_documents(make_documents("z"), sample_vectors()[:1])
    store.close()
    other.close()


def test_an_unreachable_server_is_named() -> None:
    port = free_port()
    with pytest.raises(StoreError, match=rf"Chroma at 127\.0\.0\.1:{port} failed: Could not connect"):
        ChromaStore(ChromaOptions(host="127.0.0.1", port=port))


def test_another_process_gets_an_error_that_the_path_is_in_use(opened: Opener, tmp_path: Path) -> None:
    opened()
    command = [sys.executable, "-c", OPEN, str(tmp_path / "index")]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout == f"{tmp_path / 'index'} is locked by another process: wait until it finishes, or stop it\n"


def test_handles_can_be_opened_concurrently(opened: Opener) -> None:
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _: opened(), range(4)))
    contents = fill_store(stores[0], make_documents("ab"), sample_vectors()[:2])
    for store in stores:
        check_contents(store, contents)


def test_two_handles_of_one_process_share_the_path(opened: Opener) -> None:
    store, other = opened(), opened()
    contents = fill_store(store, make_documents("abc"), sample_vectors()[:3])
    check_contents(other, contents)
    store.close()
    check_search(other, contents, sample_vectors()[0], 2)


def test_calls_above_the_limit_of_chroma_are_split(opened: Opener) -> None:
    store = opened()
    number = store._max_batch + 40
    names = store.add_documents(make_documents(f"{n:05}" for n in range(number)), unit_rows(number, 4, seed=1))
    assert len(names) == store.count() == number


def test_large_documents_are_sent_in_several_requests(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragkit.store.backends.chroma._MAX_BATCH_BYTES", 2_000)
    sizes: list[int] = []
    upsert = chromadb.Collection.upsert

    def recorded(self: chromadb.Collection, ids: list[str], **options: Any) -> None:
        sizes.append(len(ids))
        upsert(self, ids=ids, **options)

    monkeypatch.setattr(chromadb.Collection, "upsert", recorded)
    store = opened()
    contents = fill_store(store, [Document("x" * 1_500, id=name) for name in "abc"], sample_vectors()[:3])
    assert sizes == [1, 1, 1]
    check_contents(store, contents)


def test_a_replacement_deletes_the_earlier_keys(opened: Opener) -> None:
    store = opened()
    fill_store(store, [Document("1", {"old": 1, "list": ["a", "b"], "same": 1}, id="x")], sample_vectors()[:1])
    fill_store(store, [Document("2", {"same": "text"}, id="x")], sample_vectors()[:1])
    values = store._collection.get(ids=["x"])["metadatas"]
    assert values == [{"t:same": "string", "v:same": "string:text"}]


def test_a_document_without_metadata_matches_negations(opened: Opener) -> None:
    store = opened()
    contents = fill_store(
        store, [Document("1", {"a": 1}, id="x"), Document("2", id="y"), Document("3", id="z")], sample_vectors()[:3]
    )
    contents |= fill_store(store, [Document("4", {"b": 2}, id="y")], sample_vectors()[3:4])
    assert store._collection.get(ids=["y", "z"])["metadatas"] == [{"t:b": "number", "v:b": 2.0}, {"ragkit": 1}]
    for where in ({"a": {"$ne": 1}}, {"a": {"$exists": False}}, {"$not": {"a": {"$gt": "x"}}}, {"b": {"$nin": [2]}}):
        check_search(store, contents, sample_vectors()[0], 5, where)


def test_the_list_of_a_deleted_document_is_not_reused(opened: Opener) -> None:
    store = opened()
    for value in (["a", "b"], {"b": 1}, "c"):
        contents = fill_store(store, [Document("text", {"tag": value}, id="x")], sample_vectors()[:1])
        check_search(store, contents, sample_vectors()[0], 1, {"tag": "a"})
        check_search(store, contents, sample_vectors()[0], 1, {"tag": {"$ne": "a"}})
        store.delete(["x"])


def test_the_graph_finds_nearly_all_and_misses_nothing_under_a_rare_filter(opened: Opener) -> None:
    store = opened()
    documents = [Document(f"{n}", {"rare": n % 1000 == 999}, id=f"{n:05}") for n in range(3000)]
    contents = fill_store(store, documents, unit_rows(3000, 32, seed=2))
    right = 0
    for query in unit_rows(20, 32, seed=3):
        expected = {name for name, _ in exact_search(contents, query, 10)}
        right += len(expected & {result.document.id for result in store.search(query, 10)})
        check_search(store, contents, query, 10, {"rare": True})
    assert right >= 0.98 * 200


@pytest.mark.parametrize(("where", "is_sent"), [({"half": 1}, False), ({"m": {"$lt": 3}}, True), (None, False)])
def test_a_filter_that_matches_many_rows_is_not_sent(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, where: dict[str, object] | None, is_sent: bool
) -> None:
    store = opened()
    documents = [Document(f"{m}", {"half": m % 2, "m": m}, id=f"{m:05}") for m in range(800)]
    contents = fill_store(store, documents, unit_rows(800, DIMENSION, seed=1))
    sent: list[object] = []
    ask = chromadb.Collection.query

    def noted(self: chromadb.Collection, **named: object) -> object:
        sent.append(named["where"])
        return ask(self, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(chromadb.Collection, "query", noted)
    check_search(store, contents, sample_vectors()[0], 5, where)  # type: ignore[arg-type]
    assert any(each is not None for each in sent) == is_sent


def test_a_thousand_equal_rows_are_all_found(opened: Opener) -> None:
    store = opened()
    contents = fill_store(
        store, make_documents(f"{n:04}" for n in range(1000)), np.repeat(sample_vectors()[:1], 1000, axis=0)
    )
    assert len(store.search(sample_vectors()[0], 1000)) == len(contents)


def test_a_foreign_collection_is_rejected(opened: Opener, tmp_path: Path) -> None:
    client = chromadb.PersistentClient(tmp_path / "index", settings=Settings(anonymized_telemetry=False))
    client.create_collection("theirs", embedding_function=None)
    with pytest.raises(StoreError, match=r"'theirs' of .* was not created by ragkit"):
        opened(collection="theirs")


def test_any_collection_name_is_accepted(opened: Opener) -> None:
    names = ["plain", "x", "a..b", "'; DROP TABLE x; --", "\udc80", "", "n" * 600]
    for place, name in enumerate(names):
        fill_store(opened(collection=name), make_documents([f"{place}"]), sample_vectors()[:1])
    assert [[result for result, _, _ in opened(collection=name).scan()] for name in names] == [
        [f"{n}"] for n in range(7)
    ]


def test_a_path_that_is_not_a_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "chroma.sqlite3").write_bytes(b"junk" * 100)
    with pytest.raises(StoreError, match=r"failed: .*not a database"):
        ChromaStore(ChromaOptions(tmp_path))


def test_options_that_contradict_the_collection_are_rejected(opened: Opener) -> None:
    fill_store(opened(), make_documents("a"), sample_vectors()[:1])
    with pytest.raises(DimensionMismatch, match=f"the store has {DIMENSION}, got 3"):
        opened(dimension=3)


def test_telemetry_stays_off_whatever_the_working_directory_contains(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text(
        "anonymized_telemetry=true\nchroma_otel_collection_endpoint=http://127.0.0.1:9\nchroma_api_impl=nowhere.Api\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANONYMIZED_TELEMETRY", "true")
    client = opened()._client
    assert client is not None
    settings = client.get_settings()
    assert (settings.anonymized_telemetry, settings.chroma_otel_collection_endpoint) == (False, "")


def test_a_store_that_was_emptied_keeps_its_dimension_until_it_is_cleared(opened: Opener) -> None:
    fill_store(opened(), make_documents("a"), sample_vectors()[:1])
    opened().delete(["a"])
    store = opened()
    with pytest.raises(DimensionMismatch, match=f"the store has {DIMENSION}, got 5"):
        store.add_documents(make_documents("b"), unit_rows(1, 5, seed=1))
    store.clear()
    check_contents(store, fill_store(store, make_documents("b"), unit_rows(1, 5, seed=1)))


def test_a_closed_store_raises_an_error(opened: Opener) -> None:
    store = opened()
    store.close()
    with pytest.raises(StoreError, match="is closed: open it again"):
        store.count()


def test_a_store_without_a_path_or_url_is_rejected() -> None:
    with pytest.raises(InvalidOption, match=r"path must be set, or the option `host` \(got ''\)"):
        ChromaStore(ChromaOptions())


def test_a_token_is_never_shown() -> None:
    assert "secret" not in repr(ChromaOptions(host="x", token="secret"))


def test_metadata_are_flat_keys_of_types_and_values() -> None:
    assert to_chroma_metadata({"year": 2024, "draft": False, "a": {"b": None}}) == {
        "t:year": "number",
        "v:year": 2024.0,
        "t:draft": "bool",
        "v:draft": "bool:0.0",
        "t:a": "empty",
        "v:a": "empty:",
        "t:a.b": "null",
        "v:a.b": "null:",
    }


def test_only_a_document_without_metadata_has_a_key_of_its_own() -> None:
    assert to_chroma_metadata({}) == {"ragkit": 1}
    always = to_chroma_where(to_condition(parse_filter({"$not": {"b": {"$gt": "x"}}})))
    assert always == {"ragkit": {"$ne": -1}}  # also true for documents without the field


def test_a_too_large_condition_is_not_sent() -> None:
    assert to_chroma_where(to_condition(parse_filter({"n": {"$in": list(range(300))}}))) is None
    wild = next(key for key in to_chroma_metadata({"n": [2**53 + 1, 1]}) if key.startswith("e:"))
    assert to_chroma_where(to_condition(parse_filter({"n": {"$gt": 1}}))) == {
        "$or": [{"t:n": {"$in": ["wild", "many"]}}, {wild: {"$eq": 1}}, {"v:n": {"$gt": 1.0}}]
    }


def test_a_cleared_store_keeps_no_file_open(opened: Opener, tmp_path: Path) -> None:
    store = opened()

    def fill_and_clear() -> int:
        store.add_documents(make_documents("abcde"), unit_rows(5, 8, seed=0))
        assert len(store.search(unit_rows(1, 8, seed=1)[0], 3)) == 3
        store.clear()
        assert store.count() == 0
        return sum(tmp_path in Path(file.path).parents for file in psutil.Process().open_files())

    counts = [fill_and_clear() for _ in range(6)]
    assert max(counts) - counts[0] < len(counts), counts  # Chroma opens one more now and then

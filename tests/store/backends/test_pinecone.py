"""The Pinecone store beyond the conformance suite, on a server with Pinecone's rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pinecone import Pinecone as Client

from ragkit.errors import DimensionMismatch, InvalidOption, StoreError
from ragkit.records import Document
from ragkit.store.backends.pinecone import PineconeStore
from ragkit.store.backends.pinecone_records import MAX_KEY_BYTES, from_record_id, to_record_id
from ragkit.store.options import PineconeOptions
from ragkit.testing.store_factory import unit_rows
from ragkit.testing.store_under_test import (
    DIMENSION,
    check_contents,
    check_search,
    fill_store,
    make_documents,
    sample_vectors,
)
from tests.servers.base import free_port
from tests.servers.pinecone import KEY, Pinecone

Opener = Callable[..., PineconeStore]


@pytest.fixture
def server() -> Iterator[Pinecone]:
    server = Pinecone()
    server.state.delay = 0.0
    server.start()
    yield server
    server.stop()


@pytest.fixture
def opened(server: Pinecone) -> Iterator[Opener]:
    """Opens the store in the index `one`, with options; all are closed at the end."""
    stores: list[PineconeStore] = []
    common = PineconeOptions(KEY, index_name="one", host=server.host, wait_seconds=5)

    def open_one(**options: object) -> PineconeStore:
        stores.append(PineconeStore(replace(common, **options)))  # type: ignore[arg-type]  # as the test says
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


def stored_records(server: Pinecone, namespace: str = "") -> dict[str, dict[str, object]]:
    return server.state.indexes["one"].namespaces[namespace].read(0.0)


def upserts(server: Pinecone) -> int:
    return sum(each.endswith("/vectors/upsert") for each in server.state.requests)


def test_writes_are_visible_when_the_call_returns(server: Pinecone, opened: Opener) -> None:
    server.state.delay = 0.2
    store = opened()
    begin = time.monotonic()
    contents = fill_store(store, make_documents("ab"), sample_vectors()[:2])
    assert time.monotonic() - begin >= 0.2
    check_search(store, contents, sample_vectors()[0], 2)
    assert store.delete(["a"]) == 1
    check_contents(store, {"b": contents["b"]})
    store.clear()
    check_contents(store, {})


def test_the_test_server_shows_writes_late(server: Pinecone, opened: Opener) -> None:
    opened().add_documents(make_documents("a"), sample_vectors()[:1])
    server.state.delay = 0.2
    with Client(KEY, host=server.host) as client, client.index(host=f"{server.host}/of/one") as index:
        index.upsert(vectors=[("late", [1.0] * DIMENSION)])
        assert sorted(index.fetch(ids=["a", "late"]).vectors) == ["a"]
        time.sleep(0.25)
        assert sorted(index.fetch(ids=["a", "late"]).vectors) == ["a", "late"]


def test_a_write_that_does_not_become_visible_in_time_is_an_error(server: Pinecone, opened: Opener) -> None:
    server.state.delay = 60
    with pytest.raises(StoreError, match=r"does not show a write after 0\.1 seconds: retry later, or"):
        opened(wait_seconds=0.1).add_documents(make_documents("a"), sample_vectors()[:1])


def test_a_busy_service_is_retried_after_its_retry_after_delay(server: Pinecone, opened: Opener) -> None:
    store = opened()
    server.state.refusals, server.state.retry_after = 2, "0.2"
    begin = time.monotonic()
    contents = fill_store(store, make_documents("a"), sample_vectors()[:1])
    assert time.monotonic() - begin >= 0.4
    check_contents(store, contents)


def test_a_service_that_stays_busy_is_an_error(server: Pinecone, opened: Opener) -> None:
    store = opened(retries=2)
    server.state.refusals, server.state.retry_after = 1_000, "0"
    with pytest.raises(
        StoreError, match=r"index 'one' is rate limited: retry later, or raise the option `retries` \(2"
    ):
        store.add_documents(make_documents("a"), sample_vectors()[:1])
    assert server.state.refusals == 1_000 - 3


def test_many_documents_take_several_requests(server: Pinecone, opened: Opener) -> None:
    store = opened()
    documents = [Document(f"{n}", id=f"{n:04}") for n in range(2500)]
    contents = fill_store(store, documents, sample_vectors()[np.arange(2500) % 12])
    assert upserts(server) == 3
    check_contents(store, contents)
    check_search(store, contents, sample_vectors()[3], 250)
    assert store.delete([document.id for document in documents[:2400]]) == 2400
    assert store.count() == 100


def test_large_documents_take_several_requests(server: Pinecone, opened: Opener) -> None:
    store = opened()
    documents = [Document("x" * 30_000, id=f"{n:03}") for n in range(100)]
    contents = fill_store(store, documents, sample_vectors()[np.arange(100) % 12])
    assert upserts(server) == 4
    check_search(store, contents, sample_vectors()[0], 100)


def test_a_document_over_40_kb_is_stored_in_parts(server: Pinecone, opened: Opener) -> None:
    store = opened()
    contents = fill_store(
        store, [Document('"' * 60_000, id="long"), Document("short", id="short")], sample_vectors()[:2]
    )
    assert sorted(stored_records(server)) == ["long", "short"]
    assert len(stored_records(server, "default-parts")) == 7
    check_contents(store, contents)
    check_search(store, contents, sample_vectors()[0], 2)


def test_parts_are_deleted_with_their_document(server: Pinecone, opened: Opener) -> None:
    first = opened(namespace="n")
    first.add_documents([Document("x" * 60_000, id="a"), Document("y" * 60_000, id="b")], sample_vectors()[:2])
    assert len(stored_records(server, "n-parts")) == 8
    again = opened(namespace="n")
    again.add_documents([Document("short", id="a")], sample_vectors()[:1])
    assert len(stored_records(server, "n-parts")) == 4
    assert again.delete(["b"]) == 1
    assert stored_records(server, "n-parts") == {}


def test_metadata_above_the_size_limit_can_be_filtered(server: Pinecone, opened: Opener) -> None:
    store = opened()
    words = Document("many", {"words": [f"word {n}" for n in range(3000)], "n": [1, 2]}, id="many")
    contents = fill_store(store, [words, Document("few", {"words": "word 7", "n": 1}, id="few")], sample_vectors()[:2])
    assert stored_records(server)["many"]["metadata"].keys() == {"over", "write", "parts"}  # type: ignore[attr-defined]  # a dict
    for where in ({"words": "word 7"}, {"words": "word 2999"}, {"words": {"$ne": "word 2999"}}, {"n": {"$gt": 1}}):
        check_search(store, contents, sample_vectors()[0], 2, where)


def test_a_top_k_above_the_limit_of_the_service_reads_all_rows(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragkit.store.backends.pinecone.MAX_TOP_K", 20)
    store = opened()
    documents = [Document("t", {"s": f"{n:02}"}, id=f"{n:02}") for n in range(100)]
    contents = fill_store(store, documents, unit_rows(100, DIMENSION, seed=5))
    check_search(store, contents, sample_vectors()[0], 90)
    check_search(store, contents, sample_vectors()[0], 3, {"s": {"$gte": "97"}})


def test_for_many_documents_the_count_of_the_service_is_used(
    server: Pinecone, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragkit.store.backends.pinecone.MAX_EXACT_COUNT", 1)
    store = opened()
    store.add_documents(make_documents("abc"), sample_vectors()[:3])
    server.state.requests.clear()
    assert store.count() == 3
    assert server.state.requests == ["POST /of/one/describe_index_stats"]


def test_namespaces_are_separate_stores(server: Pinecone, opened: Opener) -> None:
    item, other = opened(namespace="one"), opened(namespace="other")
    fill_store(item, make_documents("ab"), sample_vectors()[:2])
    contents = fill_store(other, make_documents("b"), sample_vectors()[2:3])
    item.clear()
    check_contents(other, contents)
    wide = unit_rows(1, DIMENSION + 1, seed=1)
    with pytest.raises(StoreError, match=r"dimension mismatch: .* has 8 in other namespaces \('other'\), got 9"):
        item.add_documents(make_documents("a"), wide)
    other.clear()
    check_contents(item, fill_store(item, make_documents("a"), wide))


def test_an_index_with_another_dimension_than_the_options_is_rejected(opened: Opener) -> None:
    opened().add_documents(make_documents("a"), sample_vectors()[:1])
    with pytest.raises(DimensionMismatch, match=f"the store has {DIMENSION}, got 3"):
        opened(dimension=3)


def test_an_index_with_another_metric_is_rejected(server: Pinecone, opened: Opener) -> None:
    opened().add_documents(make_documents("a"), sample_vectors()[:1])
    server.state.indexes["one"].metric = "euclidean"
    with pytest.raises(StoreError, match=r"must be dotproduct or cosine \(got euclidean\)"):
        opened()


def test_foreign_records_are_ignored(server: Pinecone, opened: Opener) -> None:
    store = opened()
    store.add_documents(make_documents("a"), sample_vectors()[:1])
    stored_records(server)["theirs"] = {"id": "theirs", "values": [0.5] * DIMENSION, "metadata": {"text": "x"}}
    with pytest.raises(
        StoreError, match="has records that this store did not write: choose another `namespace` or `index_name`"
    ):
        store.search(sample_vectors()[0], 2)


def test_a_wrong_key_is_an_error_and_not_shown(server: Pinecone) -> None:
    options = PineconeOptions("secret", host=server.host)
    with pytest.raises(StoreError, match="Pinecone rejected the API key: correct the option `api_key`"):
        PineconeStore(options)
    assert "secret" not in repr(options)


def test_an_unreachable_service_is_named() -> None:
    with pytest.raises(
        StoreError, match=r"Pinecone's index 'ragkit' cannot be reached .*: check the network and `host"
    ):
        PineconeStore(PineconeOptions(KEY, host=f"http://127.0.0.1:{free_port()}", retries=0))


def test_ids_that_the_service_rejects_are_restored(opened: Opener) -> None:
    names = ["x" * 600, "é" * 300, "a/b?c#d%41", "\0", "\udc80", " ", "%%"]
    store = opened()
    contents = fill_store(store, make_documents(names), sample_vectors()[: len(names)])
    check_contents(store, contents)
    assert store.delete(names) == len(names)


@given(st.text(st.characters(), max_size=150))
def test_keys_are_ascii_and_decode_to_the_id(name: str) -> None:
    key = to_record_id(name or "x")
    assert key.isascii()
    assert 1 <= len(key) <= MAX_KEY_BYTES
    assert from_record_id(key) in {name or "x", None}


def test_only_long_ids_become_a_hash() -> None:
    assert to_record_id("docs/a b.md#1") == "docs%2Fa%20b.md%231"
    assert to_record_id("x" * MAX_KEY_BYTES) == "x" * MAX_KEY_BYTES
    assert (len(to_record_id("x" * (MAX_KEY_BYTES + 1))), from_record_id(to_record_id("x" * (MAX_KEY_BYTES + 1)))) == (
        34,
        None,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api_key": ""}, r"api_key must be an API key \(see app\.pinecone\.io\) \(got ''\)"),
        (
            {"index_name": "a_b"},
            r"index_name must be a name of up to 45 lowercase letters, digits and '-' \(got 'a_b'\)",
        ),
        (
            {"namespace": "x-parts"},
            r"namespace must be printable ASCII that does not end in '-parts' \(got 'x-parts'\)",
        ),
        ({"retries": -1}, r"retries must be >= 0 \(got -1\)"),
        ({"wait_seconds": -1}, r"wait_seconds must be >= 0 \(got -1\)"),
    ],
)
def test_inconsistent_options_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        replace(PineconeOptions(KEY), **options)  # type: ignore[arg-type]  # wrong on purpose

"""The Milvus store beyond the conformance suite: a real server, and limits of the engine."""

from __future__ import annotations

import gc
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pymilvus import MilvusClient, MilvusException

from ragkit.errors import DimensionMismatch, InvalidOption, KnowledgeBaseLocked, StoreError
from ragkit.records import Document
from ragkit.store.backends.milvus import MilvusStore
from ragkit.store.backends.milvus_records import MAX_LIKE_CLAUSES, MAX_TOKENS, to_expression, to_row
from ragkit.store.base import Filter
from ragkit.store.filters.language import parse_filter
from ragkit.store.filters.pushdown import to_condition
from ragkit.store.options import MilvusOptions
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
from tests.servers.base import free_port
from tests.servers.milvus import Milvus


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    server = Milvus()
    server.start()
    yield server.uri
    server.stop()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MilvusStore]:
    store = MilvusStore(MilvusOptions(path=tmp_path / "m"))
    yield store
    store.close()


@pytest.mark.rotating
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_store_on_a_server_passes_the_conformance_suite(uri: str, check: StoreCheck) -> None:
    name = f"test_{CHECKS.index(check)}"
    check(StoreUnderTest(open=lambda: MilvusStore(MilvusOptions(uri=uri, collection=name, method="hnsw")), examples=30))


def test_a_directory_is_held_by_one_store_at_a_time(store: MilvusStore, tmp_path: Path) -> None:
    store.add_documents(make_documents("a"), sample_vectors()[:1])
    with pytest.raises(KnowledgeBaseLocked, match="is locked by another process, or another store of this one"):
        MilvusStore(MilvusOptions(path=tmp_path / "m"))
    store.close()
    again = MilvusStore(MilvusOptions(path=tmp_path / "m"))
    assert again.count() == 1
    again.close()


def test_a_directory_with_other_files_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="is not a directory of the store 'milvus': choose another `path`"):
        MilvusStore(MilvusOptions(path=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_broken_file_is_a_one_line_error(store: MilvusStore, tmp_path: Path) -> None:
    store.add_documents(make_documents("a"), sample_vectors()[:1])
    store.delete(["a"])
    store.close()
    [deletions] = (tmp_path / "m").rglob("delta_*.parquet")
    deletions.write_bytes(b"")
    code = (
        "from pathlib import Path; from ragkit.errors import StoreError; from ragkit.store.backends.milvus import *\n"
        "try: MilvusStore(MilvusOptions(path=Path('m')))\n"
        "except StoreError as error: print(error)"
    )
    # in a separate process without logging configuration
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("Milvus at m failed: Could not open Parquet input source")
    assert result.stderr == ""


def test_a_foreign_collection_is_not_modified(uri: str) -> None:
    client = MilvusClient(uri)
    client.create_collection("theirs", dimension=4)
    with pytest.raises(
        StoreError, match=r"the collection 'theirs' of .* was not created by this store: choose another"
    ):
        MilvusStore(MilvusOptions(uri=uri, collection="theirs"))
    assert client.has_collection("theirs")
    client.close()


def test_a_directory_with_another_dimension_than_the_options_is_rejected(store: MilvusStore, tmp_path: Path) -> None:
    store.add_documents(make_documents("a"), sample_vectors()[:1])
    store.close()
    with pytest.raises(DimensionMismatch, match=f"the store has {DIMENSION}, got 3"):
        MilvusStore(MilvusOptions(path=tmp_path / "m", dimension=3))


def test_expressions_contain_no_text_of_a_filter() -> None:
    where: Filter = {
        'x" or key != "': {"$in": ['" or key != "', 2.5]},
        "y'": {"$not": {"$lt": -1e-300}},
        "z": {"$exists": False},
    }
    expression = to_expression(to_condition(parse_filter(where)))
    plain = re.sub(r'like "%~[A-Za-z0-9+-]{12}%"', "like _", expression)
    plain = re.sub(r"\b[fh]_[A-Za-z0-9_]+", "x", plain)
    assert plain == (
        "over == true or ((tokens like _ or tokens like _ or tokens like _) and "
        "((not (tokens like _) or x >= -1e-300)) and (not (tokens like _)))"
    )


def test_a_filter_with_too_many_values_for_single_conditions_works(store: MilvusStore) -> None:
    documents = [Document("t", {"v": n} if n % 2 else {}, id=f"{n:02}") for n in range(40)]
    contents = fill_store(store, documents, unit_rows(40, DIMENSION, seed=6))
    expected = [*range(7, MAX_LIKE_CLAUSES * 2)]
    for operator in ("$in", "$nin"):
        where: Filter = {"v": {operator: expected}}
        assert to_expression(to_condition(parse_filter(where))).count("like") <= 1
        check_search(store, contents, sample_vectors()[0], 30, where)


def test_a_filter_with_too_many_values_for_one_expression_works(store: MilvusStore) -> None:
    many = Document("many", {"words": [f"w{n}" for n in range(MAX_TOKENS)]}, id="many")
    row, numbers = to_row(many, sample_vectors()[0])
    assert (row["tokens"], row["over"], numbers) == ("", True, {})
    contents = fill_store(store, [many, Document("few", {"words": ["w7"]}, id="few")], sample_vectors()[:2])
    wheres: list[Filter] = [{"words": "w7"}, {"words": "w4000"}, {"words": {"$ne": "w4000"}}]
    for where in [*wheres, {"words": {"$exists": False}}]:
        check_search(store, contents, sample_vectors()[0], 2, where)


def test_a_document_too_large_for_one_field_is_restored(store: MilvusStore) -> None:
    long = Document("é" * 400_000, {"deep": {"a": ["b" * 100_000]}}, id="i" * 10_000)
    check_contents(store, fill_store(store, [long], sample_vectors()[:1]))


def test_an_id_that_is_too_long_is_rejected(store: MilvusStore) -> None:
    with pytest.raises(StoreError, match=r"the document 'long-long-.*' is too long for the store 'milvus'"):
        store.add_documents(make_documents(["long-" * 12_000]), sample_vectors()[:1])


def test_numbers_of_any_size_are_compared(store: MilvusStore) -> None:
    values = (-1.5e300, -(2.0**63), -1e-300, 0.0, 1e-300, 2.5, 2.0**53, 1.5e300)
    contents = fill_store(
        store, [Document("t", {"v": each}, id=f"{each}") for each in values], sample_vectors()[: len(values)]
    )
    for each in values:
        for operator in ("$gt", "$gte", "$lt", "$lte"):
            check_search(store, contents, sample_vectors()[0], 8, {"v": {operator: each}})
            check_search(store, contents, sample_vectors()[0], 8, {"v": {"$not": {operator: each}}})


def test_a_top_k_above_the_limit_of_the_engine_reads_all_rows(
    store: MilvusStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragkit.store.backends.milvus.MAX_TOP_K", 20)
    rows = unit_rows(100, DIMENSION, seed=5)
    contents = fill_store(store, [Document("t", {"s": f"{n:02}"}, id=f"{n:02}") for n in range(100)], rows)
    check_search(store, contents, sample_vectors()[0], 90)
    check_search(store, contents, sample_vectors()[0], 3, {"s": {"$gte": "97"}})


def test_an_unreachable_server_is_named() -> None:
    uri = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(StoreError, match=f"Milvus at {uri} failed"):
        MilvusStore(MilvusOptions(uri=uri, timeout_seconds=1))


def test_closing_a_store_writes_nothing_to_stderr(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for number in range(12):
        store = MilvusStore(MilvusOptions(path=str(tmp_path / str(number))))
        store.add_documents([Document("text", id="a")], unit_rows(1, 8, 0))
        client = store._require_client()
        with ThreadPoolExecutor(3) as readers:
            reads = [readers.submit(client.list_collections) for _ in range(3)]
            store.close()
        assert all(isinstance(read.exception(), MilvusException | None) for read in reads)
    assert capfd.readouterr().err == ""


@pytest.mark.filterwarnings("ignore:Exception ignored in.*wal_")
@pytest.mark.parametrize("change", ["add", "delete"])
def test_closing_a_store_that_cannot_write_its_files_is_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    options = MilvusOptions(path=tmp_path / "m")
    partitions, moved = tmp_path / "m/collections/ragkit/partitions", tmp_path / "partitions"
    store = MilvusStore(options)
    store.add_documents([Document("x", id="a"), Document("y", id="b")], sample_vectors()[:2])
    if change == "delete":
        store.close()
        store = MilvusStore(options)
        store.delete(["a"])
        partitions.rename(moved)
    partitions.write_text("a file in its place")
    with pytest.raises(StoreError, match=r"Milvus at .* failed: .*partitions"):
        store.close()
    store.close()
    partitions.unlink()
    if change == "delete":
        moved.rename(partitions)
    with closing(MilvusStore(options)) as again:  # nothing is lost
        assert again.count() == (1 if change == "delete" else 2)
    caplog.clear()  # its records refer to a file that Milvus Lite leaves open after a failure
    gc.collect()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_interrupt_waits_for_the_call_of_the_client(
    store: MilvusStore, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    client = store._require_client()
    upsert = client.upsert

    def interrupted(*arguments: Any) -> Any:
        if moment == "before":
            signal.raise_signal(signal.SIGINT)
        result = upsert(*arguments)
        if moment == "after":
            signal.raise_signal(signal.SIGINT)
        return result

    monkeypatch.setattr(client, "upsert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.add_documents(make_documents("ab"), sample_vectors()[:2])
    assert store.count() == 2


def test_an_interrupted_store_is_closed_in_time(store: MilvusStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.add_documents(make_documents("a"), sample_vectors()[:1])
    client, close = store._require_client(), store._require_client().close
    closed: list[bool] = []

    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        close()
        closed.append(True)

    monkeypatch.setattr(client, "close", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.close()
    assert closed == [True]
    with closing(MilvusStore(store._options)) as again:  # the directory is free
        assert again.count() == 1


def test_a_closed_store_raises_an_error(store: MilvusStore) -> None:
    store.close()
    with pytest.raises(StoreError, match=r"the store in Milvus at .* is closed: open it again"):
        store.count()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"path": "m", "collection": "a-b"},
            "collection must be a name of letters, digits and '_' that does not start with a digit",
        ),
        ({"path": "m", "method": "flat"}, r"method must be 'exact' or 'hnsw' \(got 'flat'\)"),
        ({"path": "m", "m": 1}, r"m must be between 2 and 2048 \(got 1\)"),
        ({"path": "m", "ef": 0}, r"ef must be >= 1 \(got 0\)"),
    ],
)
def test_inconsistent_options_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        MilvusOptions(**options)  # type: ignore[arg-type]  # wrong on purpose


def test_a_store_without_a_path_or_url_is_rejected() -> None:
    with pytest.raises(InvalidOption, match=r"path must be set, or the option `uri` \(got ''\)"):
        MilvusStore(MilvusOptions())


def test_a_token_is_never_shown() -> None:
    assert "secret" not in repr(MilvusOptions(uri="http://x", token="user:secret"))

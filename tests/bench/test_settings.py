"""Settings files: what they say, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragkit.bench.settings import (
    BenchEntry,
    BenchSettings,
    available_cores,
    expand_variables,
    find_shipped_settings,
    parse_settings,
    read_settings,
)
from ragkit.errors import InvalidOption
from ragkit.records import JSON


def test_a_file_says_what_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "data: {rows: 500, dimension: 8}\nrounds: 2\nshares: [0.5]\n"
        "stores:\n  - {name: faiss, label: graph, options: {m: 8}, sweep: {ef_search: [16, 64], m: [4]}}\n"
    )
    settings = read_settings(file)
    assert (settings.data.rows, settings.data.dimension, settings.rounds, settings.shares) == (500, 8, 2, (0.5,))
    [entry] = settings.stores
    assert entry == BenchEntry("faiss", "graph", {"m": 8}, {"ef_search": (16, 64), "m": (4,)})
    assert [*entry.sweep_points()] == [{}, {"ef_search": 16, "m": 4}, {"ef_search": 64, "m": 4}]


@pytest.mark.parametrize("name", ["quick", "full"])
def test_the_shipped_files_can_be_read(name: str) -> None:
    labels = [entry.label for entry in read_settings(name).stores]
    assert labels[0] == "numpy brute force"
    assert {"sqlite", "memory", "faiss hnsw", "chroma", "duckdb"} <= {*labels}


def test_the_full_file_has_every_store() -> None:
    assert {entry.name for entry in read_settings("full").stores} == {
        "numpy", "memory", "sqlite", "faiss", "chroma", "duckdb", "lancedb", "qdrant", "milvus", "pgvector", "pinecone",
    }  # fmt: skip


def test_a_name_that_is_not_shipped_has_no_file() -> None:
    assert find_shipped_settings("slow") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", r"the settings is \[1, 2\]: a mapping is wanted"),
        ("rounds: 2", r"stores is None: a value for it is wanted"),
        ("stores: 3", r"stores is 3: a list of stores is wanted"),
        ("stores: []", r"stores is \[\]: at least one store is wanted"),
        ("stores: [{label: a}]", r"stores\[0\].name is None: a value for it is wanted"),
        ("stores: [{name: 3}]", r"stores\[0\].name is 3: the name of a store is wanted"),
        ("stores: [{name: a}, {name: a}]", r"label is 'a': a label that no other store has is wanted"),
        ("stores: [{name: a, sweeps: {}}]", r"stores\[0\].sweeps is \{\}: another key \(did you mean 'sweep'\?\)"),
        ("stores: [{name: a, sweep: {m: 3}}]", r"stores\[0\].sweep.m is 3: a list of values is wanted"),
        ("stores: [{name: a, dollars_per_hour: x}]", r"stores\[0\].dollars_per_hour is 'x': a number is wanted"),
        ("stores: [{name: a}]\nround: 3", r"round is 3: another key \(did you mean 'rounds'\?\)"),
        ("stores: [{name: a}]\nrounds: 0", r"rounds is 0: 1 or more is wanted"),
        ("stores: [{name: a}]\nrounds: 2.5", r"rounds is 2.5: a whole number is wanted"),
        ("stores: [{name: a}]\nrounds: true", r"rounds is True: a whole number is wanted"),
        ("stores: [{name: a}]\nround_seconds: .nan", r"round_seconds is nan: a number is wanted"),
        ("stores: [{name: a}]\nshares: [2.0]", r"shares is 2.0: a share of the rows, between 0 and 1, is wanted"),
        ("stores: [{name: a}]\ndata: {rows: 5}", r"data.rows is 5: 100 or more is wanted"),
        ("stores: [{name: a}", r"a YAML file is wanted"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(InvalidOption, match=message) as met:
        read_settings(file)
    assert str(file) in met.value.option


def test_a_file_that_is_not_there_is_said_so() -> None:
    with pytest.raises(InvalidOption, match="`quick`, `full` or a file that is there is wanted"):
        read_settings("nowhere.yaml")


def test_an_option_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_DSN", "postgresql://there")
    monkeypatch.delenv("BENCH_KEY", raising=False)
    given: dict[str, JSON] = {"dsn": "${BENCH_DSN}", "host": "${BENCH_KEY:-here}", "m": 3, "name": "a$b"}
    assert expand_variables(given) == {"dsn": "postgresql://there", "host": "here", "m": 3, "name": "a$b"}
    with pytest.raises(InvalidOption, match="the environment variable BENCH_KEY, which is not set, is wanted"):
        expand_variables({"key": "${BENCH_KEY}"})


def test_no_number_of_threads_means_one_for_each_core() -> None:
    store = {"stores": [{"name": "memory"}]}
    assert parse_settings(store).thread_count == len(available_cores())
    assert BenchSettings((BenchEntry("memory"),), threads=7).thread_count == 7

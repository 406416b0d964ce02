"""Settings files: valid content and error messages."""

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
        ("[1, 2]", r"settings must be a mapping \(got \[1, 2\]\)"),
        ("rounds: 2", r"stores must be set \(got None\)"),
        ("stores: 3", r"stores must be a list of stores \(got 3\)"),
        ("stores: []", r"stores must be at least one store \(got \[\]\)"),
        ("stores: [{label: a}]", r"stores\[0\].name must be set \(got None\)"),
        ("stores: [{name: 3}]", r"stores\[0\].name must be the name of a store \(got 3\)"),
        ("stores: [{name: a}, {name: a}]", r"label must be unique \(got 'a'\)"),
        (
            "stores: [{name: a, sweeps: {}}]",
            r"key of stores\[0\] must be one of .* \(did you mean 'sweep'\?\) \(got 'sweeps'\)",
        ),
        ("stores: [{name: a, sweep: {m: 3}}]", r"stores\[0\].sweep.m must be a list of values \(got 3\)"),
        ("stores: [{name: a, dollars_per_hour: x}]", r"stores\[0\].dollars_per_hour must be a number \(got 'x'\)"),
        ("stores: [{name: a}]\nround: 3", r"key of settings must be .* \(did you mean 'rounds'\?\) \(got 'round'\)"),
        ("stores: [{name: a}]\nrounds: 0", r"rounds must be >= 1 \(got 0\)"),
        ("stores: [{name: a}]\nrounds: 2.5", r"rounds must be an integer \(got 2.5\)"),
        ("stores: [{name: a}]\nrounds: true", r"rounds must be an integer \(got True\)"),
        ("stores: [{name: a}]\nround_seconds: .nan", r"round_seconds must be a number \(got nan\)"),
        ("stores: [{name: a}]\nshares: [2.0]", r"shares must be between 0 and 1 \(exclusive\) \(got 2.0\)"),
        ("stores: [{name: a}]\ndata: {rows: 5}", r"data.rows must be >= 100 \(got 5\)"),
        ("stores: [{name: a}", r"--settings must be a valid YAML file: .* \(got '.*bad.yaml'\)"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(InvalidOption, match=message) as error:
        read_settings(file)
    assert str(file) in str(error.value)


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(InvalidOption, match="--settings must be `quick`, `full` or an existing file"):
        read_settings("nowhere.yaml")


def test_an_option_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_DSN", "postgresql://there")
    monkeypatch.delenv("BENCH_KEY", raising=False)
    value: dict[str, JSON] = {"dsn": "${BENCH_DSN}", "host": "${BENCH_KEY:-here}", "m": 3, "name": "a$b"}
    assert expand_variables(value) == {"dsn": "postgresql://there", "host": "here", "m": 3, "name": "a$b"}
    with pytest.raises(InvalidOption, match=r"key must be an environment variable that is set \(got '\$\{BENCH_KEY"):
        expand_variables({"key": "${BENCH_KEY}"})


def test_the_default_number_of_threads_is_one_per_core() -> None:
    store = {"stores": [{"name": "memory"}]}
    assert parse_settings(store).thread_count == len(available_cores())
    assert BenchSettings((BenchEntry("memory"),), threads=7).thread_count == 7

"""Settings files: valid content and error messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragkit.bench.settings import BenchEntry, BenchSettings, available_cores, expand_variables
from ragkit.bench.settings_file import find_shipped_settings, parse_settings, read_settings
from ragkit.errors import InvalidOption, PipelineError
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
        ("", "1:1: the settings must be a mapping with `stores`, a list of stores"),
        ("[1, 2]", "1:1: the settings must be a mapping with `stores`, a list of stores"),
        ("rounds: 2", "1:1: the settings lack `stores`, a list of stores"),
        ("stores: 3", "1:9: stores must be a list of one or more stores, such as [{name: sqlite}] (got 3)"),
        (
            "stores: []",
            "1:9: stores must be a list of one or more stores, such as [{name: sqlite}] (got an empty list)",
        ),
        ("stores: [sqlite]", "1:10: each entry of stores must be a mapping such as {name: sqlite} (got 'sqlite')"),
        ("stores: [{label: a}]", "1:10: missing option 'name' of the entry (a string)"),
        ("stores: [{name: [a]}]", "1:17: name must be a string (got a list)"),
        ("stores:\n- {name: sqlit}", "2:10: unknown store 'sqlit' (did you mean 'sqlite'?); available: numpy, "),
        ("stores:\n- {name: sqlite}\n- {name: sqlite}", "3:10: label must be unique (got 'sqlite', as in line 2)"),
        ("stores: [{name: sqlite, sweeps: {}}]", "1:25: unknown option 'sweeps' of the entry (did you mean 'sweep'?)"),
        ("stores: [{name: faiss, sweep: {m: 3}}]", "1:35: m must be a list of values (got 3)"),
        ("stores: [{name: faiss, sweep: {m: [3, a]}}]", "1:39: m must be an integer (got 'a')"),
        ("stores: [{name: faiss, sweep: {mm: [3]}}]", "1:32: unknown option 'mm' of the store 'faiss'"),
        ("stores: [{name: faiss, options: {methd: 3}}]", "1:34: unknown option 'methd' of the store 'faiss' (did you"),
        ("stores: [{name: faiss, options: {method: flut}}]", "1:42: method must be 'flat' or 'hnsw' or 'ivfpq' (got "),
        ("stores: [{name: faiss, options: {m: 1}}]", "1:37: m must be >= 2 (got 1)"),
        ("stores: [{name: faiss, options: 3}]", "1:33: options must be a mapping of options (got 3)"),
        ("stores: [{name: pgvector}]", "1:10: missing option 'dsn' of the store 'pgvector' (a string)"),
        (
            'stores: [{name: pgvector, options: {dsn: "${NO_SUCH_DSN}", methd: hnsw}}]',
            "1:60: unknown option 'methd' of the store 'pgvector'",
        ),
        (
            "stores: [{name: numpy, options: {m: 1}}]",
            "1:34: unknown option 'm' of the store 'numpy': it has no options",
        ),
        ("stores: [{name: sqlite, dollars_per_hour: x}]", "1:43: dollars_per_hour must be a number or null (got 'x')"),
        ("stores: [{name: sqlite}]\nround: 3", "2:1: unknown option 'round' of the settings (did you mean 'rounds'?)"),
        ("stores: [{name: sqlite}]\nrounds: 0", "2:9: rounds must be >= 1 (got 0)"),
        ("stores: [{name: sqlite}]\nrounds: 2.5", "2:9: rounds must be an integer (got 2.5)"),
        ("stores: [{name: sqlite}]\nrounds: true", "2:9: rounds must be an integer (got true)"),
        ("stores: [{name: sqlite}]\nround_seconds: .nan", "2:16: round_seconds must be a finite number (got .nan)"),
        ("stores: [{name: sqlite}]\nshares: 0.5", "2:9: shares must be a list of numbers (got 0.5"),
        (
            "stores: [{name: sqlite}]\nshares: [0.5, 2.0]",
            "2:15: each entry of shares must be a number between 0 and 1 (exclusive) (got 2.0)",
        ),
        ("stores: [{name: sqlite}]\ndata: {rows: 5}", "2:14: rows must be >= 100 (got 5)"),
        ("stores: [{name: a", "1:10: mapping in { } is not closed or lacks a comma"),
        ("stores: [{name: sqlite}]\nstores: []", "2:1: "),
    ],
)
def test_a_mistake_is_named_with_its_file_line_and_column(
    tmp_path: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_DSN", raising=False)
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(PipelineError, match=r"bad\.yaml:\d+:\d+: ") as error:
        read_settings(file)
    [problem] = error.value.problems
    assert problem.startswith(f"{file}:{message}")


def test_all_mistakes_of_a_file_are_reported_at_once_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(
        "data: {rows: 5, dimensions: 8}\n"
        "rounds: 0\n"
        "shares: [2.0, x, 0.5]\n"
        "stores:\n"
        "  - {name: faiss, options: {methd: hnsw, m: 0}}\n"
        "  - {name: sqlit}\n"
        "  - {name: sqlite, label: faiss}\n"
        "top_k: many\n"
    )
    with pytest.raises(PipelineError, match="rows must be >= 100") as error:
        read_settings(file)
    places = [problem.removeprefix(f"{file}:").split(": ")[0] for problem in error.value.problems]
    assert places == ["1:14", "1:17", "2:9", "3:10", "3:15", "5:29", "5:45", "6:12", "7:27", "8:8"]


def test_a_variable_that_is_set_is_checked_and_one_that_is_not_leaves_the_store_to_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = 'stores: [{name: chroma, options: {host: "${BENCH_HOST}", port: "${BENCH_PORT}"}}]'
    monkeypatch.setenv("BENCH_HOST", "localhost")
    monkeypatch.delenv("BENCH_PORT", raising=False)
    [entry] = parse_settings(text).stores
    assert entry.options == {"host": "${BENCH_HOST}", "port": "${BENCH_PORT}"}
    monkeypatch.setenv("BENCH_PORT", "eighty")
    with pytest.raises(PipelineError, match="port must be an integer"):
        parse_settings(text)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="--settings must be a readable file in UTF-8: "):
        read_settings(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"stores: \xff")
    with pytest.raises(InvalidOption, match="--settings must be a readable file in UTF-8: "):
        read_settings(tmp_path / "latin.yaml")


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(InvalidOption, match="--settings must be `quick`, `full` or an existing file"):
        read_settings("nowhere.yaml")


def test_an_option_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_DSN", "postgresql://there")
    monkeypatch.setenv("BENCH_PORT", "8123")
    monkeypatch.delenv("BENCH_KEY", raising=False)
    value: dict[str, JSON] = {
        "dsn": "${BENCH_DSN}", "host": "${BENCH_KEY:-here}", "m": 3, "name": "a$b", "port": "${BENCH_PORT}",
        "table": "${BENCH_PORT}",
    }  # fmt: skip
    assert expand_variables(value, {"port": int, "table": str}) == {
        "dsn": "postgresql://there", "host": "here", "m": 3, "name": "a$b", "port": 8123, "table": "8123",
    }  # fmt: skip
    with pytest.raises(InvalidOption, match=r"key must be an environment variable that is set \(got '\$\{BENCH_KEY"):
        expand_variables({"key": "${BENCH_KEY}"})


def test_the_default_number_of_threads_is_one_per_core() -> None:
    assert parse_settings("stores: [{name: memory}]").thread_count == len(available_cores())
    assert BenchSettings((BenchEntry("memory"),), threads=7).thread_count == 7

"""Writes a result into a directory, where results gather: a JSON and two Parquet files a run, pictures, one page.

DIR/runs/RUN.json        the medians, with machine, settings and versions; what `--check` takes
DIR/figures/RUN.parquet  each figure of each round
DIR/queries/RUN.parquet  each query's time
DIR/report.html, *.png   the latest run
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ragkit.bench.html_report import render_bench_report
from ragkit.bench.plots import render_plots
from ragkit.bench.results import BenchResult
from ragkit.errors import MissingExtra

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise MissingExtra("the files of a benchmark", extra="bench") from error

MEASUREMENT_SCHEMA = pa.schema([
    ("run", pa.string()), ("label", pa.string()), ("store", pa.string()), ("setting", pa.string()),
    ("figure", pa.string()), ("round", pa.int32()), ("value", pa.float64()),
])  # fmt: skip
QUERY_SCHEMA = pa.schema([
    ("run", pa.string()), ("label", pa.string()), ("setting", pa.string()), ("condition", pa.string()),
    ("round", pa.int32()), ("query", pa.int32()), ("ms", pa.float64()),
])  # fmt: skip


def write_report(directory: Path, outcome: BenchResult) -> Path:
    """Write everything; returns the page. Files of earlier runs stay."""
    for folder, schema, rows in (
        ("figures", MEASUREMENT_SCHEMA, _measurement_rows(outcome)),
        ("queries", QUERY_SCHEMA, _query_rows(outcome)),
    ):
        (directory / folder).mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist(list(rows), schema=schema)
        _write_atomically(directory / folder / f"{outcome.run_id}.parquet", partial(pq.write_table, table))
    text = json.dumps(outcome.to_json(), indent=1, ensure_ascii=False) + "\n"
    (directory / "runs").mkdir(exist_ok=True)
    _write_atomically(directory / "runs" / f"{outcome.run_id}.json", lambda path: path.write_text(text, "utf-8"))
    pictures = render_plots(outcome)
    for name, raw in pictures.items():
        _write_atomically(directory / f"{name}.png", partial(_write_bytes, raw))
    report = directory / "report.html"
    _write_atomically(report, lambda path: path.write_text(render_bench_report(outcome, pictures), "utf-8"))
    return report


def _measurement_rows(outcome: BenchResult) -> Iterator[dict[str, object]]:
    for line in outcome.stores:
        for one in line.measurements:
            yield {
                "run": outcome.run_id, "label": line.entry.label, "store": line.entry.name,
                "setting": json.dumps(dict(one.sweep_point), sort_keys=True), "figure": one.name, "round": one.round,
                "value": one.value,
            }  # fmt: skip


def _query_rows(outcome: BenchResult) -> Iterator[dict[str, object]]:
    for line in outcome.stores:
        for one in line.latencies:
            setting = json.dumps(dict(one.sweep_point), sort_keys=True)
            for query, ms in enumerate(one.ms):
                yield {
                    "run": outcome.run_id, "label": line.entry.label, "setting": setting, "condition": one.condition,
                    "round": one.round, "query": query, "ms": ms,
                }  # fmt: skip


def _write_bytes(raw: bytes, path: Path) -> None:
    path.write_bytes(raw)


def _write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write beside it and put it in its place, so that nobody meets half a file."""
    beside = path.with_name(f".{path.name}.part")
    write(beside)
    beside.replace(path)

"""Writes a result into a directory: one JSON and two Parquet files per run, plots and an HTML report.

DIR/runs/RUN.json        medians, machine, settings and versions; the input of `--check`
DIR/figures/RUN.parquet  each metric of each round
DIR/queries/RUN.parquet  the latency of each query
DIR/report.html, *.png   the latest run
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from ragkit.bench.html_report import render_bench_report
from ragkit.bench.plots import render_plots
from ragkit.bench.results import BenchResult
from ragkit.bench.verdict import result_json
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
    """Write all files of a run and return the path of the HTML report. Files of earlier runs stay."""
    for folder, schema, rows in (
        ("figures", MEASUREMENT_SCHEMA, _measurement_rows(outcome)),
        ("queries", QUERY_SCHEMA, _query_rows(outcome)),
    ):
        (directory / folder).mkdir(parents=True, exist_ok=True)
        parquet = BytesIO()
        pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), parquet)
        _write_atomically(directory / folder / f"{outcome.run_id}.parquet", parquet.getvalue())
    text = json.dumps(result_json(outcome), indent=1, ensure_ascii=False) + "\n"
    (directory / "runs").mkdir(exist_ok=True)
    _write_atomically(directory / "runs" / f"{outcome.run_id}.json", text.encode())
    plots = render_plots(outcome)
    for name, png in plots.items():
        _write_atomically(directory / f"{name}.png", png)
    report = directory / "report.html"
    _write_atomically(report, render_bench_report(outcome, plots).encode())
    return report


def _measurement_rows(outcome: BenchResult) -> Iterator[dict[str, object]]:
    for store in outcome.stores:
        for measurement in store.measurements:
            yield {
                "run": outcome.run_id, "label": store.entry.label, "store": store.entry.name,
                "setting": json.dumps(dict(measurement.sweep_point), sort_keys=True), "figure": measurement.name,
                "round": measurement.round, "value": measurement.value,
            }  # fmt: skip


def _query_rows(outcome: BenchResult) -> Iterator[dict[str, object]]:
    for store in outcome.stores:
        for latencies in store.latencies:
            setting = json.dumps(dict(latencies.sweep_point), sort_keys=True)
            for query, ms in enumerate(latencies.ms):
                yield {
                    "run": outcome.run_id, "label": store.entry.label, "setting": setting,
                    "condition": latencies.condition, "round": latencies.round, "query": query, "ms": ms,
                }  # fmt: skip


def _write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary file and rename it, so that no reader sees a partial file."""
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_bytes(content)
    temporary.replace(path)

"""Compares two results of a benchmark, and checks a result against a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragkit.bench.metric_names import format_metric, metric_name
from ragkit.bench.results import BenchBaseline, SavedStoreResult
from ragkit.errors import InvalidOption, MissingExtra

RECALL_TOLERANCE = 0.01
"""The absolute drop in recall that is accepted."""
HIGHER_IS_BETTER = (
    "recall",
    "qps_1",
    "qps_n",
    "build_rate",
    "add_rate",
    "delete_rate",
    "read_gb_s",
    "recall_after",
    "recall_quarter",
)
CHECKED_METRICS = ("recall", "recall_after", "p50_ms", "qps_n", "build_rate", "disk_bytes")
"""The metrics that `--check` compares, with recall and p50 of each filter. The others vary too much between runs."""
NEUTRAL_METRICS = ("asked", "raw_bytes", "import_s", "put_s")
"""Metrics without a better direction."""


@dataclass(frozen=True)
class MetricDifference:
    """One metric of one store in two results."""

    label: str
    sweep_point: str
    """JSON of the options that differ from the entry; `{}`: none."""
    metric: str
    before: float
    after: float
    store: str = ""
    """The registered name of the store."""

    @property
    def relative_change(self) -> float:
        """The improvement as a share of the old value; negative if it is worse."""
        if not self.before:
            return 0.0
        change = (self.after - self.before) / abs(self.before)
        return change if higher_is_better(self.metric) else -change


def higher_is_better(metric: str) -> bool:
    """Whether a higher value of a metric is better."""
    return metric.rpartition(":")[2] in HIGHER_IS_BETTER


def find_regressions(baseline: BenchBaseline, now: Sequence[SavedStoreResult], tolerance: float) -> list[str]:
    """One line for each metric that is worse than in the baseline by more than the tolerance; empty if none is.

    Both must have the same rows and queries, which `check_comparable` verifies before the run.
    """
    current = {store.label: store for store in now}
    regressions: list[str] = []
    for before in baseline.stores:
        after = current.get(before.label)
        if before.status != "ok":
            continue
        if after is None or after.status != "ok":
            regressions.append(f"{before.label}: {after.status if after else 'not measured'} (was ok)")
            continue
        regressions += _store_regressions(before, after, tolerance)
    return regressions


def check_comparable(baseline: BenchBaseline, data: str, top_k: int, threads: int) -> None:
    """Raises InvalidOption if the baseline has other rows, queries, `top_k` or number of threads."""
    for name, value, expected in (
        ("data fingerprint", baseline.data_fingerprint, data),
        ("top_k", baseline.top_k, top_k),
        ("number of threads", baseline.threads, threads),
    ):
        if value != expected:
            raise InvalidOption(f"--check: {name} of the baseline", value, f"{expected!r}, as in this run")


def _store_regressions(before: SavedStoreResult, after: SavedStoreResult, tolerance: float) -> list[str]:
    regressions = []
    for metric, value in before.metrics.items():
        filtered = metric.endswith((":recall", ":p50_ms"))
        if metric not in after.metrics or not (metric in CHECKED_METRICS or filtered):
            continue
        change = MetricDifference(before.label, "{}", metric, value, after.metrics[metric])
        dropped = change.after < change.before - RECALL_TOLERANCE
        if dropped if "recall" in metric else change.relative_change < -tolerance:
            values = f"{format_metric(metric, change.before)} -> {format_metric(metric, change.after)}"
            worse = f"{-change.relative_change:.0%} worse"
            regressions.append(f"{change.label}: {metric_name(metric)} {values} ({worse})")
    return regressions


@dataclass(frozen=True)
class BenchComparison:
    """The differences between two runs."""

    before: str
    """Id of the earlier run."""
    after: str
    """Id of the later run."""
    differences: tuple[MetricDifference, ...]
    only_in: Mapping[str, tuple[str, ...]]
    """By run id, the stores that only this run has."""


def compare_runs(a: Path, b: Path | None = None) -> BenchComparison:
    """Compare the medians of all metrics that two results have in common, by store.

    Args:
        a, b: directories with results, of which the latest run is used, or files `DIR/runs/RUN.json`.
            Without `b`, the last two runs of `a`.

    Raises:
        MissingExtra: DuckDB is not installed.
        InvalidOption: there is no result.
    """
    try:
        import duckdb  # noqa: PLC0415 - only a comparison needs it
    except ImportError as error:
        raise MissingExtra("comparing benchmarks", extra="bench") from error
    before, after = _measurements_path(a, 0 if b else 1), _measurements_path(b or a)
    with duckdb.connect() as connection:
        rows = connection.execute(
            """
            WITH medians AS (
                SELECT 1 AS side, label, store, setting, figure, median(value) AS value
                FROM read_parquet($before) GROUP BY ALL
                UNION ALL
                SELECT 2, label, store, setting, figure, median(value) FROM read_parquet($after) GROUP BY ALL
            )
            SELECT x.label, x.setting, x.figure, x.value, y.value, y.store
            FROM medians x JOIN medians y USING (label, setting, figure)
            WHERE x.side = 1 AND y.side = 2 ORDER BY x.label, x.setting, x.figure
            """,
            {"before": str(before), "after": str(after)},
        ).fetchall()
        labels = "SELECT DISTINCT label FROM read_parquet(?)"
        stores = {run: set(connection.execute(labels, [str(run)]).fetchall()) for run in (before, after)}
    runs = ((before, after), (after, before))
    only = {run.stem: tuple(label for (label,) in sorted(stores[run] - stores[other])) for run, other in runs}
    differences = tuple(MetricDifference(*row) for row in rows if row[2].rpartition(":")[2] not in NEUTRAL_METRICS)
    return BenchComparison(before.stem, after.stem, differences, only)


def _measurements_path(place: Path, back: int = 0) -> Path:
    """The Parquet file of the run RUN.json, or of the latest run in a directory, or `back` runs before it."""
    if place.suffix == ".json":
        path = place.parent.parent / "figures" / f"{place.stem}.parquet"
        if not path.is_file():
            expected = "a file DIR/runs/RUN.json of `ragkit bench --out`"
            raise InvalidOption("bench compare: argument", str(place), expected)
        return path
    # run ids begin with the time, so they sort by age
    runs = sorted((place / "figures").glob("*.parquet"))
    if len(runs) <= back:
        expected = "a directory with two results" if back else "a directory with a result"
        raise InvalidOption("bench compare: argument", str(place), f"{expected} of `ragkit bench --out`")
    return runs[-1 - back]

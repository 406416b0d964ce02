"""Two results side by side, and one held against a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragkit.bench.results import BenchBaseline, SavedStoreResult
from ragkit.errors import InvalidOption, MissingExtra

RECALL_TOLERANCE = 0.01
"""How far a recall may fall: a share of the queries' answers, not of the recall."""
HIGHER_IS_BETTER = ("recall", "qps_1", "qps_n", "build_rate", "add_rate", "delete_rate", "read_gb_s", "recall_after")
CHECKED_METRICS = ("recall", "recall_after", "p50_ms", "qps_n", "build_rate", "disk_bytes")
"""What `--check` holds against the baseline; recall and p50 under each filter too. The rest is too unsteady."""
NEUTRAL_METRICS = ("asked", "raw_bytes", "import_s", "put_s")
"""Figures of which none is better than another."""


@dataclass(frozen=True)
class MetricDifference:
    """One figure of one store in two results."""

    label: str
    sweep_point: str
    """JSON of the options that differ from the entry; `{}`: none."""
    metric: str
    before: float
    after: float

    @property
    def relative_change(self) -> float:
        """How much better it is now, as a share of what it was: below 0 it is worse."""
        if not self.before:
            return 0.0
        up = (self.after - self.before) / abs(self.before)
        return up if higher_is_better(self.metric) else -up


def higher_is_better(figure: str) -> bool:
    """Whether more of it is better."""
    return figure.rpartition(":")[2] in HIGHER_IS_BETTER


def find_regressions(baseline: BenchBaseline, now: Sequence[SavedStoreResult], tolerance: float) -> list[str]:
    """What is worse now than in the baseline by more than the tolerance, a line each; empty: all is well.

    Both are of the same rows and queries: `check_comparable` says so before anything is measured.
    """
    present = {line.label: line for line in now}
    found: list[str] = []
    for before in baseline.stores:
        after = present.get(before.label)
        if before.status != "ok":
            continue
        if after is None or after.status != "ok":
            found.append(f"{before.label}: {after.status if after else 'not measured'}, and was ok")
            continue
        found += _store_regressions(before, after, tolerance)
    return found


def check_comparable(baseline: BenchBaseline, data: str, top_k: int, threads: int) -> None:
    """Raises InvalidOption when the baseline is of other rows or queries, or was asked for otherwise."""
    for what, met, wanted in (
        ("the rows and queries", baseline.data_fingerprint, data),
        ("top_k", baseline.top_k, top_k),
        ("the threads", baseline.threads, threads),
    ):
        if met != wanted:
            raise InvalidOption(f"--check: {what} of the baseline", met, f"{wanted!r}, as measured now,")


def _store_regressions(before: SavedStoreResult, after: SavedStoreResult, tolerance: float) -> list[str]:
    found = []
    for figure, value in before.metrics.items():
        filtered = figure.endswith((":recall", ":p50_ms"))
        if figure not in after.metrics or not (figure in CHECKED_METRICS or filtered):
            continue
        one = MetricDifference(before.label, "{}", figure, value, after.metrics[figure])
        is_recall = "recall" in figure
        if (is_recall and one.after < one.before - RECALL_TOLERANCE) or (
            not is_recall and one.relative_change < -tolerance
        ):
            found.append(
                f"{one.label}: {figure} was {one.before:.4g} and is {one.after:.4g} ({-one.relative_change:.0%} worse)"
            )
    return found


@dataclass(frozen=True)
class BenchComparison:
    """What `compare` has found."""

    before: str
    """Names of the runs."""
    after: str
    differences: tuple[MetricDifference, ...]
    only_in: Mapping[str, tuple[str, ...]]
    """By run, the stores that the other one lacks."""


def compare_runs(a: Path, b: Path | None = None) -> BenchComparison:
    """Hold two results against each other: the medians of every figure that both have, by store.

    Args:
        a, b: directories that a benchmark has written to, whose latest run is taken, or files `DIR/runs/RUN.json`.
            Without `b`, the last two runs of `a`.

    Raises:
        MissingExtra: DuckDB is not installed.
        InvalidOption: there is no result.
    """
    try:
        import duckdb  # noqa: PLC0415 - only a comparison needs it
    except ImportError as error:
        raise MissingExtra("comparing benchmarks", extra="bench") from error
    before, after = (
        (_measurements_path(a, 1), _measurements_path(a))
        if b is None
        else (_measurements_path(a), _measurements_path(b))
    )
    with duckdb.connect() as connection:
        rows = connection.execute(
            """
            WITH taken AS (
                SELECT 1 AS side, label, setting, figure, median(value) AS value FROM read_parquet($before) GROUP BY ALL
                UNION ALL
                SELECT 2, label, setting, figure, median(value) FROM read_parquet($after) GROUP BY ALL
            )
            SELECT x.label, x.setting, x.figure, x.value, y.value
            FROM taken x JOIN taken y USING (label, setting, figure)
            WHERE x.side = 1 AND y.side = 2 ORDER BY x.label, x.setting, x.figure
            """,
            {"before": str(before), "after": str(after)},
        ).fetchall()
        stores = {
            side: {
                row[0]
                for row in connection.execute("SELECT DISTINCT label FROM read_parquet(?)", [str(side)]).fetchall()
            }
            for side in (before, after)
        }
    only = {one.stem: tuple(sorted(stores[one] - stores[other])) for one, other in ((before, after), (after, before))}
    return BenchComparison(
        before.stem, after.stem, tuple(MetricDifference(*row) for row in rows if row[2] not in NEUTRAL_METRICS), only
    )


def _measurements_path(place: Path, back: int = 0) -> Path:
    """The Parquet file of a run: that of a file in `runs`, or the latest of a directory, or one before it."""
    if place.suffix == ".json":
        path = place.parent.parent / "figures" / f"{place.stem}.parquet"
        if not path.is_file():
            raise InvalidOption("bench compare", str(place), "a file in the `runs` of a directory of results")
        return path
    # the name of a run begins with its time
    runs = sorted((place / "figures").glob("*.parquet"))
    if len(runs) <= back:
        wanted = "a directory with a result" if not back else "a directory with two results"
        raise InvalidOption("bench compare", str(place), f"{wanted} of `ragkit bench --out`")
    return runs[-1 - back]

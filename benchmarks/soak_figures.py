"""Evaluate the samples of a soak test: robust slopes, their bounds, and a chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHARE_AN_HOUR, MB_AN_HOUR = 0.05, 10.0
"""Allowed growth of memory in an hour: the larger of a share of its size and a number of MB."""
COUNT_AN_HOUR = 0.5
"""Allowed growth of a count in an hour: less than one in two hours."""
WARM_UP_SECONDS = 900.0
"""Caches and heaps fill during the warm-up; with a shorter one no slope is judged."""
LEAST_MINUTES = 10.0
"""A slope over a shorter time is reported but not judged."""
DISK_TIMES = 3.0
"""Maximum ratio to a fresh index of the same folder: deleted rows stay until compaction."""
FOUND_SECONDS = 2.0
"""Every open reader must find the new words within this time after an index run."""


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    unit: str
    median: float
    slope: float | None
    """Per hour; None: the value is judged, not its slope."""
    most: float
    bound: str
    held: bool | None
    """Whether the bound is met; None: not judged."""


def theil_sen(seconds: Sequence[float], values: Sequence[float]) -> float:
    """The median slope per hour of all pairs of samples; tolerates nearly 30 % outliers.

    Raises:
        ValueError: fewer than two distinct times.

    Source: Theil 1950; Sen, Journal of the American Statistical Association 63 (1968), 1379-1389.
    """
    hours, heights = np.asarray(seconds, float) / 3600, np.asarray(values, float)
    first, second = np.triu_indices(len(hours), 1)
    distance = hours[second] - hours[first]
    if not np.any(distance):
        raise ValueError(f"a slope needs samples at two distinct times (got {len(set(seconds))})")
    return float(np.median((heights[second] - heights[first])[distance != 0] / distance[distance != 0]))


Samples = Sequence[Mapping[str, float]]
"""Each sample has `at`, the seconds since the start."""


def after(samples: Samples, warm_up: float, name: str) -> tuple[list[float], list[float]]:
    """(times, values) of one series after the warm-up (seconds); samples without it are skipped."""
    pairs = [(sample["at"], sample[name]) for sample in samples if name in sample and sample["at"] >= warm_up]
    return [at for at, _ in pairs], [value for _, value in pairs]


def memory(samples: Samples, warm_up: float, name: str, title: str) -> Finding:
    """Check a series in MB: it may grow by a share or a few MB per hour."""
    return _check_slope(samples, warm_up, (name, title, "MB"), lambda median: max(SHARE_AN_HOUR * median, MB_AN_HOUR))


def count(samples: Samples, warm_up: float, name: str, title: str) -> Finding:
    """Check a series of counts: it must not grow."""
    return _check_slope(samples, warm_up, (name, title, ""), lambda median: COUNT_AN_HOUR)


def _check_slope(
    samples: Samples, warm_up: float, labels: tuple[str, str, str], limit: Callable[[float], float]
) -> Finding:
    name, title, unit = labels
    at, values = after(samples, warm_up, name)
    if len(set(at)) < 2:
        return Finding(title, unit, 0.0, None, 0.0, "too few samples", None)
    median, slope = float(np.median(values)), theil_sen(at, values)
    allowed = limit(median)
    judged = at[-1] - at[0] >= LEAST_MINUTES * 60
    return Finding(
        title, unit, round(median, 2), round(slope, 3), round(max(values), 2), f"slope <= {allowed:.3g} per hour",
        slope <= allowed if judged else None,
    )  # fmt: skip


def at_most(values: Sequence[float], limit: float, title: str, unit: str = "") -> Finding:
    """Check that no value exceeds a limit; an empty series fails."""
    most = max(values, default=float("inf"))
    median = float(np.median(values)) if values else float("inf")
    return Finding(title, unit, round(median, 3), None, round(most, 3), f"<= {limit:.4g}", most <= limit)


def verdict(result: Mapping[str, Any]) -> list[Finding]:
    """Check the JSON result of a run against all bounds."""
    samples, rounds, warm_up = result["samples"], result["rounds"], result["warm_up_s"]
    findings: list[Finding] = []
    for who in ("library", "server"):
        findings += [
            memory(samples, warm_up, f"{who}_rss_mb", f"{who}: resident memory"),
            memory(samples, warm_up, f"{who}_pss_mb", f"{who}: its share of memory (PSS)"),
            count(samples, warm_up, f"{who}_fds", f"{who}: open files"),
            count(samples, warm_up, f"{who}_threads", f"{who}: threads"),
        ]
    findings += [
        count(samples, warm_up, "kb_files", "files in the knowledge base"),
        memory(rounds, warm_up, "peak_mb", "index run: peak memory"),
    ]
    disk = after(samples, warm_up, "index_mb")[1]
    return [
        *(findings if warm_up >= WARM_UP_SECONDS else [replace(finding, held=None) for finding in findings]),
        at_most(disk, DISK_TIMES * result["fresh"]["index_mb"], "index on disk", "MB"),
        at_most([round_["found_s"] for round_ in rounds], FOUND_SECONDS, "new words found after a run", "s"),
        at_most([len(result["errors"])], 0, "errors"),
        at_most([len(result["wrong"])], 0, "wrong answers"),
    ]


def table(findings: Sequence[Finding]) -> str:
    """The findings as a Markdown table."""
    lines = ["| series | median | slope per hour | max | bound | met |", "| --- | --: | --: | --: | --- | --- |"]
    for finding in findings:
        slope = "" if finding.slope is None else f"{finding.slope:+.2f}"
        held = "not judged" if finding.held is None else "yes" if finding.held else "**no**"
        unit = f" {finding.unit}" if finding.unit else ""
        values = f"{finding.median:g}{unit} | {slope} | {finding.most:g}{unit}"
        lines.append(f"| {finding.name} | {values} | {finding.bound} | {held} |")
    return "\n".join(lines)


def as_json(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The findings as JSON values."""
    return [asdict(finding) for finding in findings]


# chart


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Draw six panels over the minutes of the run; the warm-up is shaded."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    from ragkit.bench.plots import INK, PALE

    figure = Figure(figsize=(11.0, 6.4), dpi=110)
    panels = figure.subplots(2, 3).ravel()
    samples, rounds = result["samples"], result["rounds"]
    processes = ("library", "server")
    _panel(panels[0], "resident memory, MB", [(who, _line(samples, f"{who}_rss_mb")) for who in processes])
    _panel(panels[1], "open files", [(who, _line(samples, f"{who}_fds")) for who in processes])
    _panel(panels[2], "threads", [(who, _line(samples, f"{who}_threads")) for who in processes])
    _panel(panels[3], "disk, MB", [("index", _line(samples, "index_mb")), ("records", _line(samples, "records_mb"))])
    _panel(panels[4], "one index run: peak memory, MB", [("index run", _line(rounds, "peak_mb"))])
    _panel(panels[5], "search: p50 of each minute, ms", _latencies(result["minutes"]))
    for axes in panels:
        axes.axvspan(0, result["warm_up_s"] / 60, color=PALE, alpha=0.08, lw=0)
        axes.set_xlim(0, result["seconds"] / 60)
    for axes in panels[1:3]:
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    for axes in panels[3:]:
        axes.set_xlabel("minutes", fontsize=8.5, color=PALE)
    title = f"{result['seconds'] / 60:.0f} minutes of work"
    figure.text(0.012, 0.975, title, fontsize=14, fontweight="bold", color=INK, va="top")
    questions = sum(result["asked"].values())
    caption = f"{len(rounds)} index runs over a changing folder, {questions:,} concurrent questions; shaded: warm-up"
    figure.text(0.012, 0.928, caption, fontsize=9, color=PALE, va="top")
    figure.subplots_adjust(left=0.045, right=0.985, top=0.84, bottom=0.075, wspace=0.16, hspace=0.32)
    figure.savefig(path, format="png", facecolor="white")


Line = tuple[list[float], list[float]]
LINES: tuple[tuple[str, str | tuple[int, tuple[float, float]]], ...] = (("#0072B2", "-"), ("#D55E00", (0, (4, 1.2))))
"""Colour and dashes of the first and of the second line of a panel."""


def _line(samples: Samples, name: str) -> Line:
    at, values = after(samples, 0.0, name)
    return [seconds / 60 for seconds in at], values


def _latencies(minutes: Samples) -> list[tuple[str, Line]]:
    complete = [minute for minute in minutes if "library search" in minute]
    return [(who, _line(complete, f"{who} search")) for who in ("library", "server")]


def _panel(axes: Axes, title: str, lines: Sequence[tuple[str, Line]]) -> None:
    from ragkit.bench.plots import GRID, INK, PALE

    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color=GRID, lw=0.8)
    axes.tick_params(which="both", colors=PALE, labelsize=8.5, length=0)
    axes.set_title(title, loc="left", fontsize=9.5, color=INK)
    for number, (name, (at, values)) in enumerate(lines):
        color, style = LINES[number]
        axes.plot(at, values, color=color, lw=1.5, ls=style, label=name)
    axes.set_ylim(0, 1.25 * max([value for _, (_, values) in lines for value in values] or [1.0]))
    if len(lines) > 1:
        axes.legend(loc="upper right", ncols=len(lines), fontsize=8, frameon=False, labelcolor=INK)

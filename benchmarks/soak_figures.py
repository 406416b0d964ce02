"""What a soak's samples say: slopes that a few wild samples do not move, the bounds they are held to, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHARE_AN_HOUR, MB_AN_HOUR = 0.05, 10.0
"""Memory may grow by so much in an hour: the larger of a share of what it is and a number of MB."""
COUNT_AN_HOUR = 0.5
"""A count that may not grow: less than one in two hours is no growth."""
WARM_UP_SECONDS = 900.0
"""Caches and heaps fill in these; with less of a warm-up no slope is judged."""
LEAST_MINUTES = 10.0
"""A slope over less is told, and not judged."""
DISK_TIMES = 3.0
"""The index may be so many times as large as a fresh one of the same folder: what is dead lies there for a while."""
FOUND_SECONDS = 2.0
"""After an index run has ended, its new words are found by every open reader within this."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    unit: str
    median: float
    slope: float | None
    """An hour; None: what counts is the value."""
    most: float
    bound: str
    held: bool | None
    """None: not judged."""


def theil_sen(seconds: Sequence[float], values: Sequence[float]) -> float:
    """The median of the slopes of all pairs of samples, an hour. Nearly a third of the samples may be wild.

    Raises:
        ValueError: fewer than two moments.

    Source: Theil 1950; Sen, Journal of the American Statistical Association 63 (1968), 1379-1389.
    """
    at, found = np.asarray(seconds, float) / 3600, np.asarray(values, float)
    first, second = np.triu_indices(len(at), 1)
    apart = at[second] - at[first]
    if not np.any(apart):
        raise ValueError(f"a slope needs samples of two moments, there are {len(set(seconds))}")
    return float(np.median((found[second] - found[first])[apart != 0] / apart[apart != 0]))


Samples = Sequence[Mapping[str, float]]
"""Each with its `at`, in seconds since the start."""


def after(samples: Samples, warm_up: float, name: str) -> tuple[list[float], list[float]]:
    """Moments and values of one series behind the warm-up (seconds); samples that lack it are left out."""
    pairs = [(one["at"], one[name]) for one in samples if name in one and one["at"] >= warm_up]
    return [at for at, _ in pairs], [value for _, value in pairs]


def memory(samples: Samples, warm_up: float, name: str, title: str) -> Finding:
    """A series in MB: it may grow by a share, or a few MB, an hour."""
    return _flat(samples, warm_up, (name, title, "MB"), lambda median: max(SHARE_AN_HOUR * median, MB_AN_HOUR))


def count(samples: Samples, warm_up: float, name: str, title: str) -> Finding:
    """A series of counts: it may not grow."""
    return _flat(samples, warm_up, (name, title, ""), lambda median: COUNT_AN_HOUR)


def _flat(samples: Samples, warm_up: float, named: tuple[str, str, str], limit: Callable[[float], float]) -> Finding:
    name, title, unit = named
    at, values = after(samples, warm_up, name)
    if len(set(at)) < 2:
        return Finding(title, unit, 0.0, None, 0.0, "too few samples", None)
    median, slope = float(np.median(values)), theil_sen(at, values)
    allowed = limit(median)
    judged = at[-1] - at[0] >= LEAST_MINUTES * 60
    return Finding(
        title, unit, round(median, 2), round(slope, 3), round(max(values), 2), f"slope <= {allowed:.3g} an hour",
        slope <= allowed if judged else None,
    )  # fmt: skip


def at_most(values: Sequence[float], limit: float, title: str, unit: str = "") -> Finding:
    """Values none of which may be over a limit; no value at all is no proof, and fails."""
    most = max(values, default=float("inf"))
    median = float(np.median(values)) if values else float("inf")
    return Finding(title, unit, round(median, 3), None, round(most, 3), f"<= {limit:.4g}", most <= limit)


def verdict(result: Mapping[str, Any]) -> list[Finding]:
    """Everything that a run is held to, from its result as JSON."""
    samples, rounds, warm = result["samples"], result["rounds"], result["warm_up_s"]
    found: list[Finding] = []
    for who in ("library", "server"):
        found += [
            memory(samples, warm, f"{who}_rss_mb", f"{who}: resident memory"),
            memory(samples, warm, f"{who}_pss_mb", f"{who}: its share of memory (PSS)"),
            count(samples, warm, f"{who}_fds", f"{who}: open files"),
            count(samples, warm, f"{who}_threads", f"{who}: threads"),
        ]
    found += [
        count(samples, warm, "kb_files", "files in the knowledge base"),
        memory(rounds, warm, "peak_mb", "index run: peak memory"),
    ]
    disk = after(samples, warm, "index_mb")[1]
    return [
        *(found if warm >= WARM_UP_SECONDS else [replace(one, held=None) for one in found]),
        at_most(disk, DISK_TIMES * result["fresh"]["index_mb"], "index on disk", "MB"),
        at_most([one["found_s"] for one in rounds], FOUND_SECONDS, "new words found after a run", "s"),
        at_most([len(result["errors"])], 0, "errors"),
        at_most([len(result["wrong"])], 0, "wrong answers"),
    ]


def table(findings: Sequence[Finding]) -> str:
    """The findings for people, as Markdown."""
    lines = ["| series | median | slope an hour | most | bound | held |", "| --- | --: | --: | --: | --- | --- |"]
    for one in findings:
        slope = "" if one.slope is None else f"{one.slope:+.2f}"
        held = "not judged" if one.held is None else "yes" if one.held else "**no**"
        unit = f" {one.unit}" if one.unit else ""
        lines.append(f"| {one.name} | {one.median:g}{unit} | {slope} | {one.most:g}{unit} | {one.bound} | {held} |")
    return "\n".join(lines)


def as_json(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The findings as they stand in the result."""
    return [asdict(one) for one in findings]


# the picture


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Six panels over the minutes of the run; what lies before the end of the warm-up is shaded."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    from ragkit.bench.plots import INK, PALE

    figure = Figure(figsize=(11.0, 6.4), dpi=110)
    panels = figure.subplots(2, 3).ravel()
    samples, rounds = result["samples"], result["rounds"]
    both = ("library", "server")
    _panel(panels[0], "resident memory, MB", [(who, _line(samples, f"{who}_rss_mb")) for who in both])
    _panel(panels[1], "open files", [(who, _line(samples, f"{who}_fds")) for who in both])
    _panel(panels[2], "threads", [(who, _line(samples, f"{who}_threads")) for who in both])
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
    said = f"{len(rounds)} index runs over a changing folder, beside them {questions:,} questions; shaded: warm-up"
    figure.text(0.012, 0.928, said, fontsize=9, color=PALE, va="top")
    figure.subplots_adjust(left=0.045, right=0.985, top=0.84, bottom=0.075, wspace=0.16, hspace=0.32)
    figure.savefig(path, format="png", facecolor="white")


Line = tuple[list[float], list[float]]


def _line(samples: Samples, name: str) -> Line:
    at, values = after(samples, 0.0, name)
    return [one / 60 for one in at], values


def _latencies(minutes: Samples) -> list[tuple[str, Line]]:
    whole = [one for one in minutes if "library search" in one]
    return [(who, _line(whole, f"{who} search")) for who in ("library", "server")]


def _panel(axes: Axes, title: str, lines: Sequence[tuple[str, Line]]) -> None:
    from ragkit.bench.plots import COLOURS, GRID, INK, PALE

    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color=GRID, lw=0.8)
    axes.tick_params(which="both", colors=PALE, labelsize=8.5, length=0)
    axes.set_title(title, loc="left", fontsize=9.5, color=INK)
    for number, (name, (at, values)) in enumerate(lines):
        axes.plot(at, values, color=COLOURS[number], lw=1.5, ls="-" if number == 0 else (0, (4, 1.2)), label=name)
    axes.set_ylim(0, 1.25 * max([value for _, (_, values) in lines for value in values] or [1.0]))
    if len(lines) > 1:
        axes.legend(loc="upper right", ncols=len(lines), fontsize=8, frameon=False, labelcolor=INK)

"""Plots a result: recall against throughput, latencies, filters, build and storage.

Every store has its own colour (`ragkit.bench.styles`), the marker says how it searches, and every line has its label.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragkit.bench.ground_truth import condition_name
from ragkit.bench.numpy_reference import REFERENCE_NAME
from ragkit.bench.results import BenchResult, StoreResult
from ragkit.bench.styles import StoreStyle, search_kind, store_styles
from ragkit.bench.tables import format_number, format_share, read_lower_bound
from ragkit.bench.verdict import EXACT
from ragkit.errors import MissingExtra

try:
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator
except ImportError as error:
    raise MissingExtra("plots of a benchmark", extra="bench") from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LineStyle: TypeAlias = "tuple[float, tuple[float, float]]"
INK, PALE, GRID = "#222222", "#777777", "#E4E4E4"
DPI = 144
WIDTH_INCHES = 9.6
LABEL_POINTS = 9
KIND_NOTE = "circle: exact, triangle: graph, square: quantized"
LINE_STYLES: Mapping[str, LineStyle] = {"graph": (0, (5, 1.5)), "quantized": (0, (1.5, 1))}
"""Dashes of the kinds of search other than exact, for the lines of one store to differ."""
RECALL_STEP = 0.001
"""Recalls closer to 1 than this are drawn close to 1."""
LOWEST_END = 0.99
"""The recall axis begins here at the latest, so that a thousandth does not fill it."""
RECALL_TICKS = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 1.0)


def render_plots(outcome: BenchResult) -> dict[str, bytes]:
    """PNG files by name without suffix; plots without measurements are omitted."""
    stores = [store for store in outcome.stores if "p50_ms" in store.medians()]
    if not stores:
        return {}
    styles = store_styles([store.entry for store in outcome.stores])
    figures = {
        "recall-qps": _plot_recall_qps(outcome, stores, styles),
        "latency": _plot_latency(outcome, stores, styles),
        "filters": _plot_filters(outcome, stores, styles),
        "build-disk": _plot_storage(outcome, stores, styles),
    }
    return {name: _to_png(figure) for name, figure in figures.items() if figure is not None}


PlotStyles = Mapping[str, StoreStyle]
"""The style of each label."""


def pareto_front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The (recall, throughput) points that no other point beats in both, by ascending recall."""
    front: list[tuple[float, float]] = []
    for recall, qps in sorted(points, reverse=True):
        if not front or qps > front[-1][1]:
            front.append((recall, qps))
    return front[::-1]


def spread_labels(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move label positions apart so that neighbours have a distance of `gap`, within [low, high] if they fit."""
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    moved = [positions[i] for i in order]
    for _ in range(200):
        for a, b in pairwise(range(len(moved))):
            short = gap - (moved[b] - moved[a])
            if short > 1e-9:
                moved[a] -= short / 2
                moved[b] += short / 2
        if moved:
            shift = max(0.0, low - moved[0]) - max(0.0, moved[-1] - high)
            moved = [position + shift for position in moved] if moved[-1] - moved[0] <= high - low else moved
    result = [0.0] * len(positions)
    for position, i in zip(moved, order, strict=True):
        result[i] = position
    return result


def recall_position(recall: ArrayLike) -> NDArray[np.float64]:
    """The place of a recall on its axis, which has as much room between 0.9 and 0.99 as between 0 and 0.9."""
    return -np.log10(1 + RECALL_STEP - np.asarray(recall, np.float64))


def _recall_at(position: ArrayLike) -> NDArray[np.float64]:
    """The inverse of `recall_position`."""
    return 1 + RECALL_STEP - 10 ** -np.asarray(position, np.float64)


def _speed(medians: Mapping[str, float]) -> float:
    """Queries per second at the median latency, which single slow queries do not change."""
    return 1e3 / medians["p50_ms"]


def _plot_recall_qps(outcome: BenchResult, stores: Sequence[StoreResult], styles: PlotStyles) -> Figure:
    recalls = [medians["recall"] for store in stores for _, medians in store.curve_points()]
    if min(recalls) >= EXACT:
        return _plot_speed(outcome, stores, styles)
    top_k = outcome.settings["top_k"]
    subtitle = f"one thread; up and to the right is better; {KIND_NOTE}"
    figure, axes = _new_figure("Recall against speed", subtitle, outcome, 5.8)
    ends: list[tuple[str, float, float]] = []
    all_points: list[tuple[float, float]] = []
    for store in stores:
        style = styles[store.entry.label]
        points = [(medians["recall"], _speed(medians)) for _, medians in store.curve_points()]
        best = pareto_front(points)
        all_points += [] if store.entry.name == REFERENCE_NAME else points
        axes.plot(*zip(*points, strict=True), style.marker, color=style.colour, alpha=0.35, ms=6, mew=0)
        axes.plot(*zip(*best, strict=True), f"-{style.marker}", color=style.colour, lw=1.8, ms=7, mec="white", mew=0.8)
        ends.append((store.entry.label, *best[-1]))
    axes.set_xscale("function", functions=(recall_position, _recall_at))
    left, right = (float(recall_position(end)) for end in (min([*recalls, LOWEST_END]), 1.0))
    axes.set_xlim(*(float(_recall_at(end)) for end in (left - 0.04 * (right - left), right + 0.03 * (right - left))))
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in RECALL_TICKS if tick >= axes.get_xlim()[0]]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axes.set_yscale("log")
    axes.set_xlabel(f"recall@{top_k}")
    axes.set_ylabel("queries per second at the median latency")
    front = pareto_front(all_points)
    if len(front) > 1:
        axes.plot(*zip(*front, strict=True), color=INK, lw=7, alpha=0.10, solid_capstyle="round", zorder=0)
        axes.annotate(
            "Pareto front", front[0], (-2, 9), textcoords="offset points", color=PALE, fontsize=8.5, fontstyle="italic"
        )
    read = read_lower_bound(outcome)
    if read:
        axes.axhline(1e3 / read[0], color=PALE, lw=1, ls=(0, (5, 3)), zorder=0)
        axes.annotate(
            f"reading all rows once ({read[1]:.0f} GB/s)", (0.008, 1e3 / read[0]), (0, 4),
            xycoords=("axes fraction", "data"), textcoords="offset points", color=PALE, fontsize=8.5,
        )  # fmt: skip
    _format_ticks(axes, "y")
    _label_lines(axes, ends, styles)
    return figure


def _plot_speed(outcome: BenchResult, stores: Sequence[StoreResult], styles: PlotStyles) -> Figure:
    """One row for each store instead of a recall axis on which all stores have the same place."""
    best = {store.entry.label: max(_speed(medians) for _, medians in store.curve_points()) for store in stores}
    ordered = sorted(stores, key=lambda store: best[store.entry.label])
    subtitle = f"one thread; every store found all of the {outcome.settings['top_k']} nearest (recall 1)"
    figure, axes = _new_figure("Speed", subtitle, outcome, 1.9 + 0.36 * len(ordered), across=(0.2, 0.96), grid="x")
    for place, store in enumerate(ordered):
        style, speed = styles[store.entry.label], best[store.entry.label]
        axes.plot(speed, place, style.marker, color=style.colour, ms=8.5, mec="white", mew=0.8)
        axes.annotate(
            format_number(speed), (speed, place), (9, 0), textcoords="offset points", va="center",
            fontsize=LABEL_POINTS, color=INK,
        )  # fmt: skip
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.3, high * 1.6)
    axes.set_ylim(-0.6, len(ordered) - 0.2)
    _label_stores(axes, ordered, styles)
    axes.set_xlabel("queries per second at the median latency")
    _format_ticks(axes, "x")
    return figure


def _plot_latency(outcome: BenchResult, stores: Sequence[StoreResult], styles: PlotStyles) -> Figure:
    ordered = sorted(stores, key=lambda store: -store.medians()["p50_ms"])
    subtitle, height = "one thread; large marker: p50, ring: p95, bar: p99", 1.9 + 0.36 * len(ordered)
    figure, axes = _new_figure("Query latency", subtitle, outcome, height, across=(0.2, 0.96), grid="x")
    for place, store in enumerate(ordered):
        colour, marker = styles[store.entry.label].colour, styles[store.entry.label].marker
        medians = store.medians()
        p50, p95, p99 = medians["p50_ms"], medians["p95_ms"], medians["p99_ms"]
        axes.plot([p50, p99], [place, place], color=colour, lw=2.2, alpha=0.45, solid_capstyle="butt")
        axes.plot(p99, place, "|", color=colour, ms=11, mew=2)
        axes.plot(p95, place, "o", mfc="white", mec=colour, mew=1.6, ms=6.5)
        axes.plot(p50, place, marker, color=colour, ms=8.5, mec="white", mew=0.8)
        axes.annotate(
            format_number(p50), (p50, place), (-9, 0), textcoords="offset points", ha="right", va="center",
            fontsize=LABEL_POINTS, color=INK, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )  # fmt: skip
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.6, high * 1.1)
    read = read_lower_bound(outcome)
    if read and read[0] > axes.get_xlim()[0]:
        axes.axvline(read[0], color=PALE, lw=1, ls=(0, (5, 3)), zorder=0)
        axes.annotate(
            "reading all rows once", (read[0], len(ordered) - 0.45), (4, 0), textcoords="offset points",
            color=PALE, fontsize=8.5, va="center",
        )  # fmt: skip
    axes.set_ylim(-0.6, len(ordered) - 0.2)
    _label_stores(axes, ordered, styles)
    axes.set_xlabel("milliseconds")
    _format_ticks(axes, "x")
    return figure


def _plot_filters(outcome: BenchResult, stores: Sequence[StoreResult], styles: PlotStyles) -> Figure | None:
    shares = [*cast("Sequence[float]", outcome.settings["shares"])]
    names = [f"{condition_name(share)}:p50_ms" for share in shares]
    measured = [store for store in stores if any(name in store.medians() for name in names)]
    if not measured:
        return None
    subtitle = f"median latency, by the share of the rows that the filter selects; ring: recall below 0.99; {KIND_NOTE}"
    figure, axes = _new_figure("Filtered queries", subtitle, outcome, 5.4)
    ends: list[tuple[str, float, float]] = []
    for store in measured:
        colour, marker = styles[store.entry.label].colour, styles[store.entry.label].marker
        medians = store.medians()
        points = [(1.0, medians["p50_ms"], medians["recall"])]
        for share in sorted(shares, reverse=True):
            name = condition_name(share)
            if f"{name}:p50_ms" in medians:
                points.append((share, medians[f"{name}:p50_ms"], medians[f"{name}:recall"]))
        axes.plot(
            [x for x, _, _ in points], [y for _, y, _ in points], marker=marker,
            ls=LINE_STYLES.get(search_kind(store.entry), "-"),
            color=colour, lw=1.6, ms=6.5, mec="white", mew=0.7, alpha=0.9,
        )  # fmt: skip
        for x, y, recall in points:
            if recall < 0.99:
                axes.plot(x, y, "o", mfc="none", mec=INK, mew=1.1, ms=13)
        ends.append((store.entry.label, points[-1][0], points[-1][1]))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(1.35, min(shares) / 1.25)
    axes.xaxis.set_major_locator(FixedLocator([1.0, *shares]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: "all" if value > 0.99 else format_share(value)))
    axes.set_xlabel("share of the rows that the filter selects")
    axes.set_ylabel("milliseconds, p50")
    _format_ticks(axes, "y")
    _label_lines(axes, ends, styles)
    return figure


def _plot_storage(outcome: BenchResult, stores: Sequence[StoreResult], styles: PlotStyles) -> Figure:
    ordered = sorted(stores, key=lambda store: store.medians().get("build_rate", 0.0))
    figure = Figure(figsize=(WIDTH_INCHES, 2.1 + 0.33 * len(ordered)), dpi=DPI)
    panels = figure.subplots(1, 3, sharey=True, width_ratios=(1.35, 1, 1))
    colours = [styles[store.entry.label].colour for store in ordered]
    titles = ("build, rows per second (time)", "disk usage / size of the rows", "peak memory / size of the rows")
    _draw_rates(panels[0], ordered, styles)
    for axes, name in zip(panels[1:], ("disk", "memory"), strict=True):
        _draw_bars(axes, [_storage_value(store.medians(), name) for store in ordered], colours)
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, loc="left", fontsize=9.5, color=INK)
    panels[0].set_ylim(-0.6, len(ordered) - 0.4)
    _label_stores(panels[0], ordered, styles)
    height = figure.get_figheight()
    figure.subplots_adjust(left=0.17, right=0.98, top=1 - 1.05 / height, bottom=0.48 / height, wspace=0.09)
    subtitle = "build rate, on a logarithmic axis: higher is better; disk usage and memory: lower is better"
    _draw_title(figure, "Build and storage", subtitle, outcome)
    return figure


def _draw_rates(axes: Axes, stores: Sequence[StoreResult], styles: PlotStyles) -> None:
    """One mark per store on a logarithmic axis, with the rate and the time; a bar would have an arbitrary start."""
    _style_axes(axes, "x")
    axes.set_xscale("log")
    for place, store in enumerate(stores):
        style, medians = styles[store.entry.label], store.medians()
        if "build_rate" in medians:
            axes.plot(medians["build_rate"], place, style.marker, color=style.colour, ms=8, mec="white", mew=0.8)
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.3, high * (high / low) ** 0.8)  # room for the text of the fastest
    for place, store in enumerate(stores):
        medians = store.medians()
        if "build_rate" in medians:
            seconds = f" ({format_number(medians['build_s'])} s)" if "build_s" in medians else ""
            axes.annotate(
                format_number(medians["build_rate"]) + seconds, (medians["build_rate"], place), (8, 0),
                textcoords="offset points", va="center", fontsize=8.5, color=INK,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
            )  # fmt: skip
    powers = range(math.ceil(math.log10(low)), math.ceil(math.log10(high)) + 1)
    axes.xaxis.set_major_locator(FixedLocator([10.0**power for power in powers]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _draw_bars(axes: Axes, values: Sequence[float | None], colours: Sequence[str]) -> None:
    """One bar per store with its value; a dash for a missing value."""
    _style_axes(axes, "x")
    axes.tick_params(labelbottom=False)
    axes.set_xlim(0, max(value for value in [*values, 1.0] if value is not None) * 1.24)
    for place, (value, colour) in enumerate(zip(values, colours, strict=True)):
        axes.barh(place, value or 0, height=0.62, color=colour, alpha=0.85)
        axes.annotate(
            "–" if value is None else format_number(value), (value or 0, place), (4, 0), textcoords="offset points",
            va="center", fontsize=8.5, color=PALE if value is None else INK,
        )  # fmt: skip


def _storage_value(medians: Mapping[str, float], name: str) -> float | None:
    if name == "disk":
        return medians["disk_bytes"] / medians["raw_bytes"] if "disk_bytes" in medians else None
    if name == "memory":
        return max((medians[key] for key in ("build_memory", "query_memory") if key in medians), default=None)
    return medians.get(name)


def _new_figure(
    title: str,
    subtitle: str,
    outcome: BenchResult,
    height: float,
    *,
    across: tuple[float, float] = (0.085, 0.8),
    grid: Literal["x", "y", "both"] = "both",
) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH_INCHES, height), dpi=DPI)
    axes = figure.add_subplot()
    figure.subplots_adjust(left=across[0], right=across[1], top=1 - 0.85 / height, bottom=0.62 / height)
    _style_axes(axes, grid)
    _draw_title(figure, title, subtitle, outcome)
    return figure, axes


def _draw_title(figure: Figure, title: str, subtitle: str, outcome: BenchResult) -> None:
    height = figure.get_figheight()
    figure.text(0.012, 1 - 0.14 / height, title, fontsize=14, fontweight="bold", color=INK, va="top")
    figure.text(0.012, 1 - 0.44 / height, subtitle, fontsize=9, color=PALE, va="top")
    source = f"{outcome.data['name']} · {outcome.machine['cpu']}, {outcome.machine['cores']} cores"
    figure.text(0.988, 1 - 0.18 / height, source, fontsize=7.5, color=PALE, va="top", ha="right")


def _style_axes(axes: Axes, grid: Literal["x", "y", "both"]) -> None:
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis=grid, color=GRID, lw=0.8)
    axes.tick_params(which="both", colors=PALE, labelsize=8.5, length=0)
    axes.xaxis.label.set_color(PALE)
    axes.yaxis.label.set_color(PALE)


def _format_ticks(axes: Axes, which: str) -> None:
    """Plain numbers instead of powers of ten, also on a logarithmic axis."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    if high / low < 3000:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 100 else (1, 3)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(FuncFormatter(lambda value, _: ""))


def _label_stores(axes: Axes, stores: Sequence[StoreResult], styles: PlotStyles) -> None:
    axes.set_yticks(range(len(stores)), [store.entry.label for store in stores], fontsize=9.5)
    for tick, store in zip(axes.get_yticklabels(), stores, strict=True):
        tick.set_color(styles[store.entry.label].colour)


def _label_lines(axes: Axes, ends: Sequence[tuple[str, float, float]], styles: PlotStyles) -> None:
    """Label each line at the right edge without overlaps, connected to the end of the line."""
    axes.set_xlim(axes.get_xlim())
    axes.set_ylim(axes.get_ylim())  # freeze the limits: the label positions below are in pixels
    edge = axes.get_window_extent()
    low, high, right = edge.y0, edge.y1, edge.x1
    pixels = [axes.transData.transform((x, y)) for _, x, y in ends]
    gap = 1.45 * LABEL_POINTS * DPI / 72
    positions = spread_labels([float(y) for _, y in pixels], gap, low, high)
    for (label, x, y), position in zip(ends, positions, strict=True):
        axes.annotate(
            label, (x, y), (right + 16 * DPI / 72, position), textcoords="figure pixels", va="center",
            annotation_clip=False, fontsize=LABEL_POINTS, color=styles[label].colour,
            arrowprops={"arrowstyle": "-", "color": styles[label].colour, "lw": 0.7, "alpha": 0.6, "relpos": (0, 0.5),
                        "shrinkA": 1, "shrinkB": 4},
        )  # fmt: skip


def _to_png(figure: Figure) -> bytes:
    out = BytesIO()
    figure.savefig(out, format="png", facecolor="white")
    return out.getvalue()

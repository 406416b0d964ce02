"""Plots a result: recall against throughput.

Every store has its own colour (`ragkit.bench.styles`), the marker says how it searches, and every line has its label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragkit.bench.numpy_reference import REFERENCE_NAME
from ragkit.bench.results import BenchResult, StoreResult
from ragkit.bench.styles import StoreStyle, store_styles
from ragkit.bench.tables import format_number, read_lower_bound
from ragkit.bench.verdict import EXACT
from ragkit.errors import MissingExtra

try:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator
except ImportError as error:
    raise MissingExtra("plots of a benchmark", extra="bench") from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, PALE, GRID = "#222222", "#777777", "#E4E4E4"
DPI = 144
WIDTH_INCHES = 9.6
LABEL_POINTS = 9
KIND_NOTE = "circle: exact, triangle: graph, square: quantized"
RECALL_STEP = 0.001
"""Recalls closer to 1 than this are drawn close to 1."""
LOWEST_END = 0.99
"""The recall axis begins here at the latest, so that a thousandth does not fill it."""
RECALL_TICKS = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 1.0)


def render_plots(outcome: BenchResult) -> dict[str, bytes]:
    """PNG files by name without suffix; none without measurements."""
    stores = [store for store in outcome.stores if "p50_ms" in store.medians()]
    if not stores:
        return {}
    styles = store_styles([store.entry for store in outcome.stores])
    return {"recall-qps": _to_png(_plot_recall_qps(outcome, stores, styles))}


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

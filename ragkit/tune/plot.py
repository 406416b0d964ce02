"""Plot a grid search: quality against latency, and against cost if there is any, with the Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from ragkit.errors import MissingExtra
from ragkit.tune.search import COST_QUESTIONS, TrialResult, TuneResult, pareto_indices

try:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
except ImportError as error:
    raise MissingExtra("the plot of a grid", extra="bench") from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, INK, PALE, GRID = "#0072B2", "#D55E00", "#222222", "#777777", "#E4E4E4"
DPI = 144
LOG_SCALE_RATIO = 8
"""The x axis is logarithmic if the largest value exceeds the smallest by this factor."""
MAX_LABELS = 16
"""Maximum number of trials in the legend."""

CostGetter = Callable[[TrialResult], float]
"""The x value of a trial."""


def render_plot(tuned: TuneResult) -> bytes:
    """The plot as PNG."""
    values = _cost_getters(tuned)
    size = (9.6, 1.0 + 5.4 * len(values))
    figure = Figure(figsize=size, dpi=DPI, facecolor="white", layout="constrained")
    panels = figure.subplots(len(values), 1, squeeze=False)[:, 0]
    holdout_text = ""
    if tuned.holdout_results:
        first = tuned.holdout_results[0].quality
        holdout_text = (
            f"; winner on {first.n} held-out questions: {first.mean:.4f} ({first.low:.4f} to {first.high:.4f})"
        )
    title = f"{len(tuned.trial_results)} pipelines of {tuned.grid.path.name}"
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    unit = "an answer" if tuned.grid.options.uses_answers else "a search"
    labels = [f"median milliseconds of {unit}", f"US dollars for the index and {COST_QUESTIONS:,} questions"]
    for axes, value, label in zip(panels, values, labels, strict=False):
        _draw_panel(axes, tuned, value, f"{label}; up and to the left is better")
    title = f"{tuned.grid.options.metric} on {tuned.selection_questions} questions{holdout_text}"
    panels[0].set_title(title, loc="left", fontsize=9, color=PALE)
    _draw_legend(figure, tuned)
    out = BytesIO()
    figure.savefig(out, format="png", metadata={"Software": "ragkit"})
    return out.getvalue()


def _draw_panel(axes: Axes, tuned: TuneResult, value: CostGetter, label: str) -> None:
    """One plot: every trial with its interval, and the Pareto front as a line."""
    tried = tuned.trial_results
    points = [(value(result), result.quality.mean) for result in tried]
    front = _front_indices(tuned, value)
    for result, (x, y) in zip(tried, points, strict=True):
        colour = ORANGE if result is tuned.winner else PALE if result.is_worse else BLUE
        axes.plot([x, x], [result.quality.low, result.quality.high], color=colour, lw=1, alpha=0.45, zorder=1)
        shape = "*" if result is tuned.winner else "o"
        axes.plot(x, y, shape, color=colour, ms=15 if shape == "*" else 7, mec="white", mew=0.8, zorder=3)
    axes.step([points[at][0] for at in front], [points[at][1] for at in front], where="post", color=INK, lw=1, zorder=2)
    _draw_numbers(axes, tried, points, front)
    axes.set_xlabel(label, color=INK)
    axes.set_ylabel(tuned.grid.options.metric, color=INK)
    axes.margins(x=0.12, y=0.08)
    axes.grid(color=GRID, lw=0.8)
    axes.set_axisbelow(True)
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    if 0 < low * LOG_SCALE_RATIO < high:  # otherwise one slow trial squeezes all others
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(7))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _draw_legend(figure: Figure, tuned: TuneResult) -> None:
    """The legend of the marks, and the labels of the trials on a front."""
    marks = [
        Line2D([], [], ls="", marker="*", color=ORANGE, ms=11, label="winner"),
        Line2D([], [], ls="", marker="o", color=BLUE, ms=6, label="not significantly worse than the best"),
        Line2D([], [], ls="", marker="o", color=PALE, ms=6, label="significantly worse"),
        Line2D([], [], color=INK, lw=1, label="Pareto front"),
    ]
    figure.legend(handles=marks, loc="outside upper right", fontsize=8, frameon=False, ncols=4)
    numbers = dict.fromkeys(at for value in _cost_getters(tuned) for at in _front_indices(tuned, value))
    named = sorted(numbers)[:MAX_LABELS]
    trials = [tuned.trial_results[at].trial for at in named]
    lines = [Line2D([], [], ls="", marker=f"${t.number}$", color=INK, ms=7, mew=0, label=t.label) for t in trials]
    figure.legend(handles=lines, loc="outside lower left", fontsize=8, frameon=False, ncols=1 if len(lines) < 5 else 2)


def _draw_numbers(
    axes: Axes, tried: Sequence[TrialResult], points: Sequence[tuple[float, float]], front: Sequence[int]
) -> None:
    """The number of each trial on the front, beside its point."""
    for at in front:
        axes.annotate(
            str(tried[at].trial.number), points[at], xytext=(-7, 7), textcoords="offset points",
            ha="right", fontsize=9, color=INK, zorder=4,
        )  # fmt: skip


def _cost_getters(tuned: TuneResult) -> list[CostGetter]:
    """The x value of each plot: latency, and cost if it is known."""
    costs = [result.cost_usd for result in tuned.trial_results]
    priced = any(costs) and None not in costs
    return [lambda result: result.median_ms, *([lambda result: result.cost_usd or 0.0] if priced else [])]


def _front_indices(tuned: TuneResult, value: CostGetter) -> list[int]:
    return pareto_indices([(value(result), result.quality.mean) for result in tuned.trial_results])

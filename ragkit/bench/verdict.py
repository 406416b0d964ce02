"""Says which store to use, from the figures of a result.

A store is good enough if it finds at least MIN_RECALL of the nearest within FAST_ENOUGH_MS: then the current store is
kept, since a move has to gain something. The sizes at which another one answers sooner are extrapolated from two
measured sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import floor, log10

from ragkit.bench.growth import Growth, fit_growth
from ragkit.bench.numpy_reference import REFERENCE_NAME
from ragkit.bench.results import BenchResult, StoreResult
from ragkit.bench.settings import SweepPoint
from ragkit.bench.styles import search_kind
from ragkit.bench.tables import format_number
from ragkit.records import JSON

FAST_ENOUGH_MS = 10.0
"""A search that takes less is not worth a move: people notice a delay of 100 ms."""
MIN_RECALL = 0.98
"""A store or a point of its curve with less recall is not recommended."""
EXACT = 0.9995
"""From this recall on a result is called exact: at most one of 2,000 hits is missing."""
CLEARLY_FASTER = 0.8
"""A store answers sooner if it takes at most this share of the time; less is within the variation of measurements."""
REACH = 100
"""Sizes are extrapolated up to this many times the measured one."""
MAX_NAMED = 3
"""Alternatives that the text names."""
DEFAULT_STORE = "sqlite"


@dataclass(frozen=True)
class Choice:
    """A store at one point of its curve."""

    label: str
    name: str
    setting: SweepPoint
    recall: float
    p50_ms: float
    growth: Growth | None

    @property
    def is_exact(self) -> bool:
        """Whether every nearest row was found."""
        return self.recall >= EXACT

    @property
    def quality(self) -> str:
        """`exact`, or `at recall 0.984`."""
        return "exact" if self.is_exact else f"at recall {floor(self.recall * 1000) / 1000:g}"

    @property
    def is_good_enough(self) -> bool:
        """Whether recall and time leave nothing to gain."""
        return self.recall >= MIN_RECALL and self.p50_ms <= FAST_ENOUGH_MS


@dataclass(frozen=True)
class Alternative:
    """A store that answers sooner than the chosen one from a number of rows on."""

    choice: Choice
    from_rows: int
    """Rounded to one digit; extrapolated if it is above the measured number."""
    ms_there: float
    """Its time there, in milliseconds."""
    store_ms_there: float
    """The time of the chosen store at the same size."""

    def to_json(self, rows: int) -> dict[str, JSON]:
        """One of `alternatives` of the verdict; `rows` is the measured number."""
        return {
            "label": self.choice.label,
            "setting": dict(self.choice.setting),
            "recall": round(self.choice.recall, 4),
            "p50_ms": round(self.choice.p50_ms, 4),
            "from_rows": self.from_rows,
            "p50_ms_there": round(self.ms_there, 4),
            "store_p50_ms_there": round(self.store_ms_there, 4),
            "extrapolated": self.from_rows > rows,
        }


@dataclass(frozen=True)
class StoreVerdict:
    """Which store to use for the measured rows, and from which size on another."""

    store: Choice
    """The recommended store."""
    current: Choice | None
    """The current store; None if it was not measured."""
    rows: int
    small_rows: int
    """The smaller measured size; 0 if there is none."""
    alternatives: tuple[Alternative, ...]
    """Stores that answer sooner with more rows, by that number."""
    sentences: tuple[str, ...]

    def to_json(self) -> dict[str, JSON]:
        """The value of `verdict` in the JSON of a result."""
        return {
            "text": " ".join(self.sentences),
            "store": self.store.label,
            "current": self.current.label if self.current else None,
            "stay": self.store == self.current,
            "recall": round(self.store.recall, 4),
            "p50_ms": round(self.store.p50_ms, 4),
            "rows": self.rows,
            "small_rows": self.small_rows,
            "min_recall": MIN_RECALL,
            "fast_enough_ms": FAST_ENOUGH_MS,
            "alternatives": [other.to_json(self.rows) for other in self.alternatives],
        }


def result_json(outcome: BenchResult) -> dict[str, JSON]:
    """The content of the JSON file and the output of `bench --json`: the result with its verdict."""
    verdict = decide(outcome)
    return {**outcome.to_json(), "verdict": verdict.to_json() if verdict else None}


def decide(outcome: BenchResult) -> StoreVerdict | None:
    """The verdict on a result; None if no store that keeps its rows was measured."""
    choices = [*_iter_choices(outcome)]
    best = [choice for choice in choices if choice.recall >= MIN_RECALL]
    current = _find_current(outcome, choices)
    if not choices:
        return None
    store = _recommend(current, best) if best else max(choices, key=lambda choice: choice.recall)
    rows = int(str(outcome.data["rows"]))
    small = int(str(outcome.data.get("small_rows") or 0))
    alternatives = tuple(_find_alternatives(store, best, rows))
    choice = StoreVerdict(store, current, rows, small, alternatives, ())
    return replace(choice, sentences=tuple(_iter_sentences(outcome, choice, found=bool(best))))


def _iter_choices(outcome: BenchResult) -> Iterator[Choice]:
    """Each store that keeps its rows, at the fastest point with enough recall, or else at that with the best."""
    for store in outcome.stores:
        medians = store.medians()
        points = [(point, values) for point, values in store.curve_points() if "p50_ms" in values]
        if store.entry.name == REFERENCE_NAME or not points or "open_ms" not in medians:
            continue
        good = [
            (values["p50_ms"], number) for number, (_, values) in enumerate(points) if values["recall"] >= MIN_RECALL
        ]
        most = max(range(len(points)), key=lambda number: points[number][1]["recall"])
        point, values = points[min(good)[1] if good else most]
        yield Choice(
            store.entry.label,
            store.entry.name,
            point,
            values["recall"],
            values["p50_ms"],
            _growth(outcome, store, values["p50_ms"]),
        )


def _growth(outcome: BenchResult, store: StoreResult, ms: float) -> Growth | None:
    medians, small = store.medians(), outcome.data.get("small_rows")
    if not small or "p50_ms_quarter" not in medians:
        return None
    ratio = medians["p50_ms_quarter"] / medians["p50_ms_beside_quarter"]
    measured = (int(str(outcome.data["rows"])), ms)
    return fit_growth(search_kind(store.entry), measured, small_rows=int(str(small)), ratio=ratio)


def _find_current(outcome: BenchResult, choices: Sequence[Choice]) -> Choice | None:
    """The store of the knowledge base, with its method if several are measured; the default store if there is none."""
    name, method = str(outcome.data.get("store") or DEFAULT_STORE), outcome.data.get("method")
    same = [choice for choice in choices if choice.name == name]
    entries = {store.entry.label: store.entry for store in outcome.stores}
    exactly = [choice for choice in same if method and entries[choice.label].options.get("method") == method]
    return next(iter([*exactly, *same]), None)


def _recommend(current: Choice | None, best: Sequence[Choice]) -> Choice:
    """The current store if nothing is to be gained; else the fastest exact one, or the fastest of all."""
    if current is not None and current.is_good_enough:
        return current
    enough = [choice for choice in best if choice.is_exact and choice.is_good_enough]
    chosen = min(enough or best, key=lambda choice: choice.p50_ms)
    gains = current is None or current.recall < MIN_RECALL or chosen.p50_ms <= CLEARLY_FASTER * current.p50_ms
    return chosen if gains or current is None else current


def _find_alternatives(store: Choice, best: Sequence[Choice], rows: int) -> Iterator[Alternative]:
    """The stores that are clearly faster than `store` once it takes more than FAST_ENOUGH_MS, by size and time."""
    found: list[Alternative] = []
    for other in best:
        size = _crossing(store, other, rows) if other != store else None
        if size is not None and other.growth is not None and store.growth is not None:
            found.append(Alternative(other, round_size(size), other.growth.at(size), store.growth.at(size)))
    yield from sorted(found, key=lambda item: (item.from_rows, item.ms_there))


def _crossing(store: Choice, other: Choice, rows: int) -> float | None:
    """The smallest size, in steps of 2 %, at which `store` is too slow and `other` clearly faster; None: none."""
    if store.growth is None or other.growth is None:
        return None
    size = float(rows)
    while size <= rows * REACH:
        own = store.growth.at(size)
        if own > FAST_ENOUGH_MS and other.growth.at(size) <= CLEARLY_FASTER * own:
            return size
        size *= 1.02
    return None


def round_size(size: float) -> int:
    """A size with one significant digit: 400000 for 412345."""
    step = 10.0 ** floor(log10(size))
    return int(round(size / step) * step)


def _iter_sentences(outcome: BenchResult, verdict: StoreVerdict, *, found: bool) -> Iterator[str]:
    """What to use, the rule, from which size on something else is faster, and whether the machine was busy."""
    kb, store = outcome.data.get("store"), verdict.store
    unit, yours = ("chunks", "your ") if kb else ("rows", "")
    start = f"For {yours}{verdict.rows:,} {unit}"
    if not found:
        none = f"no measured store finds {MIN_RECALL:g} of the nearest"
        yield f"For {verdict.rows:,} {unit} {none}; {_describe(store)} comes closest."
    elif verdict.current is None:
        yield f"{start} take {_describe(store)}. {kb or DEFAULT_STORE} was not measured."
    elif store == verdict.current:
        yield f"{start} stay with {_describe(store)}."
    else:
        yield f"{start} {store.label} is better than {_describe(verdict.current)}: {_figures(store)}."
    if found:
        yield f"A store is kept while it finds {MIN_RECALL:g} of the nearest within {FAST_ENOUGH_MS:g} ms."
    if named := [f"{item.choice.label} from {item.from_rows:,} on" for item in verdict.alternatives[:MAX_NAMED]]:
        yield f"Faster with more {unit}, extrapolated: {', '.join(named)}."
    load, cores = float(str(outcome.machine["load_before"])), int(str(outcome.machine["cores"]))
    if load >= cores:
        yield f"The machine was busy (load {load:.0f} on {cores} cores): measure again when it is idle."


def _figures(choice: Choice) -> str:
    separator = ", " if choice.is_exact else " "
    return f"{format_number(choice.p50_ms)} ms{separator}{choice.quality}"


def _describe(choice: Choice) -> str:
    return f"{choice.label} ({_figures(choice)})"

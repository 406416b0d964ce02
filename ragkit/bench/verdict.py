"""Says in words which store to use, and why, from the figures of a result.

A store is good enough if it finds at least MIN_RECALL of the nearest within FAST_ENOUGH_MS: then the current store is
kept, since a move has to gain something. The sizes at which another one answers sooner are extrapolated from two
measured sizes, and the text says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    worst_filter_ms: float
    """The longest median time under a filter, in milliseconds; 0: no filter was measured."""
    worst_filter_recall: float

    @property
    def is_exact(self) -> bool:
        """Whether every nearest row was found."""
        return self.recall >= EXACT

    @property
    def quality(self) -> str:
        """`exact`, or `at recall 0.984`."""
        return "exact" if self.is_exact else f"at recall {floor(self.recall * 1000) / 1000:g}"

    @property
    def with_filters(self) -> str:
        """The longest time and the least recall under a filter: `18.4 ms and finds at least 0.941 of the nearest`."""
        recall = floor(self.worst_filter_recall * 1000) / 1000
        found = "all" if recall == 1 else f"at least {recall:g}"
        return f"{format_number(self.worst_filter_ms)} ms and finds {found} of the nearest"

    def suits_filters(self, limit_ms: float) -> bool:
        """Whether every filter leaves enough recall, within this time in milliseconds."""
        return self.worst_filter_recall >= MIN_RECALL and self.worst_filter_ms <= limit_ms

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

    def to_json(self, rows: int) -> dict[str, JSON]:
        """One of `alternatives` of the verdict; `rows` is the measured number."""
        return {
            "label": self.choice.label,
            "setting": dict(self.choice.setting),
            "recall": round(self.choice.recall, 4),
            "p50_ms": round(self.choice.p50_ms, 4),
            "from_rows": self.from_rows,
            "p50_ms_there": round(self.ms_there, 4),
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
    words = _Words(outcome, store, current, best, alternatives, rows, small)
    return StoreVerdict(store, current, rows, small, alternatives, tuple(words.sentences()))


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
        filters = [name for name in medians if name.startswith("f") and name.endswith(":p50_ms")]
        yield Choice(
            store.entry.label,
            store.entry.name,
            point,
            values["recall"],
            values["p50_ms"],
            _growth(outcome, store, values["p50_ms"]),
            max((medians[name] for name in filters), default=0.0),
            min((medians[name.replace("p50_ms", "recall")] for name in filters), default=1.0),
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
        if size is not None and other.growth is not None:
            found.append(Alternative(other, round_size(size), other.growth.at(size)))
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


@dataclass(frozen=True)
class _Words:
    """Puts a verdict into sentences."""

    outcome: BenchResult
    store: Choice
    current: Choice | None
    best: Sequence[Choice]
    alternatives: Sequence[Alternative]
    rows: int
    small: int

    def sentences(self) -> Iterator[str]:
        """What to use, why, from which size on something else, and what filters change."""
        if not self.best:
            yield (
                f"For {self._count(self.rows)} no measured store finds {MIN_RECALL:g} of the nearest;"
                f" {_describe(self.store)} comes closest: let it search more, or measure an exact store."
            )
            yield from self._load()
            return
        yield self._head()
        yield self._reason()
        yield self._outlook()
        yield from self._filters()
        yield from self._load()

    @property
    def _unit(self) -> str:
        return "chunks" if self.outcome.data.get("store") else "rows"

    def _count(self, rows: int) -> str:
        return f"{rows:,} {self._unit}"

    def _head(self) -> str:
        yours = "your " if self.outcome.data.get("store") else ""
        start = f"For {yours}{self._count(self.rows)}"
        if self.current is None:
            missing = str(self.outcome.data.get("store") or DEFAULT_STORE)
            return f"{start} take {_describe(self.store)}. {missing} was not measured."
        if self.store == self.current:
            return f"{start} stay with {_describe(self.store)}."
        return f"{start} {self.store.label} is better than {_describe(self.current)}: {_figures(self.store)}."

    def _reason(self) -> str:
        others = [c for c in self.best if c != self.store and c.p50_ms <= CLEARLY_FASTER * self.store.p50_ms]
        faster = min(others, key=lambda choice: choice.p50_ms, default=None)
        if faster is None:
            return f"No other measured store that finds {MIN_RECALL:g} of the nearest is clearly faster."
        saved = format_number(self.store.p50_ms - faster.p50_ms)
        if not self.store.is_good_enough:
            return f"{_describe(faster)} would save {saved} ms."
        return (
            f"A search within {FAST_ENOUGH_MS:g} ms is fast enough (people notice 100 ms):"
            f" {_describe(faster)} would save {saved} ms only."
        )

    def _outlook(self) -> str:
        name = self.store.label
        if self.store.growth is None:
            more = max(100_000, round_size(self.rows * 10))
            return (
                f"How the time of {name} grows cannot be told from so few {self._unit}:"
                f" `ragkit bench --generate {more}` measures more."
            )
        source = f"extrapolated from {self.small:,} and {self._count(self.rows)}"
        reach = self._count(round_size(self.rows * REACH))
        if self.alternatives:
            first = self.alternatives[0].from_rows
            named = self._named()
            own = self.store.growth.at(max(first, self.rows))
            return (
                f"From about {self._count(first)} on, {_join([self._there(item) for item in named])}"
                f" {'answers' if len(named) == 1 else 'answer'} sooner than {name} ({format_number(own)} ms): {source}."
            )
        if self.store.growth.at(self.rows * REACH) <= FAST_ENOUGH_MS:
            return f"Up to {reach} {name} stays within {FAST_ENOUGH_MS:g} ms: {source}."
        return f"No measured store is clearly faster than {name} up to {reach}: {source}."

    def _load(self) -> Iterator[str]:
        """A warning if other work kept all cores busy when the benchmark began."""
        machine = self.outcome.machine
        load, cores = float(str(machine["load_before"])), int(str(machine["cores"]))
        if load >= cores:
            yield (
                f"The machine was busy (load {load:.0f} on {cores} cores): times of some ms and more are too long, and"
                " sizes that follow from them too small; measure again when it is idle."
            )

    def _there(self, item: Alternative) -> str:
        return f"{item.choice.label} ({format_number(item.ms_there)} ms {item.choice.quality})".replace(
            " exact", ", exact"
        )

    def _filters(self) -> Iterator[str]:
        limit = max(FAST_ENOUGH_MS, 2 * self.store.worst_filter_ms)
        others = [item.choice for item in self._named() if not item.choice.suits_filters(limit)]
        if others:
            own = format_number(self.store.worst_filter_ms)
            named = [f"{other.label} takes up to {other.with_filters}" for other in others]
            yield f"With filters {'; '.join(named)}; {self.store.label} takes up to {own} ms."

    def _named(self) -> Sequence[Alternative]:
        """The alternatives that answer sooner at about the same size as the first one."""
        return [item for item in self.alternatives if item.from_rows <= 2 * self.alternatives[0].from_rows][:MAX_NAMED]


def _figures(choice: Choice) -> str:
    separator = ", " if choice.is_exact else " "
    return f"{format_number(choice.p50_ms)} ms{separator}{choice.quality}"


def _describe(choice: Choice) -> str:
    return f"{choice.label} ({_figures(choice)})"


def _join(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"

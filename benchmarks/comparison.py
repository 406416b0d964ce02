"""Write the tables of `docs/comparison.md` from `docs/comparison.json`: `python -m benchmarks.comparison`.

The programs that measure call it: `peers.py`, `peer_reliability.py`, `peer_install_size.py`, `cost_beside_others.py`.
Each replaces the figures of the systems that it ran; `tests/docs/test_comparison.py` compares the page with the file.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ragkit.evaluate.intervals import paired_difference

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE, FIGURES = DOCS / "comparison.md", DOCS / "comparison.json"
BASE = "ragkit"
Figures = dict[str, Any]


def read() -> Figures:
    """The figures of the page; empty before the first run."""
    figures: Figures = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    return {section: {} for section in ("retrieval", "install", "reliability", "cost")} | figures


def write(figures: Figures) -> None:
    """Write the figures, and the tables of the page."""
    FIGURES.write_text(_json(figures), "utf-8")
    PAGE.write_text(filled(PAGE.read_text("utf-8"), figures), "utf-8")


def _json(figures: Figures) -> str:
    text = json.dumps(figures, indent=1, ensure_ascii=False) + "\n"
    # lists of numbers on one line
    return re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda match: "[" + " ".join(match[1].split()) + "]", text)


def filled(page: str, figures: Figures) -> str:
    """The page with the tables of the figures between their marks.

    Raises:
        ValueError: a table has no marks.
    """
    for name, table in TABLES.items():
        begin, end = f"<!-- table: {name} -->", f"<!-- end of {name} -->"
        head, found, rest = page.partition(begin)
        _, ended, tail = rest.partition(end)
        if not (found and ended):
            raise ValueError(f"{PAGE.name} has no lines {begin!r} and {end!r}")
        page = f"{head}{begin}\n\n{table(figures)}\n\n{end}{tail}"
    return page


def add(section: str, name: str, value: Figures) -> None:
    """Put the figures of one system into a section of the file, and write the page."""
    figures = read()
    figures.setdefault(section, {})[name] = value
    write(figures)


def add_retrieval(figures: Figures, name: str, used: Figures, found: Mapping[str, Figures]) -> None:
    """Put the figures of one set in. Systems that did not run stay if the set is used in the same way."""
    sets = figures.setdefault("retrieval", {})
    if {key: sets.get(name, {}).get(key) for key in used} != used:
        sets[name] = {**used, "systems": {}}
    sets[name]["systems"].update(found)


def rows(head: list[str], body: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _systems(figures: Figures) -> list[str]:
    """The systems of the retrieval tables, in the order of their first set."""
    return list(dict.fromkeys(name for each in figures["retrieval"].values() for name in each["systems"]))


def _named(figures: Figures, name: str) -> str:
    versions = {each["systems"][name]["version"] for each in figures["retrieval"].values() if name in each["systems"]}
    return _product(name, ", ".join(sorted(versions)))


def _quality(metric: str) -> Callable[[Figures], str]:
    def table(figures: Figures) -> str:
        sets = figures["retrieval"]
        body = [
            [_named(figures, name), *(_mean_cell(each["systems"], name, metric) for each in sets.values())]
            for name in _systems(figures)
        ]
        return rows(["system", *(f"`{name}`" for name in sets)], body)

    return table


def _mean_cell(systems: Figures, name: str, metric: str) -> str:
    if name not in systems:
        return "-"
    text = _share(statistics.fmean(systems[name][metric]))
    if name == BASE or BASE not in systems:
        return text
    change = paired_difference(systems[BASE][metric], systems[name][metric])
    return f"{text} ({_share(change.mean, sign=True)}{'*' if change.low > 0 or change.high < 0 else ''})"


def _share(value: float, *, sign: bool = False) -> str:
    text = f"{abs(value):.3f}".removeprefix("0") if abs(value) < 1 else f"{abs(value):.3f}"
    return f"{'−' if value < 0 else '+' if sign else ''}{text}"


def _intervals(figures: Figures) -> str:
    sets = figures["retrieval"]
    body = []
    for name in _systems(figures):
        if name == BASE:
            continue
        for metric, title in (("ndcg", "nDCG@10"), ("recall", "recall@10")):
            body.append([name, title, *(_interval_cell(each["systems"], name, metric) for each in sets.values())])
    return rows(["system", "", *(f"`{name}`" for name in sets)], body)


def _interval_cell(systems: Figures, name: str, metric: str) -> str:
    if name not in systems or BASE not in systems:
        return "-"
    change = paired_difference(systems[BASE][metric], systems[name][metric])
    return f"{_share(change.low, sign=True)} to {_share(change.high, sign=True)}"


def _sets(figures: Figures) -> str:
    body = [
        [
            f"`{name}`",
            f"{each['documents']:,}"
            + (f" (one in {each['others']} of those that answer nothing)" if each["others"] > 1 else ""),
            f"{each['characters'] / 1000:,.0f}",
            f"{each['questions']:,}" + (f" (every {_nth(each['every'])})" if each["every"] > 1 else ""),
        ]
        for name, each in figures["retrieval"].items()
    ]
    return rows(["set", "documents", "thousand characters", "questions"], body)


def _nth(number: int) -> str:
    return f"{number}{ {2: 'nd', 3: 'rd'}.get(number, 'th') }"


def _speed(figures: Figures) -> str:
    sets = figures["retrieval"]
    own = _per_second(sets, BASE, "characters") if BASE in _systems(figures) else 0
    body = []
    for name in _systems(figures):
        measured = [each["systems"][name] for each in sets.values() if name in each["systems"]]
        speed = _per_second(sets, name, "characters")
        body.append(
            [
                _named(figures, name),
                f"{speed / 1000:.1f}" + (f" (1/{own / speed:.1f})" if own and name != BASE else ""),
                f"{_per_second(sets, name, 'documents'):.1f}",
                f"{statistics.median(one['query_ms'] for one in measured):.1f}",
                f"{max(one['peak_mb'] for one in measured):,}",
            ]
        )
    head = ["system", "thousand characters a CPU-s", "documents a CPU-s", "CPU ms a question", "memory, MB"]
    return rows(head, body)


def _per_second(sets: Figures, name: str, what: str) -> float:
    """Of all sets that the system indexed; each with its median round."""
    used = [each for each in sets.values() if name in each["systems"]]
    seconds = sum(statistics.median(each["systems"][name]["index_cpu_s"]) for each in used)
    return float(sum(each[what] for each in used) / seconds)


def _kills(figures: Figures) -> str:
    columns = ("unreadable", "mixture", "failed", "lost", "doubled", "left", "unfound")
    head = ["system", "kills", "cannot be read", "half an update is seen", "next run fails", "lost", "doubled"]
    body = [
        [_product(name, each["version"]), f"{each['kills']:,}", *(f"{each[column]:,}" for column in columns)]
        for name, each in figures["reliability"].items()
    ]
    return rows([*head, "left over", "not found by search"], body)


def _swap(figures: Figures) -> str:
    ways = ("same embedder", "opened", "indexed again")
    body = [
        [_product(name, each["version"]), *(_answered(each["swap"][way]) for way in ways)]
        for name, each in figures["reliability"].items()
    ]
    return rows(["system", "same embedder", "another one: opened and asked", "indexed again, then asked"], body)


def _answered(result: Figures) -> str:
    return "error" if "error" in result else f"{result['right']} of 200"


def _product(name: str, version: str) -> str:
    product, comma, way = name.partition(",")
    return f"{product} {version}{comma}{way}"


def _install(figures: Figures) -> str:
    body = [
        [
            _product(name, each["version"]),
            f"`{each['command']}`",
            f"{each['mb']:,.0f}",
            f"{each.get('mb_cpu', each['mb']):,.0f}",
            f"{each['distributions']:,}",
            ", ".join(f"{package} {size:,}" for package, size in each["largest"].items()),
        ]
        for name, each in figures["install"].items()
    ]
    return rows(["system", "command", "MB", "MB, torch for the CPU", "distributions", "the largest, MB"], body)


def _cost(figures: Figures) -> str:
    body = []
    for name, each in figures["cost"].items():
        reported, counted = each["reported"], each["counted"]
        llm = f"{_count(reported, 'prompt')} + {_count(reported, 'completion')}"
        embedded = f"{_count(reported, 'index_tokens')} + {_count(reported, 'question_tokens')}"
        body.append(
            [
                f"{name} {reported['version']}",
                f"{llm} / {counted['prompt']} + {counted['completion']}",
                _usd(reported, counted, "llm_usd"),
                f"{embedded} / {counted['embedded']}",
                _usd(reported, counted, "embedding_usd"),
                _usd(reported, counted, "total_usd"),
            ]
        )
    head = ["system", "LLM tokens, in + out", "LLM, USD", "embedding tokens, index + question"]
    return rows([*head, "embedding, USD", "total, USD"], body)


def _count(report: Figures, key: str) -> str:
    return "-" if report.get(key) is None else str(report[key])


def _usd(reported: Figures, counted: Figures, key: str) -> str:
    return f"{'-' if reported.get(key) is None else f'{reported[key]:.8f}'} / {counted[key]:.8f}"


TABLES: dict[str, Callable[[Figures], str]] = {
    "sets": _sets,
    "quality": _quality("ndcg"),
    "recall": _quality("recall"),
    "speed": _speed,
    "install": _install,
    "kills": _kills,
    "swap": _swap,
    "cost": _cost,
    "intervals": _intervals,
}
"""Name of the marks -> the table."""


def main() -> None:
    """Write the page again."""
    write(read())


if __name__ == "__main__":
    main()

"""`docs/comparison.md` holds the figures of `docs/comparison.json`, and names scripts that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import comparison
from benchmarks.comparison import PAGE, TABLES, Figures, add_retrieval, filled

ROOT = Path(__file__).parents[2]


def figures_of(**systems: list[float]) -> Figures:
    """One set of four questions; the values are nDCG@10 and recall@10 of each."""
    used = {"documents": 40, "characters": 8000, "questions": 4, "every": 3, "others": 2}
    figures: Figures = {}
    for name, values in systems.items():
        measured = {"ndcg": values, "recall": values, "index_cpu_s": [4.0, 2.0, 1.0], "query_ms": 5.0, "peak_mb": 1200}
        add_retrieval(figures, "cats", used, {name: {"version": "1.0", **measured}})
    return figures


def test_the_page_is_what_the_figures_give() -> None:
    page = PAGE.read_text("utf-8")
    assert filled(page, comparison.read()) == page, "run `python -m benchmarks.comparison`"


def test_a_figure_typed_into_the_page_is_noticed() -> None:
    figures = comparison.read()
    page = PAGE.read_text("utf-8")
    kills = figures["reliability"]["ragkit"]["kills"]
    typed = re.sub(rf"(\| ragkit [\d.]+ \| ){kills} ", rf"\g<1>{kills + 1} ", page)
    assert typed != page
    assert filled(typed, figures) == page


def test_a_page_without_the_marks_of_a_table_is_refused() -> None:
    page = PAGE.read_text("utf-8").replace("<!-- end of speed -->", "")
    with pytest.raises(ValueError, match=r"comparison\.md has no lines '<!-- table: speed -->'"):
        filled(page, comparison.read())


def test_every_script_that_the_page_names_exists() -> None:
    page = PAGE.read_text("utf-8")
    named = {f"benchmarks/{name}.py" for name in re.findall(r"-m benchmarks\.(\w+)", page)}
    named |= set(re.findall(r"`(benchmarks/\w+\.py)`", page))
    assert len(named) >= 4
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_a_difference_is_marked_only_if_its_interval_excludes_zero() -> None:
    table = TABLES["quality"](figures_of(ragkit=[1, 1, 1, 0.5], worse=[0.5, 0.5, 0.5, 0.1], mixed=[1, 0.5, 1, 1]))
    assert table.splitlines()[2:] == [
        "| ragkit 1.0 | .875 |",
        "| worse 1.0 | .400 (−.475*) |",
        "| mixed 1.0 | .875 (+.000) |",
    ]


def test_speed_is_the_median_round_over_all_sets() -> None:
    table = TABLES["speed"](figures_of(ragkit=[1.0] * 4))
    assert table.splitlines()[2:] == ["| ragkit 1.0 | 4.0 | 20.0 | 5.0 | 1,200 |"]


def test_systems_that_did_not_run_stay_unless_the_set_is_used_in_another_way() -> None:
    figures = figures_of(ragkit=[1.0] * 4, other=[0.5] * 4)
    used = {key: value for key, value in figures["retrieval"]["cats"].items() if key != "systems"}
    add_retrieval(figures, "cats", used, {"ragkit": {"version": "2.0"}})
    assert list(figures["retrieval"]["cats"]["systems"]) == ["ragkit", "other"]
    add_retrieval(figures, "cats", {**used, "every": 1}, {"ragkit": {"version": "2.0"}})
    assert list(figures["retrieval"]["cats"]["systems"]) == ["ragkit"]

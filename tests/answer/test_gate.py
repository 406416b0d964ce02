"""The answers to questions over real documents may not get worse; see `tests/answer/gate`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest

from tests.answer.gate import RECORDED, TOTAL, Figures, first_statement, measure, table, to_json, wilson_interval

LOSS = 2
"""Questions that each figure may lose: ties between nearly equal passages fall differently on other processors."""
TURN_LOSS = 2
"""The same for the turns of the conversations: without VNNI two first sentences are other ones."""
LESS_IS_BETTER = ("refused", "answered")


@pytest.fixture(scope="session")
def figures() -> Mapping[str, Figures]:
    return measure()


def test_no_figure_falls_below_the_recorded_one(
    figures: Mapping[str, Figures], record_property: Callable[[str, object], None]
) -> None:
    record_property("figures", "\n".join(table(figures)))
    measured, recorded = to_json(figures), json.loads(RECORDED.read_text("utf-8"))
    worse = [
        f"{part}, {kind}, {name}: {measured[part][kind][name][0]} of {n}, recorded {hits}"
        for part, kinds in recorded.items()
        for kind, row in kinds.items()
        for name, (hits, n) in row.items()
        if _loss(name, hits, measured[part][kind][name][0]) > (LOSS if part == "questions" else TURN_LOSS)
    ]
    assert worse == []


def test_the_recorded_figures_are_of_these_questions(figures: Mapping[str, Figures]) -> None:
    recorded = json.loads(RECORDED.read_text("utf-8"))
    assert _sizes(to_json(figures)) == _sizes(recorded)
    assert recorded["questions"][TOTAL]["right"][1] > 60
    assert len(recorded["questions"]) >= 10


def test_the_first_statement_is_a_sentence_or_a_list_with_its_introduction() -> None:
    assert first_statement("It costs approx. 3 euros, e.g. on Mondays. Or 4. [1]") == "It costs approx."
    assert first_statement("No. 3 is right, e.g. A. B is not. [1]") == "No. 3 is right, e.g. A."
    assert first_statement("Two wheels:\n- oak\n- larch\nMore. [1]") == "Two wheels:\n- oak\n- larch"
    assert first_statement("") == ""


def test_an_interval_contains_the_share_and_is_narrower_with_more_questions() -> None:
    assert wilson_interval(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson_interval(0, 0) == (0, 1)
    assert wilson_interval(10, 10)[1] == pytest.approx(1)


def _loss(name: str, recorded: int, measured: int) -> int:
    return measured - recorded if name in LESS_IS_BETTER else recorded - measured


def _sizes(figures: Mapping[str, Mapping[str, Mapping[str, list[int]]]]) -> dict[str, int]:
    return {
        f"{part} {kind} {name}": n
        for part, kinds in figures.items()
        for kind, row in kinds.items()
        for name, (_, n) in row.items()
    }

"""A second hop follows the names of the first passages where a question describes one thing by another."""

from __future__ import annotations

import pytest

from ragkit.retrieve.base import Explanation
from ragkit.retrieve.hybrid import SECOND_HOP, HybridRetriever
from ragkit.retrieve.options import HybridOptions
from ragkit.retrieve.second_hop import asks_for_second_hop
from tests.retrieve.passages import chunk, retriever_parts

FILLERS = [f"The film number {n} was the work of a director with a spouse in town {n}." for n in range(30)]
FILM = "Quayside is a film. Its director is Orla Venn."
SPOUSE = "Orla Venn married Tam Ridge in 1990."
QUESTION = "Who is the wife of the director of Quayside?"


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("Who is the spouse of the director of Jaws?", True),
        ("What team was Anna Benson's husband on?", True),
        ("What city is the star of Sous les pieds des femmes from?", True),
        ("Which town did the painter who drew Guernica live in?", True),
        ("When did Guernica open?", False),
        ("What is the height of the tower?", False),
        ("", False),
    ],
)
def test_a_question_that_describes_a_thing_by_a_name_asks_for_a_second_hop(question: str, asks: bool) -> None:
    assert asks_for_second_hop(question) is asks


def search(hops: int | None, question: str = QUESTION) -> list[Explanation]:
    rows = [[1.0, 0.3], *([1.0, 0.5 + n / 10] for n in range(len(FILLERS))), [1.0, 1.5]]
    passages = [chunk(text) for text in (FILM, *FILLERS, SPOUSE)]
    parts = retriever_parts(passages, rows, **{question.replace(" ", "_"): [1.0, 0.0]})
    return HybridRetriever(HybridOptions(hops=hops), parts).explain(question, 10)


def places(hops: int | None, question: str = QUESTION) -> list[str]:
    return [entry.hit.text for entry in search(hops, question)]


@pytest.mark.parametrize("hops", [None, 2])
def test_a_second_hop_finds_the_passage_to_which_the_first_one_leads(hops: int | None) -> None:
    assert SPOUSE not in places(1)
    assert places(hops)[0] == FILM
    assert SPOUSE in places(hops)


def test_a_second_hop_keeps_the_first_hits_and_explains_what_it_adds() -> None:
    assert places(2)[:3] == places(1)[:3]
    found = search(2)
    spouse = next(entry for entry in found if entry.hit.text == SPOUSE)
    assert SECOND_HOP in spouse.contributions
    assert sum(spouse.contributions.values()) == pytest.approx(spouse.hit.score)


def test_a_question_of_one_hop_is_searched_once() -> None:
    question = "When did Quayside open?"
    assert places(None, question) == places(1, question)

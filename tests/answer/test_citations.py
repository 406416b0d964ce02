"""Citations: verified offsets, and the citation marks in a model's text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragkit.answer.citations import cite, cited_statement, find_best_quote, parse_citation_numbers, resolve_citations
from ragkit.records import Document, Hit
from tests.answer.passages import Shelf, chunk

TEXT = "The hedge is cut in August.\nThe roses are cut in March.\nNobody cuts the ivy.\n"
HIT = Hit(chunk(Document(TEXT, source="/garden.txt")), 2.5)


def test_a_citation_is_read_again_at_its_place() -> None:
    citation = cite(1, HIT, 28, 55, Shelf({"/garden.txt": TEXT}))
    assert (citation.quote, citation.start_line, citation.end_line) == ("The roses are cut in March.", 2, 2)
    assert (citation.verified, citation.stale, citation.score, citation.page) == (True, False, 2.5, None)


def test_a_quote_that_is_not_in_the_text_is_not_verified() -> None:
    citation = cite(1, HIT, 28, 55, Shelf({"/garden.txt": TEXT.replace("March", "April")}))
    assert (citation.quote, citation.verified) == ("The roses are cut in March.", False)


def test_a_source_without_text_is_not_verified_and_one_that_changed_is_stale() -> None:
    assert cite(1, HIT, 0, 5, Shelf({})).verified is False
    assert cite(1, HIT, 0, 5, Shelf({"/garden.txt": TEXT}, stale=["/garden.txt"])).stale is True


def test_page_and_heading_are_those_of_the_quote_and_not_of_the_chunk() -> None:
    document = Document(TEXT, source="/garden.txt", page_starts=(0, 28))
    shelf = Shelf({})
    shelf._documents["/garden.txt"] = document
    assert cite(1, replace(HIT, chunk=replace(HIT.chunk, page=1)), 28, 55, shelf).page == 2


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("a [1] b [3][2].", [1, 3, 2]), ("a [1, 2] [2]", [1, 2]), ("none [x] [] [12345]", []), ("[01]", [1])],
)
def test_numbers_are_found_in_order_and_once(text: str, numbers: list[int]) -> None:
    assert parse_citation_numbers(text) == numbers


def test_the_statement_is_the_sentence_before_the_mark() -> None:
    text = "The hedge is cut in August [1]. Roses follow in March [2]."
    assert cited_statement(text, 2).strip(". ") == "Roses follow in March"
    assert cited_statement(text, 7) == ""


def test_the_quote_is_the_sentence_that_shares_most_with_the_statement() -> None:
    assert find_best_quote(HIT.chunk, "roses are cut in march") == (28, 55)
    assert find_best_quote(HIT.chunk, "xyzzy") == (0, len(TEXT))


def test_marks_of_a_model_become_citations_and_unknown_numbers_are_ignored() -> None:
    result = resolve_citations("Roses are cut in March [4]. See also [9].", {4: HIT}, Shelf({"/garden.txt": TEXT}))
    assert [(c.n, c.quote, c.verified) for c in result] == [(4, "The roses are cut in March.", True)]

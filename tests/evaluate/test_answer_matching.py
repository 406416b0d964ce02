"""What an answer holds, as a person reads it."""

from __future__ import annotations

import pytest

from ragkit.evaluate.answer_matching import first_statement, holds_answer


@pytest.mark.parametrize(
    ("parts", "text", "held"),
    [
        ([["27 Days"]], "It is\n27  days [1].", True),
        ([["27 days", "a month"]], "It takes a month [1].", True),
        ([["soft"], ["hard"]], "Soft and hard limits [1].", True),
        ([["soft"], ["hard"]], "Only soft limits [1].", False),
        ([["5"]], "It is 15 [1].", False),
        ([["5"]], "It is 1 [5].", False),
        ([["15"]], "It is 150 [1].", False),
        ([["--keep"]], "Use `--keep` [1].", True),
        ([], "anything", True),
    ],
)
def test_an_answer_holds_one_wording_of_every_part(parts: list[list[str]], text: str, held: bool) -> None:
    assert holds_answer(parts, text) is held


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("It is 27 days [1]. Perhaps more [2].", "It is 27 days"),
        ("It is 27 days. [1] Perhaps more.", "It is 27 days."),
        ("Ask Dr. Smith, i.e. The doctor [1]\nMore.", "Ask Dr. Smith, i.e. The doctor"),
        ("The kinds:\n- soft\n- hard [1]\nMore.", "The kinds:\n- soft\n- hard [1]"),
        ("1. soft\n2. hard\nMore.", "1. soft\n2. hard"),
        ("Two kinds.\n- soft", "Two kinds."),
        ("", ""),
    ],
)
def test_the_first_statement_is_a_sentence_or_a_list_with_its_introduction(text: str, first: str) -> None:
    assert first_statement(text) == first

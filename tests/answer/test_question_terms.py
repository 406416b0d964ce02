"""The words of a question and what a text holds of them."""

from __future__ import annotations

import pytest

from ragkit.answer.question_terms import QuestionTerms
from ragkit.lexical.analyzer import extract_terms
from tests.answer.passages import Shelf

SHELF = Shelf({"/mill": "The mill of the valley grinds barley.", "/inn": "The inn of the valley serves barley soup."})


def asked(question: str) -> QuestionTerms:
    return QuestionTerms(question, SHELF)


def held(text: str) -> frozenset[str]:
    return frozenset(extract_terms(text))


def test_all_words_together_weigh_one_and_rare_ones_weigh_more() -> None:
    words = asked("What grinds barley in the valley?")
    assert words.terms == held("grinds barley valley")
    assert words.coverage(words.terms) == pytest.approx(1)
    assert words.coverage(held("barley")) == pytest.approx(words.coverage(held("valley")))
    assert words.coverage(held("grind")) > words.coverage(held("barley")) > 0


def test_a_text_without_any_of_them_holds_nothing() -> None:
    assert asked("What grinds barley?").coverage(held("soup")) == 0
    assert asked("").coverage(held("soup")) == 0


def test_words_with_the_same_beginning_are_relatives_unless_the_word_itself_is_there() -> None:
    words = asked("Who settled the valley?")
    assert words.prefix_coverage(held("the settlement")) == pytest.approx(words.coverage(held("settled")))
    assert words.prefix_coverage(held("they settle in the settlement")) == 0
    assert words.prefix_coverage(held("an inn")) == 0


def test_names_and_numbers_are_words_with_a_capital_or_a_digit_but_not_the_first() -> None:
    assert asked("Where did Ada Quill live in 1921?").name_terms == held("Ada Quill 1921")
    assert asked("What is the leat?").name_terms == frozenset()


def test_the_share_of_names_is_of_their_weight_alone() -> None:
    words = asked("Did Ada Quill mill barley?")
    assert words.name_coverage(held("Ada sold the mill and the barley")) == pytest.approx(0.5)
    assert words.name_coverage(held("Ada Quill")) == pytest.approx(1)
    assert asked("What is the leat?").name_coverage(held("leat")) == 0


def test_the_noun_asked_for_stands_behind_the_question_word() -> None:
    words = asked("Which grain merchant has bought the mill?")
    assert words.noun_terms == held("grain merchant")
    assert words.noun_coverage(held("a merchant")) == 0.5
    assert asked("Who bought it?").noun_coverage(held("merchant")) == 0


def test_pairs_are_words_that_stand_side_by_side() -> None:
    words = asked("When was the water wheel repaired?")
    assert words.bigram_coverage(extract_terms("The water wheel is new.")) == 0.5
    assert words.bigram_coverage(extract_terms("The wheel in the water.")) == 0
    assert asked("wheel").bigram_coverage(extract_terms("wheel")) == 0

"""The terms of a question, and which of them a text contains."""

from __future__ import annotations

import pytest

from ragkit.answer.extractive.question_terms import QuestionTerms
from ragkit.lexical.analyzer import extract_terms
from tests.answer.passages import Shelf

SHELF = Shelf({"/mill": "The mill of the valley grinds barley.", "/inn": "The inn of the valley serves barley soup."})


def question_terms(question: str) -> QuestionTerms:
    return QuestionTerms(question, SHELF)


def matched_terms(text: str) -> frozenset[str]:
    return frozenset(extract_terms(text))


def test_weights_sum_to_one_and_rare_words_weigh_more() -> None:
    words = question_terms("What grinds barley in the valley?")
    assert words.terms == matched_terms("grinds barley valley")
    assert words.coverage(words.terms) == pytest.approx(1)
    assert words.coverage(matched_terms("barley")) == pytest.approx(words.coverage(matched_terms("valley")))
    assert words.coverage(matched_terms("grind")) > words.coverage(matched_terms("barley")) > 0


def test_a_text_without_any_term_has_no_matches() -> None:
    assert question_terms("What grinds barley?").coverage(matched_terms("soup")) == 0
    assert question_terms("").coverage(matched_terms("soup")) == 0


def test_words_with_the_same_prefix_match_unless_the_word_itself_occurs() -> None:
    words = question_terms("Who settled the valley?")
    assert words.prefix_coverage(matched_terms("the settlement")) == pytest.approx(
        words.coverage(matched_terms("settled"))
    )
    assert words.prefix_coverage(matched_terms("they settle in the settlement")) == 0
    assert words.prefix_coverage(matched_terms("an inn")) == 0


def test_names_and_numbers_are_words_with_a_capital_or_a_digit_but_not_the_first() -> None:
    assert question_terms("Where did Ada Quill live in 1921?").name_terms == matched_terms("Ada Quill 1921")
    assert question_terms("What is the leat?").name_terms == frozenset()


def test_the_share_of_names_is_of_their_weight_alone() -> None:
    words = question_terms("Did Ada Quill mill barley?")
    assert words.name_coverage(matched_terms("Ada sold the mill and the barley")) == pytest.approx(0.5)
    assert words.name_coverage(matched_terms("Ada Quill")) == pytest.approx(1)
    assert question_terms("What is the leat?").name_coverage(matched_terms("leat")) == 0


def test_the_noun_asked_for_stands_behind_the_question_word() -> None:
    words = question_terms("Which grain merchant has bought the mill?")
    assert words.noun_terms == matched_terms("grain merchant")
    assert words.noun_coverage(matched_terms("a merchant")) == 0.5
    assert question_terms("Who bought it?").noun_coverage(matched_terms("merchant")) == 0


def test_pairs_are_adjacent_words() -> None:
    words = question_terms("When was the water wheel repaired?")
    assert words.bigram_coverage(extract_terms("The water wheel is new.")) == 0.5
    assert words.bigram_coverage(extract_terms("The wheel in the water.")) == 0
    assert question_terms("wheel").bigram_coverage(extract_terms("wheel")) == 0

"""The words of a question and what a text holds of them."""

from __future__ import annotations

import pytest

from ragkit.answer.words import AskedWords
from ragkit.retrieve.terms import terms
from tests.answer.passages import Shelf

SHELF = Shelf({"/mill": "The mill of the valley grinds barley.", "/inn": "The inn of the valley serves barley soup."})


def asked(question: str) -> AskedWords:
    return AskedWords(question, SHELF)


def held(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def test_all_words_together_weigh_one_and_rare_ones_weigh_more() -> None:
    words = asked("What grinds barley in the valley?")
    assert words.terms == held("grinds barley valley")
    assert words.share(words.terms) == pytest.approx(1)
    assert words.share(held("barley")) == pytest.approx(words.share(held("valley")))
    assert words.share(held("grind")) > words.share(held("barley")) > 0


def test_a_text_without_any_of_them_holds_nothing() -> None:
    assert asked("What grinds barley?").share(held("soup")) == 0
    assert asked("").share(held("soup")) == 0


def test_words_with_the_same_beginning_are_relatives_unless_the_word_itself_is_there() -> None:
    words = asked("Who settled the valley?")
    assert words.share_alike(held("the settlement")) == pytest.approx(words.share(held("settled")))
    assert words.share_alike(held("they settle in the settlement")) == 0
    assert words.share_alike(held("an inn")) == 0


def test_names_and_numbers_are_words_with_a_capital_or_a_digit_but_not_the_first() -> None:
    assert asked("Where did Ada Quill live in 1921?").names == held("Ada Quill 1921")
    assert asked("What is the leat?").names == frozenset()


def test_the_share_of_names_is_of_their_weight_alone() -> None:
    words = asked("Did Ada Quill mill barley?")
    assert words.share_of_names(held("Ada sold the mill and the barley")) == pytest.approx(0.5)
    assert words.share_of_names(held("Ada Quill")) == pytest.approx(1)
    assert asked("What is the leat?").share_of_names(held("leat")) == 0


def test_the_noun_asked_for_stands_behind_the_question_word() -> None:
    words = asked("Which grain merchant has bought the mill?")
    assert words.noun == held("grain merchant")
    assert words.share_of_noun(held("a merchant")) == 0.5
    assert asked("Who bought it?").share_of_noun(held("merchant")) == 0


def test_pairs_are_words_that_stand_side_by_side() -> None:
    words = asked("When was the water wheel repaired?")
    assert words.share_of_pairs(terms("The water wheel is new.")) == 0.5
    assert words.share_of_pairs(terms("The wheel in the water.")) == 0
    assert asked("wheel").share_of_pairs(terms("wheel")) == 0

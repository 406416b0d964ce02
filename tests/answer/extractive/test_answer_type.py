"""The answer type of a question, and whether a text contains one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.answer.extractive.answer_type import AnswerType, contains_answer_type, detect_answer_type


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("When was the mill built?", AnswerType.DATE),
        ("In what year did the flood come?", AnswerType.DATE),
        ("From which day is the mill open?", AnswerType.DATE),
        ("How long ago was the wheel made?", AnswerType.DATE),
        ("How many stones does it have?", AnswerType.NUMBER),
        ("How long is the leat?", AnswerType.NUMBER),
        ("What percentage of the grain is rye?", AnswerType.NUMBER),
        ("What does a sack of barley cost?", AnswerType.NUMBER),
        ("At what level does the sluice open?", AnswerType.NUMBER),
        ("Who built the mill?", AnswerType.PERSON),
        ("Whose name stands above the door?", AnswerType.PERSON),
        ("Where does the leat begin?", AnswerType.OTHER),
        ("Which company bought the mill?", AnswerType.NAME),
        ("What is the ditch called?", AnswerType.NAME),
        ("Why was the mill closed when the war began?", AnswerType.OTHER),
        ("What caused the flood of that year?", AnswerType.OTHER),
        ("What is a leat?", AnswerType.OTHER),
        ("Wann wurde die Mühle gebaut?", AnswerType.OTHER),
        ("Wie lange ist die Mühle offen?", AnswerType.NUMBER),
        ("Combien de sacs y a-t-il ?", AnswerType.NUMBER),
        ("pricing?", AnswerType.OTHER),
        ("", AnswerType.OTHER),
    ],
)
def test_the_answer_type_is_determined_by_the_words_of_the_question(question: str, kind: AnswerType) -> None:
    assert detect_answer_type(question) is kind


@pytest.mark.parametrize(
    ("kind", "text", "question", "contained"),
    [
        (AnswerType.DATE, "It was built in 1790.", "When was it built?", True),
        (AnswerType.DATE, "It was closed in 1921.", "When was it opened after the flood of 1921?", False),
        (AnswerType.DATE, "The sluice opens at 06:30.", "When does it open?", True),
        (AnswerType.DATE, "It has 1790 sacks.", "When?", True),
        (AnswerType.NUMBER, "It has seven stones.", "How many stones has it?", True),
        (AnswerType.NUMBER, "It has stones.", "How many stones has it?", False),
        (AnswerType.NUMBER, "3. Open the sluice.", "How many sluices are there?", False),
        (AnswerType.NUMBER, "3. Open the sluice by 2 turns.", "How far?", True),
        (AnswerType.NUMBER, "The 15 of them.", "How many of the 1,500?", True),
        (AnswerType.NUMBER, "Er ist zehn Jahre gültig.", "Wie lange ist er gültig?", True),
        (AnswerType.NUMBER, "Es sind fünfundzwanzigtausend Euro.", "Wie viel?", True),
        (AnswerType.NUMBER, "Das Haus in Leipzig.", "Wie viele?", False),
        (AnswerType.NUMBER, "(2) Die Mühle öffnet nach § 7 Abs. 2 Satz 1 Nr. 3.", "Wie lange?", False),
        (AnswerType.NUMBER, "(2) Die Mühle öffnet nach § 7 für 3 Stunden.", "Wie lange?", True),
        (AnswerType.PERSON, "The miller was Ada Quill.", "Who was the miller?", True),
        (AnswerType.PERSON, "It was Ada Quill.", "Who was Ada Quill?", False),
        (AnswerType.PERSON, "The miller was old.", "Who was the miller?", False),
        (AnswerType.NAME, "Örtze is its name.", "What is the river called?", True),
        (AnswerType.OTHER, "", "Why?", True),
    ],
)
def test_only_text_that_is_not_in_the_question_counts(
    kind: AnswerType, text: str, question: str, contained: bool
) -> None:
    assert contains_answer_type(kind, text, question) is contained


@given(st.lists(st.sampled_from(["In", "1790", "Ada", "seven", "mill", "May", "06:30", "the", "half"]), max_size=8))
def test_a_text_with_the_words_of_the_question_contains_no_answer(words: list[str]) -> None:
    text = " ".join(words)
    assert [kind for kind in AnswerType if contains_answer_type(kind, text, f"{text}?")] == [AnswerType.OTHER]


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_can_be_asked_about(text: str, question: str) -> None:
    assert {contains_answer_type(kind, text, question) for kind in AnswerType} <= {True, False}
    assert detect_answer_type(question) in AnswerType

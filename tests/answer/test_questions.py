"""What a question asks for, and whether a text holds one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.answer.questions import Kind, holds, kind_of


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("When was the mill built?", Kind.DATE),
        ("In what year did the flood come?", Kind.DATE),
        ("From which day is the mill open?", Kind.DATE),
        ("How long ago was the wheel made?", Kind.DATE),
        ("How many stones does it have?", Kind.NUMBER),
        ("How long is the leat?", Kind.NUMBER),
        ("What percentage of the grain is rye?", Kind.NUMBER),
        ("What does a sack of barley cost?", Kind.NUMBER),
        ("At what level does the sluice open?", Kind.NUMBER),
        ("Who built the mill?", Kind.PERSON),
        ("Whose name stands above the door?", Kind.PERSON),
        ("Where does the leat begin?", Kind.PLACE),
        ("In which town are the stones made?", Kind.PLACE),
        ("Which company bought the mill?", Kind.NAME),
        ("What is the ditch called?", Kind.NAME),
        ("Why was the mill closed when the war began?", Kind.OTHER),
        ("What caused the flood of that year?", Kind.OTHER),
        ("What is a leat?", Kind.OTHER),
        ("Wann wurde die Mühle gebaut?", Kind.OTHER),
        ("pricing?", Kind.OTHER),
        ("", Kind.OTHER),
    ],
)
def test_the_kind_is_told_by_the_words_of_the_question(question: str, kind: Kind) -> None:
    assert kind_of(question) is kind


@pytest.mark.parametrize(
    ("kind", "text", "question", "held"),
    [
        (Kind.DATE, "It was built in 1790.", "When was it built?", True),
        (Kind.DATE, "It was closed in 1921.", "When was it opened after the flood of 1921?", False),
        (Kind.DATE, "The sluice opens at 06:30.", "When does it open?", True),
        (Kind.DATE, "It has 1790 sacks.", "When?", True),
        (Kind.NUMBER, "It has seven stones.", "How many stones has it?", True),
        (Kind.NUMBER, "It has stones.", "How many stones has it?", False),
        (Kind.NUMBER, "3. Open the sluice.", "How many sluices are there?", False),
        (Kind.NUMBER, "3. Open the sluice by 2 turns.", "How far?", True),
        (Kind.NUMBER, "The 15 of them.", "How many of the 1,500?", True),
        (Kind.PERSON, "The miller was Ada Quill.", "Who was the miller?", True),
        (Kind.PERSON, "It was Ada Quill.", "Who was Ada Quill?", False),
        (Kind.PERSON, "The miller was old.", "Who was the miller?", False),
        (Kind.NAME, "Örtze is its name.", "What is the river called?", True),
        (Kind.OTHER, "", "Why?", True),
    ],
)
def test_only_what_the_question_does_not_say_itself_counts(kind: Kind, text: str, question: str, held: bool) -> None:
    assert holds(kind, text, question) is held


@given(st.lists(st.sampled_from(["In", "1790", "Ada", "seven", "mill", "May", "06:30", "the", "half"]), max_size=8))
def test_a_text_holds_nothing_that_a_question_in_the_same_words_lacks(words: list[str]) -> None:
    text = " ".join(words)
    assert [kind for kind in Kind if holds(kind, text, f"{text}?")] == [Kind.OTHER]


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_can_be_asked_about(text: str, question: str) -> None:
    assert {holds(kind, text, question) for kind in Kind} <= {True, False}
    assert kind_of(question) in Kind

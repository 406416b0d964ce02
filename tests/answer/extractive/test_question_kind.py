"""What a question asks for, and its parts."""

from __future__ import annotations

import pytest

from ragkit.answer.extractive.question_kind import QuestionKind as Q
from ragkit.answer.extractive.question_kind import asked_term, compared_sides, detect_question_kinds, split_question


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What is a sluice?", Q.DEFINITION),
        ("What does RFA mean?", Q.DEFINITION),
        ("Was ist ein Wehr?", Q.DEFINITION),
        ("Qu'est-ce qu'un barrage ?", Q.DEFINITION),
        ("¿Qué es una presa?", Q.DEFINITION),
        ("How many sacks fit into the loft?", Q.NUMBER),
        ("What is the default timeout?", Q.NUMBER),
        ("How do I open the sluice?", Q.HOW_TO),
        ("Which option keeps the original file?", Q.HOW_TO),
        ("Does the mill grind rye?", Q.YES_NO),
        ("Which types of grain are there?", Q.LIST),
        ("What is the difference between barley and rye?", Q.COMPARISON),
        ("Who built the mill?", Q.WHO),
        ("When was the mill built?", Q.WHEN),
        ("Where does the program keep its state?", Q.WHERE),
        ("Which version is the manual for?", Q.FILE),
    ],
)
def test_the_kind_of_a_question(question: str, kind: Q) -> None:
    assert kind in detect_question_kinds(question)


def test_a_number_or_a_list_is_no_definition() -> None:
    assert Q.DEFINITION not in detect_question_kinds("What is the maximum size of a key?")
    assert Q.DEFINITION not in detect_question_kinds("What are the parts of a mill?")
    assert detect_question_kinds("Barley, rye and oats.") == Q.NONE


@pytest.mark.parametrize(
    ("question", "term"),
    [
        ("What is a hard link?", "hard link"),
        ("What is a metacharacter in Bash?", "metacharacter"),
        ("What does job control mean in Bash?", "job control"),
        ("What is bzip2recover for?", "bzip2recover"),
        ("How do I grind?", ""),
    ],
)
def test_the_term_that_is_asked_for(question: str, term: str) -> None:
    assert asked_term(question) == term


@pytest.mark.parametrize(
    ("question", "sides"),
    [
        ("What is the difference between -x and -X in git clean?", ("-x", "-X in git clean")),
        ("How does Stow differ from Depot?", ("Stow", "Depot")),
        ("How do awk and sed differ?", ("awk", "sed")),
        ("What is a mill?", None),
    ],
)
def test_the_sides_of_a_comparison(question: str, sides: tuple[str, str] | None) -> None:
    assert compared_sides(question) == sides


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("Who wrote bzip2, and who wrote the lzmash script?", ["Who wrote bzip2?", "Who wrote the lzmash script?"]),
        ("What does Squid do, and who developed it?", ["What does Squid do?", "Who developed Squid?"]),
        (
            "Which default ports do NFS and the rsync daemon use?",
            ["Which default ports do NFS use?", "Which default ports do the rsync daemon use?"],
        ),
        ("How do I end a session and get back?", ["How do I end a session and get back?"]),
        ("What is the difference between Stow and Depot?", ["What is the difference between Stow and Depot?"]),
        ("", [""]),
        ("  ", [""]),
    ],
)
def test_the_parts_of_a_question(question: str, parts: list[str]) -> None:
    assert split_question(question) == parts


def test_how_long_is_no_question_for_steps() -> None:
    assert detect_question_kinds("Was ist eine Mühle?") == Q.DEFINITION
    assert detect_question_kinds("Was kostet das Mehl?") & Q.YES_NO == Q.NONE
    assert detect_question_kinds("Was it a mill?") & Q.YES_NO == Q.YES_NO
    assert detect_question_kinds("Darf der Müller schlafen?") == Q.YES_NO
    assert detect_question_kinds("Wie lange dauert die Flut?") & (Q.HOW_TO | Q.NUMBER) == Q.NUMBER
    assert detect_question_kinds("Wie lässt sich das Wehr öffnen?") & Q.HOW_TO


@pytest.mark.parametrize(
    ("question", "term"),
    [
        ("Qu'est-ce que Let's Encrypt ?", "let's encrypt"),
        ("¿Qué es una variable de entorno?", "variable de entorno"),
        ("C'est quoi l'ASGI ?", "asgi"),
    ],
)
def test_a_definition_may_be_asked_for_in_french_or_spanish(question: str, term: str) -> None:
    assert asked_term(question) == term

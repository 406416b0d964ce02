"""Follow-up questions, completed from the one before."""

from __future__ import annotations

import pytest

from ragkit.answer.extractive.follow_up import rewrite_follow_up


@pytest.mark.parametrize(
    ("previous", "question", "rewritten"),
    [
        ("When was Debian Stretch released?", "And Bullseye?", "When was Debian Bullseye released?"),
        ("When was Jimi Hendrix born?", "And Elvis Presley?", "When was Elvis Presley born?"),
        ("Was macht die Option -u von Anacron?", "Und was macht -f?", "Was macht die Option -f von Anacron?"),
        (
            "What does the timeout setting do?",
            "And that of tcp-keepalive?",
            "What does the timeout setting do (tcp-keepalive)?",
        ),
        (
            "What is etckeeper's default VCS?",
            "How do I get rid of it?",
            "How do I get rid of it (etckeeper default VCS)?",
        ),
        ("Who founded Debian?", "When?", "When (founded Debian)?"),
    ],
)
def test_a_follow_up_gets_what_it_leaves_out(previous: str, question: str, rewritten: str) -> None:
    assert rewrite_follow_up(question, previous) == rewritten


@pytest.mark.parametrize("question", ["How do I start bisecting?", "Which class knows herbs and simples?", ""])
def test_a_question_that_stands_alone_is_unchanged(question: str) -> None:
    assert rewrite_follow_up(question, "What is the goal of the player?") == question


def test_the_first_question_is_unchanged() -> None:
    assert rewrite_follow_up("What is it?", "") == "What is it?"

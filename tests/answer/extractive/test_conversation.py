"""Conversations without a model: a complete question is answered as if it were the first."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase

TEXTS = {
    "dewar.md": "# Dewars\n\nA full dewar stays cold for 16 hours. It holds 6.0 litres of nitrogen and weighs 4 kg.\n",
    "heron.md": "# HERON\n\nHERON is a spectrograph for the visible range. It was built in 2019.\n",
    "lindesk.md": "# Lindesk\n\nLindesk is a village in the north of the island.\n",
    "visit.md": "# Visitors\n\nThe car park is behind the gate. Bus 37 goes from the station to the gate every hour.\n",
    "rules.md": "# Rules\n\nDogs are not allowed in the domes. The observatory has four telescopes.\n",
}
COMPLETE = (
    "What is HERON?",
    "Where is Lindesk?",
    "How many telescopes are there?",
    "How do I get there by bus?",
    "Is there a car park?",
    "Is it allowed to bring dogs?",
)


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    folder = tmp_path_factory.mktemp("observatory")
    (folder / "docs").mkdir()
    for name, text in TEXTS.items():
        (folder / "docs" / name).write_text(text, "utf-8")
    with KnowledgeBase.open(folder / "kb") as opened:
        opened.index(folder / "docs")
        yield opened


@pytest.mark.parametrize("question", COMPLETE)
def test_a_complete_question_is_answered_as_alone(kb: KnowledgeBase, question: str) -> None:
    alone = kb.chat().ask(question)
    assert not alone.abstained
    chat = kb.chat()
    chat.ask("How long does a full dewar stay cold?")
    later = chat.ask(question)
    assert later.searched_for == ""
    assert [citation.quote for citation in later.citations] == [citation.quote for citation in alone.citations]


def test_every_order_of_complete_questions_is_answered_as_alone(kb: KnowledgeBase) -> None:
    for first in COMPLETE:
        for second in set(COMPLETE) - {"How do I get there by bus?"}:  # after a question about a place, "there" is it
            chat = kb.chat()
            chat.ask(first)
            assert chat.ask(second).searched_for == "", (first, second)


def test_a_question_with_a_pronoun_gets_its_topic(kb: KnowledgeBase) -> None:
    chat = kb.chat()
    chat.ask("How long does a full dewar stay cold?")
    assert "4 kg" in chat.ask("How heavy is it?").text
    assert chat.ask("When was HERON built?").searched_for == ""
    assert "spectrograph" in chat.ask("And what is it?").text


def test_what_answers_both_parts_of_a_question_is_quoted_once(kb: KnowledgeBase) -> None:
    answer = kb.ask("What does a full dewar hold and what does a full dewar weigh?")
    assert [citation.n for citation in answer.citations] == list(range(1, len(answer.citations) + 1))
    places = [(citation.source, citation.start, citation.end) for citation in answer.citations]
    assert len(set(places)) == len(places)
    assert answer.text.count("weighs 4 kg") == 1

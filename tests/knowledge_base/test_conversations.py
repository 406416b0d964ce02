"""Citation numbers of conversations whose messages are trimmed, or were stored and loaded again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import ToolCall
from ragkit.agent.providers.scripted import ScriptedProvider, ScriptedTurn
from ragkit.answer.agent import RAGAgent, RAGOptions
from ragkit.errors import ConnectionFailed
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from tests.cli.conftest import HASHING

HEDGE = ToolCall("search_knowledge_base", {"query": "when the hedge is cut"}, "c1")
CELLAR = ToolCall("search_knowledge_base", {"query": "key of the cellar"}, "c2")


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    (tmp_path / "ragkit.yaml").write_text(HASHING)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "garden.txt").write_text("The hedge is cut in August.\n")
    (tmp_path / "docs" / "keys.txt").write_text("The key of the cellar hangs on hook fifteen.\n")
    with KnowledgeBase.open(tmp_path / ".ragkit", tmp_path / "ragkit.yaml") as kb:
        kb.index(tmp_path / "docs")
        yield kb


def ask(kb: KnowledgeBase, memory: ConversationMemory, *script: ScriptedTurn) -> tuple[str, list[tuple[int, str]]]:
    """The streamed text of an answer, and the number and file of each citation."""
    pieces: list[str] = []
    agent = RAGAgent(kb, ScriptedProvider(script), options=RAGOptions(top_k=1, search="model"), memory=memory)
    answer = agent.ask("x", on_text=pieces.append)
    assert "".join(pieces) == answer.text
    return answer.text, [(citation.n, Path(citation.source).name) for citation in answer.citations]


def test_a_conversation_that_was_stored_keeps_its_numbers(kb: KnowledgeBase) -> None:
    memory = ConversationMemory()
    assert ask(kb, memory, HEDGE, "In August [1].")[1] == [(1, "garden.txt")]
    loaded = ConversationMemory.from_json(memory.to_json())
    text, citations = ask(kb, loaded, CELLAR, "Hook fifteen [2], and as I said in August [1].")
    assert text == "Hook fifteen [2], and as I said in August [1]."
    assert citations == [(2, "keys.txt"), (1, "garden.txt")]


def test_a_number_whose_passage_was_trimmed_is_not_given_to_another_one(kb: KnowledgeBase) -> None:
    memory = ConversationMemory(max_messages=1)
    ask(kb, memory, HEDGE, "In August [1].")
    assert ask(kb, memory, CELLAR, "Hook fifteen [2], August [1].")[1] == [(2, "keys.txt"), (1, "garden.txt")]


def test_a_question_that_failed_is_not_in_the_conversation(kb: KnowledgeBase) -> None:
    memory = ConversationMemory()
    ask(kb, memory, HEDGE, "In August [1].")
    before = memory.get_history()
    with pytest.raises(ConnectionFailed, match="down"):
        ask(kb, memory, *[ConnectionFailed("scripted", "down")] * 3)
    assert memory.get_history() == before

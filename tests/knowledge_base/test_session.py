"""One answer reads one state of the knowledge base, whatever happens to that meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from ragkit.agent.messages import ToolCall
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.answer.agent import RAGAgent
from ragkit.answer.base import Answer, Support
from ragkit.answer.passages import TOOL_NAME
from ragkit.errors import KnowledgeBaseError
from ragkit.index.catalog import write_session
from ragkit.index.reader import CatalogReader, CatalogSnapshot
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.knowledge_base.session import Session
from ragkit.pipeline.settings import Pipeline

PIPELINE = "embed: {name: hashing, dimension: 64}\n"
QUESTION = "On which hook does the key of the cellar hang?"
TEXT = "# House\n\nThe key of the cellar hangs on hook fifteen, beside the lantern.\n\nThe lantern is green.\n"
CHANGED = "# House\n\nNothing of that is true any more. The lamp is broken.\n"

Change = Callable[[KnowledgeBase, Path], object]
Ask = Callable[[KnowledgeBase], Answer]


def change_file(kb: KnowledgeBase, docs: Path) -> None:
    (docs / "house.md").write_text(CHANGED)
    kb.index(docs)


def remove_file(kb: KnowledgeBase, docs: Path) -> None:
    kb.remove(docs / "house.md")


def clear(kb: KnowledgeBase, docs: Path) -> None:
    kb.clear()


def copy(kb: KnowledgeBase, docs: Path) -> None:
    settings = Pipeline.from_yaml(f"{PIPELINE}store: {{name: sqlite, path: {kb.path / 'store'}}}\n")
    with KnowledgeBase.open(kb.path, settings) as other:
        other.copy()


def ask(kb: KnowledgeBase) -> Answer:
    return kb.ask(QUESTION)


def stream(kb: KnowledgeBase) -> Answer:
    pieces: list[str] = []
    answer = kb.ask(QUESTION, on_text=pieces.append)
    assert "".join(pieces).strip() == answer.text
    return answer


def aask(kb: KnowledgeBase) -> Answer:
    return asyncio.run(kb.aask(QUESTION))


def ask_a_model(kb: KnowledgeBase) -> Answer:
    call = ToolCall(TOOL_NAME, {"query": "key of the cellar"})
    with kb.session() as session:
        script: list[ToolCall | str] = [call, "The key of the cellar hangs on hook fifteen [1]."]
        return RAGAgent(session, ScriptedProvider(script)).ask(QUESTION)


@contextmanager
def opened(place: str, docs: Path) -> Iterator[KnowledgeBase]:
    (docs / "house.md").write_text(TEXT)
    with KnowledgeBase.open(place, Pipeline.from_yaml(PIPELINE)) as kb:
        kb.index(docs)
        yield kb


def answer_while(kb: KnowledgeBase, ask: Ask, step: int, change: Callable[[], object]) -> tuple[Answer, bool]:
    """The answer, with a change before the read of this number; and whether there were as many reads."""
    reading, reads, lock = Session.snapshot, 0, threading.Lock()

    @contextmanager
    def read(session: Session) -> Iterator[CatalogSnapshot]:
        nonlocal reads
        with lock:
            reads += 1
            is_time = reads == step
        if is_time:
            change()
        with reading(session) as snapshot:
            yield snapshot

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "snapshot", read)
        answer = ask(kb)
    return answer, reads >= step


WAYS: tuple[Ask, ...] = (ask, stream, aask, ask_a_model)
CHANGES: tuple[Change, ...] = (change_file, remove_file, clear, copy)
STRIDE = 3
"""Every third step is tried for each pair of a change and a way to ask, from another one on; `slow` tries all."""


def check_all_steps(change: Change, way: Ask, open_at: Callable[[int], str], docs: Path, steps: Iterator[int]) -> None:
    last = 0
    for step in steps:
        address = open_at(step)
        with opened(address, docs) as kb, KnowledgeBase.open(address) as writer:
            answer, found = answer_while(kb, way, step, lambda w=writer: change(w, docs))  # type: ignore[misc]
        assert "hook fifteen" in answer.text, step
        assert answer.citations and all(citation.verified for citation in answer.citations), step
        assert {statement.support for statement in answer.statements} == {Support.SUPPORTED}, step
        last = step
        if not found:
            break
        if change is change_file and way is not ask_a_model:  # whose statements are checked after its citations
            assert {citation.stale for citation in answer.citations} == {True}
    assert last > 5


@pytest.mark.rotating
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_two_steps_leaves_a_true_quotation_supported(
    change: Change, way: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_session, "READERS_WAIT_S", 0.0)
    (tmp_path / "docs").mkdir()
    first = 1 + (CHANGES.index(change) + WAYS.index(way)) % STRIDE
    check_all_steps(change, way, lambda n: str(tmp_path / f"kb{n}"), tmp_path / "docs", count(first, STRIDE))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_any_two_steps_leaves_a_true_quotation_supported(
    change: Change, way: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_session, "READERS_WAIT_S", 0.0)
    (tmp_path / "docs").mkdir()
    check_all_steps(change, way, lambda n: str(tmp_path / f"kb{n}"), tmp_path / "docs", count(1))


@pytest.mark.parametrize("change", [change_file, remove_file, clear])
def test_a_change_in_a_database_leaves_a_true_quotation_supported(
    change: Change, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_session, "READERS_WAIT_S", 0.0)
    (tmp_path / "docs").mkdir()
    number = CHANGES.index(change)
    way = (stream, ask_a_model, aask)[number]
    steps = count(2 + number, 4)
    check_all_steps(change, way, lambda n: database_url.replace("schema=", f"schema=n{n}"), tmp_path / "docs", steps)


@pytest.mark.parametrize("way", [ask, stream, aask])
def test_a_question_opens_one_snapshot(way: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_snapshots: list[CatalogReader] = []
    snapshot = CatalogReader.snapshot

    def record(reader: CatalogReader) -> object:
        opened_snapshots.append(reader)
        return snapshot(reader)

    monkeypatch.setattr(CatalogReader, "snapshot", record)
    docs = tmp_path / "docs"
    docs.mkdir()
    with opened(str(tmp_path / "kb"), docs) as kb:
        opened_snapshots.clear()
        way(kb)
        assert len(opened_snapshots) == 1
        kb.search(QUESTION)
        assert len(opened_snapshots) == 2


def test_the_threads_of_one_session_read_the_same(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(20):
        (docs / f"{number}.md").write_text(f"# Pump {number}\n\nPump {number} needs oil {number * 7}.\n")
    with opened(str(tmp_path / "kb"), docs) as kb, ThreadPoolExecutor(8) as pool:
        questions = [f"Which oil does pump {n % 20} need?" for n in range(200)]
        with kb.session() as session:
            expected = [[hit.chunk.id for hit in session.search(question)] for question in questions[:20]]
            found = list(pool.map(lambda question: [hit.chunk.id for hit in session.search(question)], questions))
        assert found == expected * 10


def test_the_end_of_a_session_waits_for_its_reads_and_refuses_others(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    with opened(str(tmp_path / "kb"), docs) as kb:
        with kb.session() as session, session.snapshot():
            ended = threading.Thread(target=session.close)
            ended.start()
            ended.join(0.2)
            assert ended.is_alive()
        ended.join(5)
        assert not ended.is_alive()
        with pytest.raises(KnowledgeBaseError, match="the session of the knowledge base has ended"):
            session.search(QUESTION)

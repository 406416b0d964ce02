"""Filters of questions: as text, by source, and no search of an agent leaves them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ragkit.agent.messages import ToolCall
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.agent.tools.base import tool
from ragkit.answer.agent import RAGAgent
from ragkit.answer.passages import TOOL_NAME
from ragkit.cli import cli
from ragkit.errors import InvalidFilter, InvalidOption
from ragkit.knowledge_base import answer_provider
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests import reads

PIPELINE = "embed: {name: hashing, dimension: 64}\nanswer: {provider: extractive}\n"


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    for name, year, text in (("new", 2024, "The hedge is cut in August."), ("old", 2019, "The hedge is cut in May.")):
        folder = tmp_path / "docs" / name
        folder.mkdir(parents=True)
        (folder / f"{name}.md").write_text(f"---\nyear: {year}\ntags: [hr]\n---\n# {name}\n\n{text}\n")
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(PIPELINE)) as opened:
        opened.index(tmp_path / "docs")
        yield opened


def names(hits: object) -> list[str]:
    return sorted({Path(item.source).name for item in hits})  # type: ignore[attr-defined]


def test_a_search_takes_its_filter_as_text_as_on_the_command_line(kb: KnowledgeBase) -> None:
    assert names(kb.search("hedge", where="year >= 2024")) == ["new.md"]
    assert names(asyncio.run(kb.asearch("hedge", where='year < 2024 and tags == "hr"'))) == ["old.md"]
    assert names(kb.search("hedge", where=" ")) == ["new.md", "old.md"]


@pytest.mark.parametrize("source", ["old.md", "docs/old", "docs/old/old.md", "{tmp}/docs/old"])
def test_a_question_can_be_asked_of_one_source(
    kb: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = kb.ask("When is the hedge cut?", source=source.format(tmp=tmp_path))
    assert names(answer.citations) == ["old.md"]
    assert "May" in answer.text


def test_a_filter_and_top_k_apply_to_a_question_sync_and_async(kb: KnowledgeBase) -> None:
    for answer in (
        kb.ask("When is the hedge cut?", where={"year": 2024}, top_k=1),
        asyncio.run(kb.aask("When is the hedge cut?", where="year == 2024", top_k=1)),
    ):
        assert (names(answer.citations), "August" in answer.text) == (["new.md"], True)
    with pytest.raises(InvalidOption, match="top_k must be an integer >= 1"):
        kb.ask("When is the hedge cut?", top_k=0)


def test_no_search_of_an_agent_leaves_its_filter(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    script: list[ToolCall | str] = [
        ToolCall(TOOL_NAME, {"query": "hedge", "top_k": 50}),
        ToolCall(TOOL_NAME, {"query": "hedge", "where": "year == 2019 or year > 0"}),
        "Done.",
    ]
    provider = ScriptedProvider(script)
    monkeypatch.setattr(answer_provider, "resolve_answer_provider", lambda *_: provider)
    result = kb.chat(where="year == 2024").run("When is the hedge cut?")
    assert [call.call.by for call in result.tool_calls] == ["ragkit", "model", "model"]
    assert [call.content.count("old.md") for call in result.tool_calls] == [0, 0, 0]
    assert [call.content.count("new.md") for call in result.tool_calls] == [1, 1, 1]


def test_an_agent_has_the_tools_of_the_program_too(kb: KnowledgeBase) -> None:
    @tool("The temperature of a city.")
    def temperature(city: str) -> str:
        return f"12 degrees in {city}"

    agent = kb.agent(tools=[temperature])
    assert isinstance(agent, RAGAgent)
    assert [item.name for item in agent.registry] == [TOOL_NAME, "temperature"]


def test_a_source_that_no_document_has_is_an_error_with_the_nearest_name(kb: KnowledgeBase) -> None:
    with pytest.raises(InvalidFilter, match=r"no document has the source 'nwe.md' \(did you mean 'new.md'\?\)"):
        kb.ask("hedge", source="nwe.md")


def test_a_filter_that_can_match_nothing_is_said(kb: KnowledgeBase, tmp_path: Path) -> None:
    assert reads.filter_notes(kb, "year >= 2019") == []
    assert reads.filter_notes(kb, {"$or": [{"yaer": 1}, {"year": 2024}]}) == [
        "the filter names 'yaer', which no document has"
    ]
    assert reads.filter_notes(kb, 'source == "docs/x.md"') == ["no document matches the filter"]
    kb.close()
    for verb in ("search", "ask"):
        command = [verb, "hedge", "--kb", str(tmp_path / "kb"), "--where", "yaer > 1"]
        assert "note: the filter names 'yaer', which no document has" in CliRunner().invoke(cli, command).stderr


@pytest.mark.parametrize("verb", ["search", "ask", "chat"])
def test_the_command_line_restricts_questions_by_filter_source_and_number(
    kb: KnowledgeBase, tmp_path: Path, verb: str
) -> None:
    kb.close()
    for restriction in (["--where", "year == 2019"], ["--source", "old.md"]):
        given = [
            verb,
            *([] if verb == "chat" else ["hedge cut"]),
            "--kb",
            str(tmp_path / "kb"),
            "-k",
            "5",
            *restriction,
        ]
        shown = CliRunner().invoke(cli, given, input="hedge cut\n\n")
        assert shown.exit_code == 0, shown.output
        assert ("May" in shown.stdout, "August" in shown.stdout) == (True, False)

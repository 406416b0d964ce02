"""The RAG agent: its search tool, extractive answers, and models that cite by number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.base import Completion
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.answer.agent import RAGAgent, RAGOptions
from ragkit.answer.outcome import NOT_FOUND_MARK, NOT_IN_DOCUMENTS, Outcome
from ragkit.answer.passages import TOOL_NAME, RetrievedPassages
from ragkit.answer.tool import NOTHING_FOUND, RAGTool, SemanticSearchTool
from ragkit.embed.hashing import HashingEmbedder
from ragkit.errors import InvalidOption, KnowledgeBaseDamaged
from ragkit.records import JSON, Document, Hit, SearchMode
from ragkit.store.backends.memory import MemoryStore
from ragkit.store.options import MemoryOptions
from tests.answer.passages import Shelf
from tests.wire.parts import serving
from tests.wire.server import Fault, ToolCallTurn, Turn

TEXTS = {
    "/house/boiler.md": "The boiler takes eleven minutes to reach its working pressure of 3.2 bar.",
    "/house/garden.txt": "The hedge is cut in August. The roses are cut back in March, after the frost.",
    "/house/keys.txt": "The key of the cellar hangs on hook fifteen.",
}


def search(query: str, **more: str | int) -> ToolCall:
    return ToolCall(TOOL_NAME, {"query": query, **more})


def test_the_tool_shows_numbered_passages_with_their_places() -> None:
    result = RAGTool(Shelf(TEXTS), top_k=1).search_knowledge_base("when is the hedge cut")
    assert result.content == f"[1] (garden.txt, line 1)\n{TEXTS['/house/garden.txt']}"
    assert isinstance(result.data, RetrievedPassages)
    assert [hit.chunk.source for hit in result.data.hits] == ["/house/garden.txt"]


def test_the_tool_reports_an_empty_result() -> None:
    assert RAGTool(Shelf(TEXTS)).search_knowledge_base("xyzzy").content == NOTHING_FOUND


def test_the_tools_condition_is_read_as_on_the_command_line() -> None:
    shelf = Shelf(TEXTS)
    RAGTool(shelf).search_knowledge_base("hedge", 3, 'format == "pdf"')
    assert shelf.asked == [("hedge", 3, {"format": {"$eq": "pdf"}})]


def test_a_threshold_leaves_out_passages_with_a_lower_cosine() -> None:
    assert RAGTool(Shelf(TEXTS), score_threshold=0.99).search_knowledge_base("hedge").content == NOTHING_FOUND


@pytest.mark.parametrize("threshold", [-1.1, 99.0, float("nan")])
def test_a_threshold_outside_of_the_range_of_a_cosine_is_refused(threshold: float) -> None:
    with pytest.raises(InvalidOption, match="score_threshold must be a cosine between -1 and 1, or None"):
        RAGTool(Shelf(TEXTS), score_threshold=threshold)


def test_the_tool_shows_three_passages_unless_told_otherwise() -> None:
    shelf = Shelf(TEXTS)
    RAGTool(shelf).search_knowledge_base("hedge")
    RAGAgent(shelf).ask("hedge")
    assert [top_k for _, top_k, _ in shelf.asked] == [3, 3]


def test_a_search_method_given_to_an_agent_numbers_its_passages_on() -> None:
    rag = RAGTool(Shelf(TEXTS), top_k=1)
    memory = ConversationMemory()
    script: list[ToolCall | str] = [
        search("hedge"),
        search("cellar"),
        "ok",
        search("hedge cut"),
        search("boiler"),
        "ok",
    ]
    agent = Agent(ScriptedProvider(script), [rag.search_knowledge_base], memory=memory)
    first, second = agent.run("one"), agent.run("two")
    marks = [call.content[:3] for result in (first, second) for call in result.tool_calls]
    assert marks == ["[1]", "[2]", "[1]", "[3]"]
    assert "context" not in str(agent.registry.get(TOOL_NAME).parameters)


def test_without_a_model_the_answer_is_quoted_and_each_quote_is_checked() -> None:
    answer = RAGAgent(Shelf(TEXTS)).ask("How many minutes does the boiler take to reach its working pressure?")
    assert "eleven minutes" in answer.text
    assert (answer.abstained, answer.model) == (False, "extractive")
    assert [c.verified for c in answer.citations] == [True] * len(answer.citations)
    for citation in answer.citations:
        assert f"{citation.quote} [{citation.n}]" in answer.text
    assert (answer.usage.total_cost_usd, answer.usage.by_tool[TOOL_NAME].calls) == (0.0, 1)
    assert answer.trace_id == answer.trace.id


def test_without_a_model_an_off_topic_question_is_refused() -> None:
    answer = RAGAgent(Shelf(TEXTS)).ask("Which composer wrote nine symphonies?")
    assert (answer.abstained, answer.citations) == (True, ())
    assert answer.text == NOT_IN_DOCUMENTS


def test_a_model_searches_and_its_marks_become_citations() -> None:
    provider = ScriptedProvider([search("hedge"), "It is cut in August [1]."])
    answer = RAGAgent(Shelf(TEXTS), provider).ask("When is the hedge cut?")
    assert [(c.n, c.source, c.quote) for c in answer.citations] == [
        (1, "/house/garden.txt", "The hedge is cut in August.")
    ]
    assert answer.abstained is False


def test_a_passage_keeps_its_number_in_later_searches_and_turns() -> None:
    script: list[ToolCall | str] = [
        search("hedge", top_k=1),
        search("cellar hedge"),
        "Hook fifteen [2].",
        "In August [1].",
    ]
    options = RAGOptions(search="model")
    agent = RAGAgent(Shelf(TEXTS), ScriptedProvider(script), options=options, memory=ConversationMemory())
    first = agent.ask("Where is the key of the cellar?")
    assert [(c.n, c.source) for c in first.citations] == [(2, "/house/keys.txt")]
    second = agent.ask("And when is the hedge cut?")
    assert [(c.n, c.source) for c in second.citations] == [(1, "/house/garden.txt")]


def test_a_model_that_finds_nothing_abstains_with_the_configured_text() -> None:
    provider = ScriptedProvider([search("symphonies"), NOT_IN_DOCUMENTS])
    answer = RAGAgent(Shelf(TEXTS), provider).ask("Who wrote nine symphonies?")
    assert (answer.abstained, answer.citations) == (True, ())
    system = provider.requests[0].messages[0]
    assert system.role is Role.SYSTEM
    assert NOT_FOUND_MARK in system.content


def test_the_answer_is_streamed() -> None:
    pieces: list[str] = []
    provider = ScriptedProvider([search("hedge"), "In August [1]."])
    answer = RAGAgent(Shelf(TEXTS), provider).ask("When is the hedge cut?", on_text=pieces.append)
    assert "".join(pieces) == answer.text


def test_the_options_reach_the_tool() -> None:
    shelf = Shelf(TEXTS)
    RAGAgent(shelf, options=RAGOptions(top_k=2)).ask("hedge")
    assert [top_k for _, top_k, _ in shelf.asked] == [2]


def test_an_invalid_filter_of_the_model_is_returned_to_the_model() -> None:
    provider = ScriptedProvider([search("hedge", where="format = = 3"), search("hedge"), "In August [1]."])
    answer = RAGAgent(Shelf(TEXTS), provider).ask("When is the hedge cut?")
    assert [c.source for c in answer.citations] == ["/house/garden.txt"]
    refused = next(m for m in provider.requests[1].messages if m.role is Role.TOOL)
    assert refused.is_error
    assert "column" in refused.content


@pytest.mark.parametrize("question", ["", "   "])
def test_an_empty_question_is_refused_without_a_search_result(question: str) -> None:
    assert RAGAgent(Shelf(TEXTS)).ask(question).abstained is True


def test_documents_in_a_vector_store_are_enough() -> None:
    store = MemoryStore(MemoryOptions())
    documents = [Document(text, {"room": source[7:]}, source=source) for source, text in TEXTS.items()]
    agent = RAGAgent.from_documents(documents, None, store, embedder=HashingEmbedder())
    assert store.count() == 3
    answer = agent.ask("On which hook does the key of the cellar hang?")
    assert "hook fifteen" in answer.text
    assert {citation.verified for citation in answer.citations} == {True}
    with agent.searcher.session() as searcher:
        [hit] = searcher.search("key", where={"room": "garden.txt"})
    assert hit.chunk.source == "/house/garden.txt"


def test_text_without_a_source_is_cited_by_its_id() -> None:
    document = Document("The kettle holds two litres.", id="kettle")
    answer = RAGAgent.from_documents([document], embedder=HashingEmbedder()).ask("How much does the kettle hold?")
    assert [(c.source, c.verified) for c in answer.citations] == [("kettle", True)]


def test_files_and_folders_are_read_by_their_loaders(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Attic\n\nThe trunk is green.\n")
    (tmp_path / "b.csv").write_text("room,lamp\nattic,broken\n")
    script: list[ToolCall | str] = [search("trunk"), "Green [1]."]
    agent = RAGAgent.from_directory(tmp_path, ScriptedProvider(script), embedder=HashingEmbedder())
    [citation] = agent.ask("What colour is the trunk?").citations
    assert (citation.source, citation.quote) == (str(tmp_path / "a.md"), "The trunk is green.")
    alone = RAGAgent.from_files([tmp_path / "b.csv"], embedder=HashingEmbedder())
    with alone.searcher.session() as searcher:
        assert [hit.chunk.source for hit in searcher.search("lamp")] == [str(tmp_path / "b.csv")]


def test_an_empty_collection_answers_nothing() -> None:
    assert RAGAgent.from_documents([], embedder=HashingEmbedder()).ask("Anything?").abstained


class Broken(Shelf):
    """A damaged knowledge base."""

    def search(
        self,
        question: str,
        top_k: int | None = None,
        where: Mapping[str, JSON] | None = None,
        mode: SearchMode | None = None,
    ) -> list[Hit]:
        raise KnowledgeBaseDamaged("/kb/index.sqlite", "is cut short", "`ragkit verify --repair`")


def test_a_damaged_knowledge_base_is_an_error_and_not_an_answer() -> None:
    with pytest.raises(KnowledgeBaseDamaged, match="is cut short"):
        RAGAgent(Broken(TEXTS)).ask("When is the hedge cut?")
    with pytest.raises(KnowledgeBaseDamaged, match="is cut short"):
        RAGAgent(Broken(TEXTS), ScriptedProvider([search("hedge"), "I do not know."])).ask("When is the hedge cut?")


class ByMode(Shelf):
    """Records the search mode."""

    modes: list[str | None]

    def search(
        self,
        question: str,
        top_k: int | None = None,
        where: Mapping[str, JSON] | None = None,
        mode: SearchMode | None = None,
    ) -> list[Hit]:
        self.modes = [*getattr(self, "modes", []), mode]
        return super().search(question, top_k, where)


def test_the_semantic_tool_searches_by_meaning_alone() -> None:
    shelf = ByMode(TEXTS)
    result = SemanticSearchTool(shelf, top_k=1).search_knowledge_base("hedge")
    assert shelf.modes == ["dense"]
    assert result.content.startswith("[1] (garden.txt, ")


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        (Turn(("In ", "August ", "[1]", ".")), "In August [1]."),
        (Turn(("Cut ", "in August [1].")), "In August [1]| Cut in August [1]."),
    ],
)
def test_a_stream_that_begins_again_is_shown_once(again: Turn, expected: str) -> None:
    shown: list[str] = []
    first = Turn(calls=(ToolCallTurn(TOOL_NAME, {"query": "hedge"}),))
    with serving("openai", first, Fault(turn=Turn(("In ", "August ", "[1]", ".")), cut_after=4), again) as (
        provider,
        _,
    ):
        agent = RAGAgent(Shelf(TEXTS), provider)
        result = agent.ask("When?", on_text=shown.append, on_restart=lambda: shown.append("| "))
    assert "".join(shown) == expected
    assert result.text == "".join(again.text)


def test_the_cost_of_a_call_without_usage_makes_the_sum_unknown() -> None:
    turn = Turn(calls=(ToolCallTurn(TOOL_NAME, {"query": "hedge"}),), prompt_tokens=100, completion_tokens=10)
    with serving("openai", turn, Turn(("In August [1].",))) as (provider, _):
        usage = RAGAgent(Shelf(TEXTS), provider).ask("When?").usage
    assert (usage.prompt_tokens, usage.total_cost_usd) == (100, None)
    assert usage.iterations[0].total_cost_usd is not None


def test_an_answer_after_the_last_iteration_says_so_and_keeps_its_reason_to_stop() -> None:
    search_turn = ToolCall(TOOL_NAME, {"query": "hedge"})
    config = AgentConfig(max_iterations=1, on_max_iterations="answer")
    provider = ScriptedProvider([search_turn, "In August [1]."])
    answer = RAGAgent(Shelf(TEXTS), provider, config).ask("When?")
    assert answer.outcome is Outcome.ANSWERED
    assert answer.notices == ("the model used up its iterations (1): this is its answer from what it had found",)
    assert answer.unsupported_reasons == []
    refusal = Completion(Message.assistant("I cannot."), stop_reason="refusal")
    answer = RAGAgent(Shelf(TEXTS), ScriptedProvider([search_turn, refusal]), config).ask("When?")
    assert (answer.outcome, answer.text) == (Outcome.REFUSED, "I cannot.")

"""Query rewriting: prompts, parsing of the output, cost."""

from __future__ import annotations

import numpy as np
import pytest

from ragkit.agent.messages import Message
from ragkit.agent.providers.base import Completion
from ragkit.agent.providers.scripted import ScriptedProvider, ScriptedTurn
from ragkit.errors import ConnectionFailed, InvalidOption, RateLimited
from ragkit.records import Hit
from ragkit.retrieve.base import Explanation
from ragkit.retrieve.dense import DenseRetriever
from ragkit.retrieve.lexical import LexicalRetriever
from ragkit.retrieve.options import DenseOptions, LexicalOptions, RewriteOptions
from ragkit.retrieve.query_expansion import QueryExpandingRetriever
from ragkit.retrieve.query_rewriting import (
    INSTRUCTIONS,
    HydeExpander,
    MultiQueryRetriever,
    QueryRewriter,
    merge_rankings,
    parse_rewrites,
)
from ragkit.usage.meter import Meter, use_meter
from ragkit.usage.tokens import Tokens
from tests.retrieve.passages import Compass, chunk, retriever_parts

EAST, NORTH = [1.0, 0.0], [0.0, 1.0]
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY", "RAGKIT_MOCK_JSON")


def writer(*script: ScriptedTurn, **options: object) -> tuple[QueryRewriter, ScriptedProvider]:
    provider = ScriptedProvider(script)
    return QueryRewriter(RewriteOptions(**options), provider), provider  # type: ignore[arg-type]


def test_lines_lose_bullets_numbers_and_quotation_marks() -> None:
    text = '1. How so?\n- "Why so?"\n\n(2) “What for?”\n* how so?\n  HOW SO?  \n3.5 litres?'
    assert parse_rewrites(text, "How so?") == ("Why so?", "What for?", "3.5 litres?")


def test_duplicate_lines_are_removed() -> None:
    assert parse_rewrites("a\nb\na", "?") == ("a", "b")


def test_rewrites_are_cached_and_limited_in_number() -> None:
    rewriter, provider = writer("one\ntwo\nthree", number=2)
    assert rewriter.rewrite("Why?") == ("one", "two")
    assert rewriter.rewrite("Why?") == ("one", "two")
    [request] = provider.requests
    assert request.messages[0].content.startswith(INSTRUCTIONS)
    assert request.messages[-1].content.startswith("Write 2 other wordings of this question")
    assert request.messages[-1].content.endswith(": Why?")
    assert (request.tools, request.settings.temperature) == ((), 0.0)


def test_each_task_has_its_own_instructions() -> None:
    rewriter, provider = writer("a passage", name="hyde", number=4)
    rewriter.rewrite("Why?")
    assert "Write 4 short passages" in provider.requests[0].messages[-1].content


def test_token_usage_is_recorded_by_the_current_meter() -> None:
    rewriter, _ = writer(Completion(Message.assistant("one"), Tokens(120, 30)))
    meter = Meter()
    with use_meter(meter):
        rewriter.rewrite("Why?")
        rewriter.rewrite("Why?")
    usage = meter.usage()
    assert (usage.prompt_tokens, usage.completion_tokens) == (120, 30)
    assert [(call.kind, call.provider) for call in meter.calls] == [("chat", "scripted")]


def test_a_busy_service_is_retried_and_a_failure_is_raised() -> None:
    rewriter, provider = writer(RateLimited("scripted", "slow down", retry_after=0.0), "one")
    assert rewriter.rewrite("Why?") == ("one",)
    assert len(provider.requests) == 2
    with pytest.raises(ConnectionFailed, match="no route"):
        writer(*[ConnectionFailed("scripted", "no route")] * 3)[0].rewrite("Why?")


@pytest.mark.parametrize("name", ["multi_query", "hyde"])
def test_without_a_model_the_error_names_the_variables_to_set(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    with pytest.raises(InvalidOption, match=r"rewrite.provider must be an available provider: set OPENAI_API_KEY"):
        QueryRewriter(RewriteOptions(name))  # type: ignore[arg-type]


def test_auto_uses_the_scripted_provider_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGKIT_MOCK_JSON", '["a wording"]')
    assert QueryRewriter(RewriteOptions()).rewrite("Why?") == ("a wording",)


def found(*pairs: tuple[str, float]) -> list[Explanation]:
    return [Explanation(Hit(chunk(text), score, {"own": score}, rank)) for rank, (text, score) in enumerate(pairs, 1)]


def test_rankings_are_merged_by_the_mean_of_their_standard_scores() -> None:
    # standard scores of the first: a 1, b -1; of the second: b 1, c -1; missing chunks get the lowest score
    merged_ = merge_rankings({"question": found(("a", 4.0), ("b", 2.0)), "wording 1": found(("b", 0.9), ("c", 0.1))})
    assert [(item.hit.chunk.text, item.hit.score, item.hit.rank) for item in merged_] == [
        ("a", 0.0, 1),
        ("b", 0.0, 2),
        ("c", -1.0, 3),
    ]
    assert [dict(item.ranks) for item in merged_] == [
        {"question": 1},
        {"question": 2, "wording 1": 1},
        {"wording 1": 2},
    ]
    assert dict(merged_[1].contributions) == {"question": -0.5, "wording 1": 0.5}
    assert dict(merged_[1].hit.scores) == {"own": 2.0}


def test_a_query_variant_without_hits_adds_nothing() -> None:
    assert [
        item.hit.score for item in merge_rankings({"question": found(("a", 4.0), ("b", 2.0)), "wording 1": []})
    ] == [0.5, -0.5]
    assert merge_rankings({"question": [], "wording 1": []}) == []


def test_several_query_variants_find_chunks_that_one_misses() -> None:
    parts = retriever_parts([chunk("the rudder broke"), chunk("the helm failed"), chunk("bread")], [EAST] * 3)
    inner = LexicalRetriever(LexicalOptions(), parts)
    retriever = MultiQueryRetriever(inner, lambda _: ("helm failure", "steering lost"), 8)
    assert {hit.chunk.text for hit in inner.retrieve("broken rudder")} == {"the rudder broke"}
    assert {hit.chunk.text for hit in retriever.retrieve("broken rudder")} == {"the rudder broke", "the helm failed"}
    assert len(retriever.retrieve("broken rudder", 1)) == 1
    assert retriever.retrieve("  ") == []


def test_a_hypothetical_answer_changes_the_vector() -> None:
    embedder = Compass({"asked": NORTH, "supposed": EAST})
    move = HydeExpander(lambda: ["supposed"], embedder)
    row = move(np.array(NORTH, np.float32))
    np.testing.assert_allclose(row, np.array([1, 1]) / np.sqrt(2), atol=1e-6)


def test_without_rewrites_the_original_question_is_searched() -> None:
    row = np.array(NORTH, np.float32)
    assert HydeExpander(lambda: [], Compass({}))(row) is row


def test_hits_of_a_hypothetical_answer_keep_their_cosine_with_the_question() -> None:
    parts = retriever_parts([chunk("n"), chunk("e")], [[0.6, 0.8], EAST], asked=NORTH, supposed=EAST)

    def moves(question: str) -> HydeExpander:
        return HydeExpander(lambda: ["supposed"] * 9, parts.embedder)

    first, second = QueryExpandingRetriever(lambda given: DenseRetriever(DenseOptions(), given), parts, moves).retrieve(
        "asked"
    )
    assert (first.chunk.text, second.chunk.text) == ("e", "n")
    assert [first.scores["dense"], second.scores["dense"]] == pytest.approx([0.0, 0.8], abs=1e-6)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "poem"}, "rewrite.name must be one of multi_query, hyde"),
        ({"number": 0}, "rewrite.number must be an integer between 1 and 10"),
        ({"provider": "extractive"}, "rewrite.provider must be 'auto', a provider, or provider:model"),
        ({"max_cost_usd": -1.0}, "rewrite.max_cost_usd must be >= 0"),
    ],
)
def test_options_out_of_range_are_rejected(options: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        RewriteOptions(**options)  # type: ignore[arg-type]  # on purpose of any kind


def test_the_lexical_retriever_rejects_hyde() -> None:
    with pytest.raises(InvalidOption, match=r"rewrite.name must be 'multi_query', since 'lexical' uses no vectors"):
        LexicalOptions(rewrite=RewriteOptions("hyde"))

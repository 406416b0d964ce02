"""The model judge: metrics from its output, cost, and caching."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ragkit.agent.cache.disk import DiskCache
from ragkit.agent.messages import Message
from ragkit.agent.providers.base import Completion, ModelRequest
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.errors import AuthenticationFailed, BudgetExceeded, RateLimited, RunError
from ragkit.evaluate.html_report import render_evaluation_report
from ragkit.evaluate.judge import RESPONSE_SCHEMA, Judge, judged_metrics
from ragkit.evaluate.questions import Question
from ragkit.evaluate.report import build_report
from ragkit.evaluate.run import QuestionResult
from ragkit.evaluate.structured_model import StructuredModel
from ragkit.records import JSON
from ragkit.usage.meter import Meter, use_meter
from ragkit.usage.tokens import Tokens
from tests.wire.parts import MODELS, SERVICES, serving
from tests.wire.server import Fault, Turn

SAID: Mapping[str, JSON] = {
    "statements": [
        {"statement": "Leave is 27 days.", "passages": [1], "supported": True},
        {"statement": "It is paid twice.", "passages": [], "supported": False},
        {"statement": "It ends in March.", "passages": [2], "supported": True},
        {"statement": "It was invented in Rome.", "passages": [9], "supported": True},
    ],
    "relevance": 1,
    "reason": "half of it",
}
GOOD = json.dumps(SAID)


def outcome(number: int = 1, answer: str | None = "Leave is 27 days [1].") -> QuestionResult:
    question = Question(str(number), f"How much leave, {number}?", ("27",), {"leave.md": 1})
    passages = ("A year has 27 days of leave.", "It ends on 31 March.")
    return QuestionResult(question, ("leave.md",), {"recall@10": 1.0}, (), answer, contexts=passages)


def judge(*script: str | BaseException, cache: DiskCache | None = None) -> tuple[Judge, ScriptedProvider]:
    provider = ScriptedProvider(script)
    return Judge(StructuredModel(provider, cache=cache)), provider


def test_a_statement_is_supported_only_by_existing_passages() -> None:
    assert judged_metrics(SAID, 2) == {"faithfulness": 0.5, "relevance": 0.5}
    assert judged_metrics(SAID, 1) == {"faithfulness": 0.25, "relevance": 0.5}
    assert judged_metrics({**SAID, "statements": []}, 2) == {"relevance": 0.5}


def test_judging_adds_metrics_to_an_answer() -> None:
    mine, provider = judge(GOOD)
    result = mine.judge(outcome())
    assert dict(result.metrics) == {"recall@10": 1.0, "faithfulness": 0.5, "relevance": 0.5}
    assert result.judgement == SAID
    [request] = provider.requests
    assert request.settings.response_schema == RESPONSE_SCHEMA
    assert request.settings.temperature == 0
    queries = request.messages[-1].content
    assert "[1]\nA year has 27 days of leave.\n\n[2]\nIt ends on 31 March." in queries
    assert "<answer>\nLeave is 27 days [1].\n</answer>" in queries


@pytest.mark.parametrize("change", ["no answer", "refused", "failed"])
def test_only_answers_are_judged(change: str) -> None:
    mine, provider = judge()
    value = outcome(answer=None if change == "no answer" else "I do not know.")
    value = QuestionResult(
        value.question, (), {}, (), value.answer, change == "refused", error="broken" if change == "failed" else ""
    )
    assert mine.judge(value) is value
    assert provider.requests == []


def test_the_same_answer_is_judged_once_and_the_second_run_reports_the_saving(tmp_path: Path) -> None:
    path = tmp_path / "judged.sqlite"
    turns = [Turn((GOOD,), prompt_tokens=1000, completion_tokens=100)] * 2
    with serving("openai", *turns) as (provider, server):
        with DiskCache(path) as cache:
            first = Judge(StructuredModel(provider, cache=cache))
            figures_of = [first.judge(outcome(number)).metrics for number in (1, 2)]
        with DiskCache(path) as cache:
            second = Judge(StructuredModel(provider, cache=cache))
            assert [second.judge(outcome(number)).metrics for number in (1, 2)] == figures_of
        assert len(server.seen) == 2
    cost = 2 * (1000 * 0.15 + 100 * 0.60) / 1e6
    assert first.model.usage.total_cost_usd == pytest.approx(cost)
    assert (first.model.requests, first.model.cache_hits, first.model.usage.saved_cost_usd) == (2, 0, 0.0)
    assert (second.model.requests, second.model.cache_hits, second.model.usage.total_cost_usd) == (0, 2, 0.0)
    assert second.model.usage.saved_cost_usd == pytest.approx(cost)
    assert first.model.label == "openai:gpt-4o-mini"


@pytest.mark.parametrize("change", ["question", "answer", "passage", "model"])
def test_the_cache_key_covers_everything_the_judge_sees(tmp_path: Path, change: str) -> None:
    with DiskCache(tmp_path / "judged.sqlite") as cache:
        mine, provider = judge(GOOD, GOOD, cache=cache)
        mine.judge(outcome())
        mine.judge(outcome())
        assert len(provider.requests) == 1
        other = outcome(2) if change == "question" else outcome(answer="28 [1]." if change == "answer" else "")
        if change in ("passage", "model"):
            old = outcome()
            passages = old.contexts if change == "model" else ("Another passage.", old.contexts[1])
            other = QuestionResult(old.question, old.ranking, old.metrics, (), old.answer, contexts=passages)
        mine.model.name = "another" if change == "model" else mine.model.name
        mine.judge(other)
    assert len(provider.requests) == 2


def test_an_invalid_judgment_is_requested_again_and_both_are_paid() -> None:
    bad = Completion(Message.assistant('{"statements": []}'), Tokens(10, 5))
    good = Completion(Message.assistant(GOOD), Tokens(20, 6))
    mine = Judge(StructuredModel(ScriptedProvider([bad, good])))
    assert mine.judge(outcome()).metrics["relevance"] == 0.5
    assert (mine.model.requests, mine.model.usage.prompt_tokens, mine.model.usage.completion_tokens) == (2, 30, 11)


def test_a_failure_on_the_first_answer_is_an_error_and_later_failures_are_recorded() -> None:
    mine, _ = judge("nonsense", "nonsense again")
    with pytest.raises(RunError, match="does not match response_format"):
        mine.judge(outcome())
    mine, _ = judge(GOOD, "nonsense", "nonsense again", GOOD)
    result = [mine.judge(outcome(number)) for number in (1, 2, 3)]
    assert ["faithfulness" in item.metrics for item in result] == [True, False, True]
    assert (mine.judged, [item.partition(":")[0] for item in mine.failures]) == (2, ["2"])


def test_a_temporary_error_is_retried(tmp_path: Path) -> None:
    mine, provider = judge(RateLimited("scripted", "slow down", retry_after=0.0), GOOD)
    assert mine.judge(outcome()).metrics["faithfulness"] == 0.5
    assert len(provider.requests) == 2


def test_judging_stops_at_the_budget() -> None:
    turns = [Turn((GOOD,), prompt_tokens=1_000_000, completion_tokens=0)] * 2
    with serving("openai", *turns) as (provider, server):
        mine = Judge(StructuredModel(provider))
        with use_meter(Meter(budget_usd=0.2)):
            for number in (1, 2):
                mine.judge(outcome(number))
            with pytest.raises(BudgetExceeded, match=r"0\.3"):
                mine.judge(outcome(3))
        assert len(server.seen) == 2


@pytest.mark.parametrize("service", SERVICES)
def test_every_provider_package_sends_the_schema_and_returns_the_judgment(service: str) -> None:
    with serving(service, Turn((GOOD,), prompt_tokens=50, completion_tokens=9)) as (provider, server):
        mine = Judge(StructuredModel(provider))
        result = mine.judge(outcome())
    assert result.metrics["faithfulness"] == 0.5
    assert (mine.model.usage.prompt_tokens, mine.model.label) == (50, f"{service}:{MODELS[service]}")
    assert "supported" in json.dumps(server.seen[0].body)


def test_an_error_of_the_service_is_reported() -> None:
    with serving("openai", Fault(401, "no such key")) as (provider, _):
        mine = Judge(StructuredModel(provider))
        with pytest.raises(AuthenticationFailed, match="no such key"):
            mine.judge(outcome())


def test_judged_metrics_have_intervals_and_are_reported_with_their_cost() -> None:
    mine, _ = judge(GOOD, GOOD, GOOD)
    rows = [mine.judge(outcome(number)) for number in (1, 2, 3)]
    created = build_report(rows, {})
    assert (created.metrics["faithfulness"].mean, created.metrics["faithfulness"].n) == (0.5, 3)
    assert json.loads(json.dumps(created.to_dict()))["rows"][0]["judged"]["reason"] == "half of it"
    assert "judge" not in created.to_dict()
    html = render_evaluation_report(created)
    assert "Judge: half of it" in html
    assert "It was invented in Rome." in html


def test_a_request_contains_the_question_but_not_the_gold_answer() -> None:
    seen: list[ModelRequest] = []

    def said(request: ModelRequest) -> str:
        seen.append(request)
        return GOOD

    Judge(StructuredModel(ScriptedProvider([said]))).judge(outcome(answer="It is long."))
    words = " ".join(message.content for message in seen[0].messages)
    assert "leave.md" not in words

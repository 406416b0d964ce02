"""Budgets: runs that would exceed them do not start, or stop within one request and keep their results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ragkit import KnowledgeBase
from ragkit.answer.score_calibration import CALIBRATION_TEXTS
from ragkit.embed.base import PROBE_TEXT
from ragkit.errors import BudgetExceeded, BudgetTooSmall, PriceUnknown
from ragkit.index.build_runner import BuildRunner, PreparedFile
from ragkit.index.plan import FileTask
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.load.process.parsing import ParseFailure
from ragkit.pipeline.assemble import PipelineComponents
from tests import reads
from tests.cost.conftest import Ragkit
from tests.cost.wire import Wire

TOKEN = 0.001
"""US dollars of one token embedded, by the price list of these tests."""


def embedded(wire: Wire) -> int:
    """Texts that the server embedded."""
    return sum(request.texts for request in wire.requests)


# index


def test_a_dry_run_reports_tokens_and_price_before_any_request(shop: Path, wire: Wire, ragkit: Ragkit) -> None:
    planned = ragkit("index", "docs", "--dry-run", "--json").json
    estimate = planned["estimate"]
    assert (estimate["model"], estimate["tokens"]) == ("openai:text-embedding-3-small", planned["tokens"])
    assert estimate["cost_usd"] == pytest.approx(planned["tokens"] * TOKEN)
    assert estimate["exact"] is False
    assert (planned["usage"]["total_cost_usd"], wire.requests) == (0.0, [])
    output = ragkit("index", "docs", "--dry-run").out
    assert f"20 chunks to embed, about {planned['tokens']} tokens, about ${planned['tokens'] * TOKEN:.4f}" in output


def test_the_usage_of_an_index_run_is_what_the_server_counted(shop: Path, wire: Wire, ragkit: Ragkit) -> None:
    usage = ragkit("index", "docs", "--json").json["usage"]
    _, tokens, _ = wire.total("/embeddings")
    assert usage["embedding_tokens"] == tokens
    assert usage["embedding_cost_usd"] == usage["total_cost_usd"] == pytest.approx(tokens * TOKEN)


def test_an_index_run_estimated_above_its_budget_does_not_start(shop: Path, wire: Wire, ragkit: Ragkit) -> None:
    planned = ragkit("index", "docs", "--dry-run", "--json").json
    refused = ragkit("index", "docs", "--max-cost", planned["estimate"]["cost_usd"] * 0.9, code=4)
    assert "nothing was spent; raise the limit to continue" in refused.err
    assert (wire.requests, Path(".ragkit").exists()) == ([], False)
    assert ragkit("index", "docs", "--max-cost", planned["estimate"]["cost_usd"], "-q").code == 0


def test_a_run_with_a_limit_reads_each_file_once(shop: Path, wire: Wire) -> None:
    read: list[str] = []

    def create_runner(components: PipelineComponents, jobs: int) -> BuildRunner:
        runner = components.create_runner(jobs)
        prepare_files = runner.prepare_files

        def record(work: Sequence[FileTask]) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
            read.extend(Path(task.source).name for task in work)
            return prepare_files(work)

        runner.prepare_files = record  # type: ignore[method-assign]
        return runner

    (shop / "empty.md").write_text("")
    (shop / "bad.pdf").write_bytes(b"%PDF-1.7 nothing")
    options = IndexOptions(max_cost_usd=10.0, runner_factory=create_runner)
    with KnowledgeBase.open(".ragkit", "ragkit.yaml") as kb:
        report = kb.index("docs", options=options)
        assert sorted(read) == sorted(path.name for path in shop.iterdir())
        assert (report.files["added"], report.files["failed"], report.embedded) == (20, 1, 20)
        (shop / "00.md").write_text("Boiler 0 was replaced.\n")
        read.clear()
        assert kb.index("docs", options=options).files["updated"] == 1
        assert read == ["00.md"]
        assert kb.search("Which boiler was replaced?")[0].chunk.text == "Boiler 0 was replaced."


def test_a_question_pays_for_itself_only(shop: Path, wire: Wire, ragkit: Ragkit) -> None:
    ragkit("index", "docs", "-q")
    before = embedded(wire)
    assert before == 20 + 1 + len(CALIBRATION_TEXTS)
    for _ in range(2):
        ragkit("ask", "How long does boiler 7 take?")
    assert embedded(wire) == before + 2


def test_a_budget_may_come_from_the_environment(
    shop: Path, wire: Wire, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGKIT_MAX_COST", "0.01")
    assert "the budget of 0.01 USD" in ragkit("index", "docs", code=4).err
    assert "the budget of 0.01 USD" in ragkit("index", "docs", code=4).err
    ragkit("index", "docs", "--max-cost", "1", "-q")
    for value in ("much", "-1", "nan"):
        monkeypatch.setenv("RAGKIT_MAX_COST", value)
        assert "--max-cost" in ragkit("ask", "How long?", code=2).err


@pytest.mark.parametrize("embedder", ["paid", "careless"])
def test_an_index_run_stops_within_one_request_of_its_budget_and_can_continue(
    shop: Path, wire: Wire, ragkit: Ragkit, embedder: str
) -> None:
    (shop.parent / "ragkit.yaml").write_text(f"extends: default\nembed: {{name: {embedder}}}\n")
    estimate = ragkit("index", "docs", "--dry-run", "--json").json["estimate"]["cost_usd"]
    wire.token_factor = 3.0  # the server counts three times the estimate
    budget = estimate * 1.2
    stopped = ragkit("index", "docs", "--max-cost", budget, code=4)
    assert "exceeded" in stopped.err
    assert "what was paid for is kept: run the same command to resume" in stopped.err
    spent = wire.total("/embeddings")[1] * TOKEN
    largest_cost = max(request.prompt_tokens for request in wire.requests) * TOKEN
    assert spent <= budget + largest_cost
    indexed = len(ragkit("list", "--json").lines)
    assert 0 < indexed < 20
    assert ragkit("index", "docs", "--json").json["embedded"] == 20 - indexed
    assert embedded(wire) == 20 + 2 + len(CALIBRATION_TEXTS)  # and a probe in each run


def test_texts_embedded_before_the_budget_was_reached_are_not_paid_again(
    shop: Path, wire: Wire, ragkit: Ragkit
) -> None:
    (shop.parent / "ragkit.yaml").write_text("extends: default\nembed: {name: careless}\n")
    for number in range(20, 600):
        (shop / f"{number:03}.md").write_text(f"Boiler {number} takes {number} minutes to warm up.\n", "utf-8")
    estimate = ragkit("index", "docs", "--dry-run", "--json").json["estimate"]["cost_usd"]
    wire.token_factor = 2.0
    ragkit("index", "docs", "--max-cost", estimate * 1.2, code=4)
    first = embedded(wire) - 1  # one is the probe
    assert 8 < first < 600
    ragkit("verify")
    assert len(ragkit("list", "--json").lines) == first
    rest = ragkit("index", "docs", "--json").json
    assert rest["embedded"] == 600 - first
    assert embedded(wire) == 600 + 2 + len(CALIBRATION_TEXTS)
    assert rest["files"]["added"] == 600 - first


def test_the_estimate_of_a_second_run_covers_the_remaining_texts(shop: Path, wire: Wire, ragkit: Ragkit) -> None:
    ragkit("index", "docs", "-q")
    (shop / "new.md").write_text("A new boiler came.\n")
    done = ragkit("index", "docs", "--max-cost", "0.03", "--json").json
    assert done["embedded"] == 1
    assert ragkit("index", "docs", "--max-cost", "0", "--json").json["embedded"] == 0


def test_with_an_unknown_price_a_budget_is_rejected_and_the_cost_is_null(
    shop: Path, wire: Wire, ragkit: Ragkit
) -> None:
    (shop.parent / "ragkit.yaml").write_text("extends: default\nembed: {name: nameless}\n")
    assert "price unknown (openai:unknown-model)" in ragkit("index", "docs", "--dry-run").out
    refused = ragkit("index", "docs", "--max-cost", "5", code=4)
    assert "the price of openai:unknown-model is unknown" in refused.err
    assert wire.requests == []
    assert "price unknown" in ragkit("index", "docs").out
    assert ragkit("index", "docs", "--rebuild", "--json").json["usage"]["embedding_cost_usd"] == 0.0
    assert ragkit("search", "boiler", "--json").json["usage"]["embedding_cost_usd"] is None
    result = ragkit("usage")
    assert "total  price unknown" in result.out
    with KnowledgeBase.open(".ragkit") as kb, pytest.raises(PriceUnknown, match="add the price to"):
        kb.index("docs", options=IndexOptions(max_cost_usd=1.0))


def test_a_free_model_runs_with_a_budget_of_zero(workplace: Path, ragkit: Ragkit) -> None:
    (workplace / "ragkit.yaml").write_text("extends: default\nembed: {name: hashing}\n")
    (workplace / "a.md").write_text("The boiler takes eleven minutes.\n")
    ragkit("index", "a.md", "--max-cost", "0", "-q")
    assert "eleven" in ragkit("ask", "How long does the boiler take?", "--max-cost", "0").out


SEMANTIC = "extends: default\nembed: {name: paid}\nsplit: {name: semantic, min_tokens: 5}\n"


def test_a_dry_run_counts_the_sentences_of_a_semantic_splitter_and_embeds_none(
    shop: Path, wire: Wire, ragkit: Ragkit
) -> None:
    Path("ragkit.yaml").write_text(SEMANTIC)
    (shop / "long.md").write_text("The boiler is swept in May. The hedge is cut in August. Tulips bloom in spring.\n")
    planned = ragkit("index", "docs", "--dry-run", "--json").json
    assert wire.requests == []
    refused = ragkit("index", "docs", "--max-cost", planned["estimate"]["cost_usd"] * 0.9, code=4)
    assert "nothing was spent" in refused.err
    assert wire.requests == []
    done = ragkit("index", "docs", "--max-cost", planned["estimate"]["cost_usd"] * 1.2, "--json").json
    spent = wire.total("/embeddings")[1] - wire.tokens(PROBE_TEXT)  # the calibration is beyond the budget
    assert spent <= planned["tokens"] <= spent * 1.2
    assert done["usage"]["embedding_tokens"] == wire.total("/embeddings")[1]
    ragkit("verify")


def test_a_semantic_splitter_stops_when_the_budget_is_spent(shop: Path, wire: Wire, ragkit: Ragkit) -> None:
    Path("ragkit.yaml").write_text(SEMANTIC)
    for number in range(20):
        (shop / f"{number:02}.md").write_text(f"Boiler {number} is old. It takes {number} minutes to warm up.\n")
    estimate = ragkit("index", "docs", "--dry-run", "--json").json["estimate"]["cost_usd"]
    wire.token_factor = 4.0
    ragkit("index", "docs", "--max-cost", estimate * 1.01, code=4)
    largest = max(request.prompt_tokens for request in wire.requests)
    assert wire.total("/embeddings")[1] * TOKEN <= estimate * 1.01 + largest * TOKEN


# ask and chat


def test_the_cost_of_an_answer_includes_the_embedding_inside_the_tool(shop: Path, wire: Wire, ragkit: Ragkit) -> None:
    ragkit("index", "docs", "-q")
    wire.requests.clear()
    usage = ragkit("ask", "How long does boiler 7 take?", "--json").json["usage"]
    chats, prompt_tokens, completion_tokens = wire.total("/chat/completions")
    _, embedded_tokens, _ = wire.total("/embeddings")
    assert (chats, usage["prompt_tokens"], usage["completion_tokens"]) == (1, prompt_tokens, completion_tokens)
    assert usage["embedding_tokens"] == embedded_tokens
    assert usage["llm_cost_usd"] == pytest.approx(prompt_tokens * 1e-4 + completion_tokens * 1e-3)
    assert usage["embedding_cost_usd"] == pytest.approx(embedded_tokens * TOKEN)
    assert usage["total_cost_usd"] == pytest.approx(usage["llm_cost_usd"] + usage["embedding_cost_usd"])
    assert usage["by_tool"]["search_knowledge_base"]["embedding_tokens"] == embedded_tokens
    assert sum(iteration["prompt_tokens"] for iteration in usage["iterations"]) == prompt_tokens


def test_an_answer_estimated_above_its_budget_does_not_start(shop: Path, wire: Wire, ragkit: Ragkit) -> None:
    ragkit("index", "docs", "-q")
    wire.requests.clear()
    refused = ragkit("ask", "How long does boiler 7 take?", "--max-cost", "0.02", code=4)
    assert "estimated cost of 0." in refused.err
    assert wire.requests == []
    with KnowledgeBase.open(".ragkit") as kb, pytest.raises(BudgetTooSmall, match="the budget of 0 USD"):
        kb.ask("How long?", max_cost_usd=0.0)


def test_an_answer_stops_within_one_request_of_its_budget(shop: Path, wire: Wire, ragkit: Ragkit) -> None:
    settings = shop.parent / "ragkit.yaml"
    settings.write_text(settings.read_text().replace("max_cost_usd: null", "max_cost_usd: null, search: model"))
    ragkit("index", "docs", "-q")
    with KnowledgeBase.open(".ragkit", "ragkit.yaml") as kb:
        estimate = reads.estimate_cost(kb, kb.agent(), "How long does boiler 7 take?")
    assert estimate is not None
    wire.requests.clear()
    wire.token_factor = 20.0
    stopped = ragkit("ask", "How long does boiler 7 take?", "--max-cost", estimate, code=4)
    assert "exceeded" in stopped.err
    chats, prompt_tokens, completion_tokens = wire.total("/chat/completions")
    assert chats == 1
    assert ragkit("usage", "--json").json["by_command"][0]["command"] == "ask"  # the cost is recorded
    assert prompt_tokens * 1e-4 + completion_tokens * 1e-3 > estimate


def test_a_conversation_has_one_budget(shop: Path, wire: Wire, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    ragkit("index", "docs", "-q")
    with KnowledgeBase.open(".ragkit") as kb:
        agent = kb.chat()
        estimate = reads.estimate_cost(kb, agent, "How long does boiler 7 take?")
    assert estimate is not None
    wire.requests.clear()
    monkeypatch.setattr("sys.stdin", io.StringIO("How long does boiler 7 take?\n" * 50))
    stopped = ragkit("chat", "--max-cost", estimate * 3, "--json", code=4)
    assert 1 <= len(stopped.lines) < 50
    spent = sum(line["usage"]["total_cost_usd"] for line in stopped.lines)
    assert spent <= estimate * 3
    _, prompt_tokens, completion_tokens = wire.total("/chat/completions")
    assert spent == pytest.approx(
        prompt_tokens * 1e-4 + completion_tokens * 1e-3 + wire.total("/embeddings")[1] * TOKEN
    )


def test_the_limit_of_the_pipeline_is_checked_before_the_run(shop: Path, wire: Wire, ragkit: Ragkit) -> None:
    ragkit("index", "docs", "-q")
    (shop.parent / "ragkit.yaml").write_text(
        "extends: default\nembed: {name: paid}\nanswer: {provider: paidchat, max_cost_usd: 0.001}\n"
    )
    wire.requests.clear()
    assert "the budget of 0.001 USD" in ragkit("ask", "How long?", code=4).err
    assert wire.requests == []


def test_an_invalid_price_list_is_an_error_before_any_request(shop: Path, wire: Wire, ragkit: Ragkit) -> None:
    ragkit("index", "docs", "-q")
    wire.requests.clear()
    (shop.parent / "prices.yaml").write_text("openai: {gpt-4o-mini: {inputs: 3, output: free}}\n")
    output = ragkit("ask", "How long?", code=1).err
    assert "prices.yaml: openai: gpt-4o-mini: " in output and "'inputs'" in output
    assert "'free'" in output
    assert wire.requests == []


# many at once, and killed


def test_a_hundred_answers_at_once_each_know_their_own_cost_and_add_up_to_the_servers(shop: Path, wire: Wire) -> None:
    with KnowledgeBase.open(".ragkit", "ragkit.yaml") as kb:
        kb.index("docs")
        agent = kb.agent()
        agent.ask("How long?")  # measures the embedder
        before = kb.ledger.total_spending()
        wire.requests.clear()
        questions = [f"How long does boiler {'very ' * number}{number} take?" for number in range(100)]
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(agent.ask, questions))
        costs = [answer.usage.total_cost_usd or 0.0 for answer in answers]
        tokens = [answer.usage.embedding_tokens for answer in answers]
        assert tokens == [wire.tokens(question) for question in questions]
        _, prompt_tokens, completion_tokens = wire.total("/chat/completions")
        _, embedded_tokens, _ = wire.total("/embeddings")
        assert sum(answer.usage.prompt_tokens for answer in answers) == prompt_tokens
        assert sum(tokens) == embedded_tokens
        assert sum(costs) == pytest.approx(prompt_tokens * 1e-4 + completion_tokens * 1e-3 + embedded_tokens * TOKEN)
        after = kb.ledger.total_spending()
        assert after.embedding_tokens - before.embedding_tokens == embedded_tokens
        assert after.known_cost_usd - before.known_cost_usd == pytest.approx(sum(costs))
        assert after.runs >= 2


def test_tasks_of_one_loop_each_know_their_own_cost(shop: Path, wire: Wire) -> None:
    import asyncio

    with KnowledgeBase.open(".ragkit", "ragkit.yaml") as kb:
        kb.index("docs")
        agent = kb.agent()
        agent.ask("How long?")  # measures the embedder
        before = kb.ledger.total_spending().calls
        wire.requests.clear()
        questions = [f"How long does boiler {'very ' * number}take?" for number in range(40)]

        async def run_all() -> list[int]:
            results = await asyncio.gather(*(agent.arun(question) for question in questions))
            return [result.usage.embedding_tokens for result in results]

        assert asyncio.run(run_all()) == [wire.tokens(question) for question in questions]
        assert kb.ledger.total_spending().calls - before == 2 * len(questions)  # of the model and of the embedder


def test_the_cost_of_a_killed_run_is_recorded(shop: Path, wire: Wire, ragkit: Ragkit) -> None:
    for number in range(20, 2000):
        (shop / f"{number:04}.md").write_text(f"Boiler {number} takes {number} minutes to warm up.\n", "utf-8")
    script = "import sys; sys.path.insert(0, 'site'); from ragkit.cli import main; main(['index', 'docs', '-q'])"
    process = subprocess.Popen([sys.executable, "-c", script], env=os.environ)
    deadline = time.monotonic() + 60
    while embedded(wire) < 600 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    counted_tokens = wire.total("/embeddings")[1]
    recorded = ragkit("usage", "--json").json["total"]["embedding_tokens"]
    last = max(request.prompt_tokens for request in wire.requests)
    assert counted_tokens - last <= recorded <= counted_tokens  # at most the request during the kill is missing


def test_a_budget_set_from_python_raises_an_error_with_the_usage(shop: Path, wire: Wire) -> None:
    with KnowledgeBase.open("kb", "ragkit.yaml") as kb:
        with pytest.raises(BudgetTooSmall, match=r"the budget of 0.01 USD") as caught:
            kb.index("docs", options=IndexOptions(max_cost_usd=0.01))
        assert isinstance(caught.value, BudgetExceeded)
        assert (caught.value.limit, caught.value.spent) == (0.01, 0.0)
        assert caught.value.estimate > 0.01
    assert json.dumps(wire.total("/embeddings")) == "[0, 0, 0]"

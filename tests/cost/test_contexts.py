"""Contextual chunks: written by a model once, kept, priced, within the budget, never quoted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ragkit import KnowledgeBase
from ragkit.agent.messages import Message, Role
from ragkit.agent.providers.base import Completion, ModelRequest
from ragkit.answer.tool import RAGTool
from ragkit.errors import BudgetExceeded, PriceUnknown, ProviderError
from ragkit.index import context_writer
from ragkit.index.catalog.schema import CONTEXT_TABLES_SQL
from ragkit.index.catalog.write_session import WriteSession
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.pipeline.settings import Pipeline
from tests import reads
from tests.cost.conftest import Ragkit
from tests.cost.paid import PaidProvider
from tests.cost.wire import Wire

CHATS = "/chat/completions"
PIPELINE = """\
extends: default
embed: {name: hashing, dimension: 64}
split: {name: recursive, context: {model: "openai:gpt-4o-mini", max_tokens: 20, concurrency: 2}}
"""


def write_sentence(body: dict[str, Any]) -> str:
    """A sentence that names the boiler of the chunk, and the maker, which the documents leave out."""
    number = body["messages"][-1]["content"].split("Boiler ")[1].split()[0]
    return f"From the Oslo catalogue:\nboiler{number}x."


@pytest.fixture
def written(shop: Path, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shop, with a free embedder and a model that writes contexts, reached with the vendor's SDK."""
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setenv("OPENAI_BASE_URL", wire.url)
    monkeypatch.delenv("OPENAI_ORG_ID", raising=False)
    (shop.parent / "ragkit.yaml").write_text(PIPELINE)
    wire.write = write_sentence
    return shop


def test_a_context_is_found_and_shown_but_never_quoted(written: Path, wire: Wire, ragkit: Ragkit) -> None:
    report = ragkit("index", "docs", "--json").json
    assert (report["contexts"], report["files"]["added"], wire.total(CHATS)[0]) == (20, 20, 20)
    for mode in ("lexical", "dense", "hybrid"):
        [hit] = ragkit("search", "boiler7x", "-k", "1", "--mode", mode, "--json").json["hits"]
        assert (Path(hit["source"]).name, hit["context"]) == ("07.md", "From the Oslo catalogue: boiler7x.")
        assert hit["text"] == "Boiler 7 takes 7 minutes to warm up."
    assert "   context: From the Oslo catalogue: boiler7x.\n" in ragkit("search", "boiler7x", "--explain").out
    line = next(line for line in ragkit("list", "--chunks", "--json").lines if line["source"].endswith("07.md"))
    assert line["context"] == "From the Oslo catalogue: boiler7x."
    assert "boiler7x" not in line["text"]
    with KnowledgeBase.open(".ragkit", "ragkit.yaml") as kb:
        for chunk in reads.chunks(kb):
            document = reads.document(kb, chunk.source)
            assert document is not None
            assert document.text[chunk.start : chunk.end] == chunk.text
        shown = RAGTool(kb).search_knowledge_base("boiler7x").content
        assert "(07.md, line 1)\nContext: From the Oslo catalogue: boiler7x.\nBoiler 7 takes" in shown
        answer = kb.ask("How long does boiler 7 take to warm up?", model="extractive")
        assert answer.citations[0].quote == "Boiler 7 takes 7 minutes to warm up."
        assert answer.citations[0].verified
    ragkit("verify")


def test_the_model_gets_the_document_and_is_asked_for_nothing_twice(written: Path, wire: Wire, ragkit: Ragkit) -> None:
    bodies: list[dict[str, Any]] = []

    def write(body: dict[str, Any]) -> str:
        bodies.append(body)
        return write_sentence(body)

    wire.write = write
    ragkit("index", "docs", "-q")
    system, user = bodies[0]["messages"]
    assert "<document>\nBoiler " in system["content"]
    assert user["content"].startswith("<chunk>\nBoiler ")
    assert bodies[0]["max_tokens"] == 20
    ragkit("index", "docs", "-q")
    ragkit("index", "docs", "--rebuild", "-q")
    (written / "03.md").rename(written / "moved.md")
    ragkit("index", "docs", "-q")
    store = "store: {name: faiss}\n"
    Path("ragkit.yaml").write_text(PIPELINE + store)
    ragkit("copy", "--to", "faiss", "-q")
    assert wire.total(CHATS)[0] == 20
    (written / "04.md").write_text("Boiler 4 was sold.\n")
    assert ragkit("index", "docs", "--json").json["contexts"] == 1
    assert wire.total(CHATS)[0] == 21


def test_another_model_or_length_is_another_index(written: Path, wire: Wire, ragkit: Ragkit) -> None:
    ragkit("index", "docs", "-q")
    Path("ragkit.yaml").write_text(PIPELINE.replace("concurrency: 2", "concurrency: 9"))
    ragkit("index", "docs", "-q")
    Path("ragkit.yaml").write_text(PIPELINE.replace("max_tokens: 20", "max_tokens: 30"))
    refused = ragkit("index", "docs", code=3)
    assert "split.context.max_tokens: index has 20, pipeline has 30" in refused.err
    Path("ragkit.yaml").write_text("extends: default\nembed: {name: hashing, dimension: 64}\n")
    refused = ragkit("search", "boiler", code=3)
    assert "split.context.model: index has openai:gpt-4o-mini, pipeline has not set" in refused.err
    ragkit("index", "docs", "--rebuild", "-q")
    assert {line["context"] for line in ragkit("list", "--chunks", "--json").lines} == {""}
    assert wire.total(CHATS)[0] == 20
    ragkit("verify")


# money


def test_a_dry_run_estimates_the_contexts_and_asks_nobody(written: Path, wire: Wire, ragkit: Ragkit) -> None:
    planned = ragkit("index", "docs", "--dry-run", "--json").json
    [estimate] = planned["context_estimates"]
    assert (planned["contexts"], estimate["requests"], estimate["completion_tokens"]) == (20, 20, 400)
    assert estimate["model"] == "openai:gpt-4o-mini"
    cost = estimate["prompt_tokens"] * 1e-4 + 400 * 1e-3
    assert estimate["cost_usd"] == pytest.approx(cost)
    assert wire.requests == []
    tokens = estimate["prompt_tokens"] + 400
    line = f"20 contexts to write, about {tokens:,} tokens, at most about ${cost:.4f} (openai:gpt-4o-mini)"
    assert line in ragkit("index", "docs", "--dry-run").out
    ragkit("index", "docs", "-q")
    assert ragkit("index", "docs", "--rebuild", "--dry-run", "--json").json["contexts"] == 0
    assert wire.total(CHATS)[0] == 20


def test_their_cost_is_what_the_server_counted(written: Path, wire: Wire, ragkit: Ragkit) -> None:
    usage = ragkit("index", "docs", "--json").json["usage"]
    _, prompt, completion = wire.total(CHATS)
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (prompt, completion)
    assert usage["llm_cost_usd"] == pytest.approx(prompt * 1e-4 + completion * 1e-3)
    [row] = ragkit("usage", "--by", "command", "--json").json["by_command"]
    assert (row["command"], row["total_cost_usd"]) == ("index", pytest.approx(usage["llm_cost_usd"]))


def test_a_run_estimated_above_its_budget_does_not_start(written: Path, wire: Wire, ragkit: Ragkit) -> None:
    cost = ragkit("index", "docs", "--dry-run", "--json").json["context_estimates"][0]["cost_usd"]
    assert (
        "nothing was spent; raise the limit to continue"
        in ragkit("index", "docs", "--max-cost", cost * 0.9, code=4).err
    )
    assert wire.requests == []
    assert ragkit("index", "docs", "--max-cost", cost, "--json").json["contexts"] == 20
    unknown = Pipeline.from_yaml(PIPELINE.replace("gpt-4o-mini", "unknown-model"))
    with KnowledgeBase.open("other", unknown) as kb, pytest.raises(PriceUnknown, match="openai:unknown-model"):
        kb.index("docs", options=IndexOptions(max_cost_usd=100.0))


@pytest.mark.parametrize("embedder", ["hashing", "paid"])
def test_a_run_stops_within_one_request_of_its_budget_and_can_continue(
    written: Path, wire: Wire, ragkit: Ragkit, embedder: str
) -> None:
    Path("ragkit.yaml").write_text(PIPELINE.replace("{name: hashing, dimension: 64}", f"{{name: {embedder}}}"))
    planned = ragkit("index", "docs", "--dry-run", "--json").json
    budget = planned["context_estimates"][0]["cost_usd"] + planned["estimate"]["cost_usd"]
    wire.token_factor = 4.0  # the server counts four times the estimate
    stopped = ragkit("index", "docs", "--max-cost", budget, code=4)
    assert "exceeded" in stopped.err
    assert "what was paid for is kept: run the same command to resume" in stopped.err
    first, prompt, completion = wire.total(CHATS)
    largest = max(r.prompt_tokens * 1e-4 + r.completion_tokens * 1e-3 for r in wire.requests if r.path == CHATS)
    assert 0 < first < 20
    assert prompt * 1e-4 + completion * 1e-3 <= budget + largest
    if embedder == "hashing":  # what was paid for is searchable
        assert len(ragkit("list", "--json").lines) == first
    rest = ragkit("index", "docs", "--json").json
    assert (rest["contexts"], wire.total(CHATS)[0]) == (20 - first, 20)
    assert len(ragkit("list", "--json").lines) == 20
    ragkit("verify")


# interruptions


@pytest.mark.slow
def test_after_a_kill_only_the_requests_under_way_are_asked_again(written: Path, wire: Wire, ragkit: Ragkit) -> None:
    for number in range(20, 200):
        (written / f"{number:03}.md").write_text(f"Boiler {number} takes {number} minutes to warm up.\n", "utf-8")
    answered = threading.Semaphore(0)

    def write(body: dict[str, Any]) -> str:
        time.sleep(0.01)
        answered.release()
        return write_sentence(body)

    wire.write = write
    script = "from ragkit.cli import main; main(['index', 'docs', '-q'])"
    process = subprocess.Popen([sys.executable, "-c", script], env=os.environ)
    for _ in range(60):
        assert answered.acquire(timeout=60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    asked = wire.total(CHATS)[0]
    assert 60 <= asked < 200
    rest = ragkit("index", "docs", "--json").json["contexts"]
    assert wire.total(CHATS)[0] == asked + rest
    assert 200 <= asked + rest <= 200 + 2  # `concurrency` requests were under way
    assert len(ragkit("list", "--json").lines) == 200
    ragkit("verify")


def test_a_service_that_stays_down_ends_the_run_and_keeps_what_was_written(
    written: Path, wire: Wire, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context_writer, "MAX_ATTEMPTS", 2)

    def write(body: dict[str, Any]) -> str:
        if wire.total(CHATS)[0] >= 10:
            wire.status = 503
        return write_sentence(body)

    wire.write = write
    with KnowledgeBase.open(".ragkit", "ragkit.yaml") as kb, pytest.raises(ProviderError, match="openai"):
        kb.index("docs")
    asked = wire.total(CHATS)[0]
    assert 10 <= asked < 20
    wire.write, wire.status = write_sentence, 200
    assert ragkit("index", "docs", "--json").json["contexts"] == 20 - asked


def test_a_model_without_room_for_a_sentence_is_an_error_that_says_so(written: Path, wire: Wire) -> None:
    from ragkit.agent.providers.base import Completion
    from tests.cost.paid import PaidProvider

    def think(self: PaidProvider, request: ModelRequest) -> Completion:

        return Completion(Message(Role.ASSISTANT, ""), stop_reason="length")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PaidProvider, "complete", think)
        pipeline = Pipeline.from_yaml(PIPELINE.replace("openai:", "paidchat:"))
        says = r"wrote nothing within 20 tokens on a chunk of .*00\.md: raise split\.context\.max_tokens"
        with KnowledgeBase.open("kb", pipeline) as kb, pytest.raises(ProviderError, match=says):
            kb.index("docs")


def test_a_damaged_knowledge_base_is_rebuilt_without_asking_again(written: Path, wire: Wire, ragkit: Ragkit) -> None:
    ragkit("index", "docs", "-q")
    [vectors] = Path(".ragkit").glob("vectors-*.f32")
    content = bytearray(vectors.read_bytes())
    content[-5] ^= 255
    vectors.write_bytes(content)
    ragkit("verify", "--repair")
    assert wire.total(CHATS)[0] == 20
    assert sum("catalogue" in line["context"] for line in ragkit("list", "--chunks", "--json").lines) == 20


def test_a_knowledge_base_of_an_earlier_version_is_read_and_gets_the_tables_with_the_next_run(
    written: Path, ragkit: Ragkit
) -> None:
    plain = "extends: default\nembed: {name: hashing, dimension: 64}\n"
    Path("ragkit.yaml").write_text(plain)
    ragkit("index", "docs", "-q")
    with WriteSession(Path(".ragkit")) as session:
        for table in ("contexts", "chunk_contexts"):
            assert table in CONTEXT_TABLES_SQL
            session.catalog.connection.execute(f"DROP TABLE {table}")
    assert ragkit("search", "boiler 7", "-k", "1", "--json").json["hits"][0]["context"] == ""
    ragkit("verify")
    Path("ragkit.yaml").write_text(PIPELINE)
    assert ragkit("index", "docs", "--rebuild", "--json").json["contexts"] == 20
    assert ragkit("search", "boiler7x", "-k", "1", "--json").json["hits"][0]["context"] != ""


def test_changed_contexts_change_their_vectors_in_an_external_store(written: Path, wire: Wire, ragkit: Ragkit) -> None:
    Path("ragkit.yaml").write_text(PIPELINE + "store: {name: faiss}\n")
    ragkit("index", "docs", "-q")
    wire.write = lambda body: write_sentence(body).replace("Oslo", "Bergen")
    Path("ragkit.yaml").write_text(PIPELINE.replace("max_tokens: 20", "max_tokens: 30") + "store: {name: faiss}\n")
    report = ragkit("index", "docs", "--rebuild", "--json").json
    assert (report["contexts"], report["chunks"]["added"]) == (20, 20)
    [hit] = ragkit("search", "boiler7x", "-k", "1", "--mode", "dense", "--json").json["hits"]
    assert hit["context"] == "From the Bergen catalogue: boiler7x."
    ragkit("verify")


def test_a_budget_exceeded_in_python_names_the_amounts(written: Path, wire: Wire) -> None:
    with KnowledgeBase.open(".ragkit", "ragkit.yaml") as kb:
        with pytest.raises(BudgetExceeded, match="estimated cost of") as caught:
            kb.index("docs", options=IndexOptions(max_cost_usd=0.001))
        assert json.dumps(wire.total(CHATS)) == "[0, 0, 0]"
        assert caught.value.limit == 0.001

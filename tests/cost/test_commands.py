"""`ragkit usage` and `ragkit models`: output and JSON."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragkit import KnowledgeBase
from ragkit.agent.providers.base import Completion, ModelRequest
from ragkit.errors import ProviderError
from tests.cost.conftest import Ragkit
from tests.cost.paid import PaidProvider
from tests.cost.wire import Wire


@pytest.fixture
def used(shop: Path, wire: Wire, ragkit: Ragkit) -> Path:
    """A knowledge base after one index run, one search and one answer."""
    ragkit("index", "docs", "-q")
    ragkit("search", "boiler 7", "-q")
    ragkit("ask", "How long does boiler 7 take?", "--json")
    return shop


def test_usage_adds_up_to_what_the_server_counted(used: Path, wire: Wire, ragkit: Ragkit) -> None:
    usage = ragkit("usage", "--json").json
    _, prompt_tokens, completion_tokens = wire.total("/chat/completions")
    _, embedded, _ = wire.total("/embeddings")
    total = usage["total"]
    assert (total["prompt_tokens"], total["completion_tokens"], total["embedding_tokens"]) == (
        prompt_tokens,
        completion_tokens,
        embedded,
    )
    assert total["total_cost_usd"] == pytest.approx(prompt_tokens * 1e-4 + completion_tokens * 1e-3 + embedded * 1e-3)
    assert (total["runs"], total["calls"]) == (3, len(wire.requests))
    assert set(usage) == {
        "kb", "since", "until", "total", "by_day", "by_model", "by_tool", "by_pipeline", "by_command", "by_verb",
    }  # fmt: skip
    for group in ("day", "model", "tool", "pipeline", "command"):
        rows = usage[f"by_{group}"]
        assert sum(row["total_cost_usd"] for row in rows) == pytest.approx(total["total_cost_usd"])
        assert all(row[group] is not None for row in rows)
    assert {row["command"] for row in usage["by_command"]} == {"index", "search", "ask"}
    assert [row["model"] for row in usage["by_model"]] == ["openai:text-embedding-3-small", "openai:gpt-4o-mini"]
    assert {row["tool"] for row in usage["by_tool"]} == {"", "search_knowledge_base"}
    assert [row["pipeline"] for row in usage["by_pipeline"]] == ["ragkit"]


def test_usage_can_be_limited_to_a_period_and_grouped(used: Path, ragkit: Ragkit) -> None:
    assert ragkit("usage", "--since", "2100-01-01", "--json").json["total"]["calls"] == 0
    usage = ragkit("usage", "--by", "command", "--since", "1d", "--json").json
    assert set(usage) == {"kb", "since", "until", "total", "by_command", "by_verb"}
    assert "since must be " in ragkit("usage", "--since", "soon", code=2).err
    output = ragkit("usage", "--by", "model").out
    assert output.startswith("total  $")
    assert "by model\n  openai:text-embedding-3-small  $" in output
    assert "by command" not in output


def test_usage_without_calls_is_zero_and_requires_a_knowledge_base(workplace: Path, ragkit: Ragkit) -> None:
    assert "is not a knowledge base" in ragkit("usage", code=1).err


def test_the_cost_of_a_failed_run_is_recorded(used: Path, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: PaidProvider, request: ModelRequest) -> Completion:
        raise ProviderError("openai", "down")

    with KnowledgeBase.open(".ragkit") as kb:
        agent = kb.agent()
        before = kb.ledger.total_spending().calls
        monkeypatch.setattr(PaidProvider, "complete", refuse)
        with pytest.raises(ProviderError, match="down"):
            agent.ask("How long does boiler 7 take?")
        assert kb.ledger.total_spending().calls == before + 1  # the search before the request


def _contents(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder, except the ledger's."""
    files = (path for path in folder.rglob("*") if path.is_file() and "ledger" not in path.name)
    return {path: path.read_bytes() for path in files}


def test_a_search_leaves_the_knowledge_base_as_it_was(used: Path, ragkit: Ragkit) -> None:
    before = _contents(Path(".ragkit"))
    ragkit("search", "boiler 9")
    assert _contents(Path(".ragkit")) == before
    assert [path.name for path in Path(".ragkit").glob("ledger*")] == ["ledger.sqlite"]
    ragkit("verify")


def test_clear_keeps_the_ledger(used: Path, ragkit: Ragkit) -> None:
    spent = ragkit("usage", "--json").json["total"]["total_cost_usd"]
    ragkit("clear", "--yes", code=None)
    assert ragkit("usage", "--json").json["total"]["total_cost_usd"] == spent


def test_a_knowledge_base_that_cannot_be_written_can_be_searched(used: Path, ragkit: Ragkit) -> None:
    if os.geteuid() == 0:
        Path(".ragkit/ledger.sqlite").unlink()
        Path(".ragkit/ledger.sqlite").mkdir()  # not writable, even for root
    else:
        Path(".ragkit/ledger.sqlite").chmod(0o400)
    assert ragkit("search", "boiler 7", "--json").json["hits"][0]["rank"] == 1


def test_models_are_listed_with_limits_and_prices(workplace: Path, ragkit: Ragkit) -> None:
    models = ragkit("models", "openai:gpt-4o-mini", "--json").json["models"]
    assert models == [
        {
            "name": "openai:gpt-4o-mini",
            "provider": "openai",
            "model": "gpt-4o-mini",
            "kind": "chat",
            "context_window": 128_000,
            "max_output_tokens": 16_384,
            "input_usd_per_million": 0.15,
            "output_usd_per_million": 0.6,
            "cached_usd_per_million": 0.075,
            "usd_per_thousand_searches": None,
        }
    ]
    lines = ragkit("models", "openai:gpt-4o-mini").out.splitlines()
    assert lines[1].split() == ["openai:gpt-4o-mini", "chat", "128,000", "16,384", "0.15", "0.6", "0.075", "-"]


def test_models_are_filtered_by_provider_kind_and_part_of_the_name(workplace: Path, ragkit: Ragkit) -> None:
    cohere = ragkit("models", "--provider", "cohere", "--kind", "rerank", "--json").json["models"]
    assert [model["model"] for model in cohere][:2] == ["rerank-english-v3.0", "rerank-multilingual-v3.0"]
    assert {model["kind"] for model in cohere} == {"rerank"}
    models = ragkit("models", "--json").json["models"]
    services = {"anthropic", "cohere", "gemini", "groq", "ollama", "openai", "voyage"}
    assert {model["provider"] for model in models} == services
    assert len(ragkit("models", "--all", "--json").json["models"]) > len(models)
    sonnets = ragkit("models", "Sonnet-4-5", "--provider", "anthropic", "--json").json["models"]
    assert [model["name"] for model in sonnets] == ["anthropic:claude-sonnet-4-5"]


def test_an_unknown_name_is_reported_with_the_closest_one(workplace: Path, ragkit: Ragkit) -> None:
    assert "(did you mean 'gpt-4o-mini'" in ragkit("models", "gpt4o-mini", code=2).err
    assert "(did you mean 'voyage'?)" in ragkit("models", "--provider", "voyag", code=2).err


def test_own_prices_are_listed_and_unknown_prices_are_marked(workplace: Path, ragkit: Ragkit) -> None:
    (workplace / "prices.yaml").write_text("mine:\n  big: {input: 7, output: 9}\n  small: {context_window: 512}\n")
    lines = ragkit("models", "--provider", "mine").out.splitlines()
    assert lines[1].split() == ["mine:big", "chat", "-", "-", "7", "9", "-", "-"]
    assert lines[2].endswith("price unknown")

"""Prices from the bundled catalogue and from overrides."""

import socket
import sys

import pytest

from ragkit.usage import pricing
from ragkit.usage.pricing import ModelInfo, Price, PriceBook, split_model_name
from ragkit.usage.tokens import Tokens

BOOK = PriceBook()


def test_the_cost_of_a_chat_request_is_that_of_its_tokens() -> None:
    # gpt-4o-mini, USD per million tokens: 0.15 input, 0.60 output, 0.075 cached input
    assert BOOK.chat_cost("openai", "gpt-4o-mini", Tokens(1_000_000, 0)) == pytest.approx(0.15)
    assert BOOK.chat_cost("openai", "gpt-4o-mini", Tokens(0, 1_000_000)) == pytest.approx(0.60)
    assert BOOK.chat_cost("openai", "gpt-4o-mini", Tokens(1_000_000, 0, cached_tokens=1_000_000)) == pytest.approx(
        0.075
    )


def test_the_cost_of_an_embedding_is_that_of_its_tokens() -> None:
    assert BOOK.embedding_cost("openai", "text-embedding-3-small", 1_000_000) == pytest.approx(0.02)


@pytest.mark.parametrize(("provider", "model"), [("openai", "no-such-model"), ("nobody", "gpt-4o-mini"), ("", "nope")])
def test_an_unknown_price_is_none_and_never_zero(provider: str, model: str) -> None:
    assert BOOK.chat_cost(provider, model, Tokens(10, 10)) is None
    assert BOOK.embedding_cost(provider, model, 10) is None


def test_the_cost_reported_by_the_provider_takes_precedence() -> None:
    assert BOOK.chat_cost("openai", "gpt-4o-mini", Tokens(1_000_000, 0, cost_usd=0.0)) == 0.0


def test_an_override_takes_precedence_over_the_catalogue() -> None:
    override = ModelInfo("openai", "gpt-4o-mini", price=Price(1.0, 2.0, 0.5))
    book = PriceBook({"openai:gpt-4o-mini": override})
    tokens = Tokens(1_000_000, 1_000_000, cached_tokens=500_000)
    assert book.chat_cost("openai", "gpt-4o-mini", tokens) == pytest.approx(0.5 * 1.0 + 0.5 * 0.5 + 2.0)
    assert book.embedding_cost("openai", "gpt-4o-mini", 1_000_000) == pytest.approx(1.0)
    info = book.model_info("openai", "gpt-4o-mini")
    assert info is not None
    assert (info.price, info.context_window) == (override.price, 128_000)  # missing values come from the catalogue


def test_an_override_without_an_output_price_gives_an_unknown_chat_cost() -> None:
    book = PriceBook({"mine": ModelInfo("x", "mine", price=Price(1.0))})
    assert book.chat_cost("x", "mine", Tokens(10, 1)) is None
    assert book.chat_cost("x", "mine", Tokens(10, 0)) == pytest.approx(1e-5)


def test_model_info_has_the_context_window() -> None:
    info = BOOK.model_info("openai", "gpt-4o-mini")
    assert info is not None
    assert (info.name, info.context_window, info.price) == ("openai:gpt-4o-mini", 128_000, Price(0.15, 0.6, 0.075))
    assert BOOK.model_info("openai", "no-such-model") is None


def test_the_catalogue_has_more_than_130_models() -> None:
    assert len({info.name for info in BOOK.models()}) > 130


def test_a_long_request_has_the_price_of_its_tier() -> None:
    short = BOOK.chat_cost("anthropic", "claude-sonnet-4-5", Tokens(100_000, 0))
    long = BOOK.chat_cost("anthropic", "claude-sonnet-4-5", Tokens(1_000_000, 0))
    assert [short, long] == pytest.approx([0.3, 6.0])


def test_prices_are_not_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert BOOK.chat_cost("groq", "llama-3.3-70b-versatile", Tokens(1_000_000, 0)) == pytest.approx(0.59)


def test_a_model_name_is_split_at_its_first_colon() -> None:
    assert split_model_name("ollama:llama3.2:3b") == ("ollama", "llama3.2:3b")
    assert split_model_name("gpt-4o-mini") == ("", "gpt-4o-mini")


def test_without_genai_prices_the_list_and_price_files_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {info.name for info in BOOK.models()}
    pricing._is_bundled.cache_clear()
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    try:
        assert PriceBook({}).chat_cost("openai", "gpt-4o-mini", Tokens(10, 10)) == pytest.approx(7.5e-6)
        assert PriceBook({}).chat_cost("nobody", "gpt-4o-mini", Tokens(10, 10)) is None
        override = {"openai:gpt-4o-mini": ModelInfo("openai", "gpt-4o-mini", price=Price(1.0, 2.0))}
        assert PriceBook(override).chat_cost("openai", "gpt-4o-mini", Tokens(1_000_000, 0)) == pytest.approx(1.0)
        assert 0 < len({info.name for info in BOOK.models()}) < len(known)
    finally:
        pricing._is_bundled.cache_clear()

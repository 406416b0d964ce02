"""The contract of embedding services, tested through their official SDKs with a server that checks each field."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import cast

import numpy as np
import pytest

from ragkit.embed import EMBEDDERS, service_requests
from ragkit.embed.base import BatchingEmbedder, Rows
from ragkit.embed.hashing import HashingEmbedder
from ragkit.embed.options import HashingOptions
from ragkit.embed.service_embedder import ServiceEmbedder
from ragkit.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    InvalidOption,
    InvalidRequest,
    ProviderError,
    RateLimited,
    RequestTimeout,
)
from ragkit.usage.meter import Meter, use_meter
from ragkit.usage.pricing import PriceBook
from scripts.cached_embedder import CachedEmbedder, SqliteVectorCache
from tests.wire_embed.conftest import ServiceUnderTest
from tests.wire_embed.dialects import DIALECTS, SENDS_KIND, EmbeddingRequest, tokens_of
from tests.wire_embed.server import Fault, Faults

Start = Callable[[str, Faults], ServiceUnderTest]
TEXTS = [f"text number {number} speaks of {'cats' if number % 2 else 'dogs'}" for number in range(10)]


def no_faults(number: int, request: EmbeddingRequest) -> None:
    """No fault."""


def first_requests(count: int, fault: Fault) -> Faults:
    """The first requests fail, all others succeed."""
    return lambda number, request: fault if number <= count else None


def expected(texts: list[str], width: int = 16) -> Rows:
    return HashingEmbedder(HashingOptions(width)).embed_texts(texts)


@pytest.fixture
def wire(service: str, wire_of: Start) -> ServiceUnderTest:
    return wire_of(service, no_faults)


@pytest.fixture
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short delays between retries."""
    monkeypatch.setattr(service_requests, "INITIAL_BACKOFF_S", 0.01)


def test_vectors_have_length_1_and_the_order_of_the_texts(wire: ServiceUnderTest) -> None:
    rows = wire.embedder(batch_size=3).embed_texts(TEXTS)
    assert (rows.dtype, rows.shape) == (np.dtype(np.float32), (10, 16))
    np.testing.assert_allclose(rows, expected(TEXTS), atol=1e-6)


def test_texts_are_sent_in_batches_by_count(wire: ServiceUnderTest) -> None:
    wire.embedder(batch_size=4, concurrency=1).embed_texts(TEXTS)
    assert [len(request.texts) for request in wire.server.requests] == [4, 4, 2]


def test_texts_are_sent_in_batches_by_tokens(wire: ServiceUnderTest) -> None:
    long = ["x" * 40, "y" * 400, "z" * 40, "w" * 40]  # 10, 100, 10 and 10 tokens as estimated
    wire.embedder(batch_tokens=20, concurrency=1).embed_texts(long)
    assert [request.texts for request in wire.server.requests] == [long[:1], long[1:2], long[2:]]


def test_questions_and_documents_are_distinguished_if_the_service_supports_it(wire: ServiceUnderTest) -> None:
    embedder = wire.embedder()
    embedder.embed_texts(["a text"])
    embedder.embed_query("a question")
    messages = ["document", "query"] if wire.service in SENDS_KIND else ["", ""]
    assert [request.kind for request in wire.server.requests] == messages


def test_the_chosen_model_and_dimension_are_requested(wire: ServiceUnderTest) -> None:
    embedder = wire.embedder(model="my-model", dimensions=24)
    assert embedder.embed_query("cat").shape == (24,)
    assert [(request.model, request.dimensions) for request in wire.server.requests] == [("my-model", 24)]


def test_the_model_comes_first_and_the_rest_are_keywords(wire: ServiceUnderTest) -> None:
    create = cast("Callable[..., ServiceEmbedder]", EMBEDDERS.find(wire.service))
    for embedder in (create("some-model", dimensions=16), create(model="some-model", dimensions=16)):
        assert (embedder.model, embedder.dimension) == ("some-model", 16)
        np.testing.assert_allclose(embedder.embed_texts(TEXTS[:2]), expected(TEXTS[:2]), atol=1e-6)
    assert [request.model for request in wire.server.requests] == ["some-model"] * 2
    assert create(base_url="http://127.0.0.1:9").model == wire.embedder().model


@pytest.mark.parametrize("key", ["sk-1234567890", "AIza1234567890", "gsk_1234567890", "pa-1234567890"])
def test_an_api_key_in_place_of_the_model_is_refused(service: str, key: str) -> None:
    create = cast("Callable[..., ServiceEmbedder]", EMBEDDERS.find(service))
    with pytest.raises(InvalidOption, match="model must be the name of a model; pass a key as api_key") as caught:
        create(key)
    assert key not in str(caught.value)


def test_the_default_dimension_is_that_of_the_model(wire: ServiceUnderTest) -> None:
    embedder = wire.embedder(dimensions=0)
    assert embedder.embed_query("cat").shape == (embedder.dimension,)
    assert [request.dimensions for request in wire.server.requests] == [None]


def test_the_dimension_of_an_unknown_model_is_requested_once(wire: ServiceUnderTest) -> None:
    embedder = wire.embedder(model="nobody-knows-me", dimensions=0)
    assert (embedder.dimension, embedder.dimension, len(wire.server.requests)) == (48, 48, 1)


def test_no_texts_send_nothing(wire: ServiceUnderTest) -> None:
    assert wire.embedder().embed_texts([]).shape == (0, 16)
    assert wire.server.requests == []


def test_equal_texts_are_sent_once(wire: ServiceUnderTest) -> None:
    rows = wire.embedder().embed_texts(["cat", "dog", "cat"])
    np.testing.assert_array_equal(rows[0], rows[2])
    assert wire.server.requests[0].texts == ["cat", "dog"]


@pytest.mark.parametrize("odd", ["", " \n", "\ud800 lone", "a\x00b", "漢字かな", "🙂" * 40])
def test_unusual_texts_get_a_row_of_length_1(wire: ServiceUnderTest, odd: str) -> None:
    [row] = wire.embedder().embed_texts([odd])
    np.testing.assert_allclose(np.linalg.norm(row), 1, atol=1e-5)


def test_tokens_and_cost_are_those_counted_by_the_server(wire: ServiceUnderTest) -> None:
    embedder, meter = wire.embedder(dimensions=0, batch_size=4), Meter()
    with use_meter(meter):
        embedder.embed_texts(TEXTS)
        embedder.embed_query("which?")
    usage = meter.usage()
    assert usage.embedding_tokens == wire.server.tokens == tokens_of([*TEXTS, "which?"])
    if wire.service == "ollama":
        assert usage.embedding_cost_usd == 0.0
        return
    parts = [tokens_of(request.texts) for request in wire.server.requests]
    prices = [PriceBook().embedding_cost(wire.service, embedder.model, tokens) for tokens in parts]
    assert usage.embedding_cost_usd == pytest.approx(sum(price for price in prices if price is not None), rel=1e-9)
    assert usage.embedding_cost_usd is not None
    assert usage.embedding_cost_usd > 0


def test_an_unknown_price_is_none(wire: ServiceUnderTest) -> None:
    meter = Meter()
    with use_meter(meter):
        wire.embedder(model="nobody-knows-me").embed_query("cat")
    assert meter.usage().embedding_cost_usd == (0.0 if wire.service == "ollama" else None)


def test_fingerprints_depend_on_model_and_dimension_not_on_batching(wire: ServiceUnderTest) -> None:
    plain = wire.embedder()
    others = [wire.embedder(model="another"), wire.embedder(dimensions=24), wire.embedder(dimensions=0)]
    assert len({item.fingerprint for item in [plain, *others]}) == 4
    assert wire.embedder(batch_size=2, concurrency=9, timeout_s=3).fingerprint == plain.fingerprint
    assert wire.server.requests == []


def test_the_number_of_concurrent_requests_is_limited(service: str, wire_of: Start) -> None:
    wire = wire_of(service, lambda number, request: Fault("slow", seconds=0.05))
    embedder = wire.embedder(batch_size=1, concurrency=3)
    assert isinstance(embedder, BatchingEmbedder)
    threads = [Thread(target=embedder.embed_texts, args=(TEXTS[place::2],)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wire.server.most_under_way == 3


@pytest.mark.usefixtures("short_delays")
@pytest.mark.parametrize(
    "fault",
    [
        Fault("status", 429, "slow down"),
        Fault("status", 429, "slow down", {"Retry-After": "0.02"}),
        Fault("status", 500),
        Fault("status", 503, "overloaded"),
        Fault("cut"),
        Fault("half"),
        Fault("half json"),
    ],
    ids=["429", "429 with Retry-After", "500", "503", "cut", "half an answer", "half a JSON"],
)
def test_transient_errors_are_retried_and_counted_once(service: str, wire_of: Start, fault: Fault) -> None:
    wire, meter = wire_of(service, first_requests(2, fault)), Meter()
    with use_meter(meter):
        rows = wire.embedder(concurrency=1).embed_texts(TEXTS)
    np.testing.assert_allclose(rows, expected(TEXTS), atol=1e-6)
    assert len(wire.server.requests) == 3
    assert meter.usage().embedding_tokens == wire.server.tokens == tokens_of(TEXTS)


@pytest.mark.parametrize("service", sorted(set(DIALECTS) - {"ollama"}))  # Ollama's SDK hides the headers of errors
def test_every_request_waits_for_retry_after(service: str, wire_of: Start) -> None:
    wire = wire_of(service, first_requests(1, Fault("status", 429, "slow down", {"Retry-After": "0.6"})))
    embedder = wire.embedder(batch_size=5, concurrency=1)
    started_at = time.monotonic()
    embedder.embed_texts(TEXTS)
    assert 0.6 <= time.monotonic() - started_at < 5
    assert [len(request.texts) for request in wire.server.requests] == [5, 5, 5]


@pytest.mark.usefixtures("short_delays")
def test_the_last_failed_attempt_raises_a_ragkit_error(service: str, wire_of: Start) -> None:
    wire = wire_of(service, first_requests(99, Fault("status", 429, "slow down")))
    with pytest.raises(RateLimited, match=rf"{service}: too many requests \(.*slow down"):
        wire.embedder(attempts=3).embed_query("cat")
    assert len(wire.server.requests) == 3


@pytest.mark.usefixtures("short_delays")
@pytest.mark.parametrize(
    ("fault", "kind"),
    [(Fault("cut"), ConnectionFailed), (Fault("half json"), ConnectionFailed), (Fault("status"), ConnectionFailed)],
    ids=["cut", "half a JSON", "500"],
)
def test_a_broken_response_is_a_connection_error(
    service: str, wire_of: Start, fault: Fault, kind: type[ProviderError]
) -> None:
    wire = wire_of(service, first_requests(99, fault))
    with pytest.raises(kind, match=f"^{service}: "):
        wire.embedder(attempts=2).embed_query("cat")
    assert len(wire.server.requests) == 2


def test_a_slow_first_byte_is_a_timeout(service: str, wire_of: Start) -> None:
    wire = wire_of(service, first_requests(99, Fault("slow", seconds=0.8)))
    with pytest.raises(RequestTimeout, match=f"{service}: no response within 0.2 s"):
        wire.embedder(attempts=1, timeout_s=0.2).embed_query("cat")


def test_a_rejected_api_key_is_not_retried(service: str, wire_of: Start) -> None:
    wire = wire_of(service, first_requests(99, Fault("status", 401, "bad key")))
    with pytest.raises(AuthenticationFailed, match=rf"{service}: the API key was rejected \(.*bad key"):
        wire.embedder().embed_query("cat")
    assert len(wire.server.requests) == 1


def test_an_invalid_request_is_neither_retried_nor_halved(service: str, wire_of: Start) -> None:
    wire = wire_of(service, first_requests(99, Fault("status", 400, "no such thing")))
    with pytest.raises(InvalidRequest, match=rf"{service}: the request was rejected with status 400 \(.*no such thing"):
        wire.embedder().embed_texts(TEXTS)
    assert len(wire.server.requests) == 1


@pytest.mark.parametrize("fault", [Fault("status", 413, "no"), Fault("status", 400, "too many tokens in request")])
def test_a_too_large_batch_is_halved_and_later_ones_are_small(service: str, wire_of: Start, fault: Fault) -> None:
    wire, meter = wire_of(service, lambda number, request: fault if len(request.texts) > 3 else None), Meter()
    embedder = wire.embedder(concurrency=1)
    with use_meter(meter):
        np.testing.assert_allclose(embedder.embed_texts(TEXTS), expected(TEXTS), atol=1e-6)
        assert [len(request.texts) for request in wire.server.requests] == [10, 5, 2, 3, 5, 2, 3]
        embedder.embed_texts([text.upper() for text in TEXTS])
    assert max(len(request.texts) for request in wire.server.requests[7:]) <= 3
    assert set(wire.server.answered.values()) == {1}
    assert meter.usage().embedding_tokens == wire.server.tokens


def test_a_single_text_that_is_too_large_is_an_error(service: str, wire_of: Start) -> None:
    wire = wire_of(service, first_requests(99, Fault("status", 413, "too large")))
    with pytest.raises(InvalidRequest, match="status 413"):
        wire.embedder().embed_query("cat")


@pytest.mark.usefixtures("short_delays")
def test_batches_completed_before_a_failure_are_cached(service: str, wire_of: Start, tmp_path: Path) -> None:
    wire = wire_of(service, lambda number, request: Fault("status", 403, "stop") if number == 3 else None)
    with SqliteVectorCache(tmp_path / "vectors.sqlite") as cache:
        embedder = CachedEmbedder(wire.embedder(batch_size=2, concurrency=1), cache)
        with pytest.raises(AuthenticationFailed, match="stop"):
            embedder.embed_texts(TEXTS)
        np.testing.assert_allclose(embedder.embed_texts(TEXTS), expected(TEXTS), atol=1e-6)
    assert set(wire.server.answered.values()) == {1}


@pytest.mark.parametrize("name", sorted(set(DIALECTS) - {"ollama"}))
def test_a_missing_api_key_names_the_variable_to_set(name: str) -> None:
    embedder = EMBEDDERS.find(name)()
    with pytest.raises(
        AuthenticationFailed, match=f"^{name}: no API key: set {name.upper()}_API_KEY.*, or pass api_key$"
    ):
        embedder.embed_query("cat")


def test_without_a_server_ollama_says_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    monkeypatch.setattr(service_requests, "INITIAL_BACKOFF_S", 0.01)
    with pytest.raises(ConnectionFailed, match="ollama: server unreachable: run `ollama serve`, or set OLLAMA_HOST"):
        EMBEDDERS.find("ollama")().embed_query("cat")


def test_an_unknown_ollama_model_gets_the_pull_command_as_a_hint(wire_of: Start) -> None:
    wire = wire_of("ollama", first_requests(9, Fault("status", 404, "model not found")))
    with pytest.raises(InvalidRequest, match="unknown model 'nomic-embed-text': run `ollama pull nomic-embed-text`"):
        wire.embedder().embed_query("cat")


def test_prompts_of_an_ollama_model_precede_texts_and_questions(wire_of: Start) -> None:
    wire = wire_of("ollama", no_faults)
    embedder = wire.embedder(document_prompt="d: ", query_prompt="q: ")
    embedder.embed_texts(["one"])
    embedder.embed_query("two")
    assert [request.texts for request in wire.server.requests] == [["d: one"], ["q: two"]]
    assert embedder.fingerprint != wire.embedder().fingerprint


def test_anthropic_embeddings_use_voyage() -> None:
    from ragkit.embed.voyage import AnthropicEmbeddingProvider, VoyageEmbeddingProvider

    assert AnthropicEmbeddingProvider is VoyageEmbeddingProvider

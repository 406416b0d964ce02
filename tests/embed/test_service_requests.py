"""Rate limits of requests, and translation of HTTP errors."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from ragkit.embed.service_options import OpenAIEmbeddingOptions, ServiceOptions
from ragkit.embed.service_requests import (
    BURST_WINDOW_S,
    RateLimiter,
    RequestExecutor,
    error_from_status,
    is_too_large,
    parse_retry_after,
    resolve_api_key,
)
from ragkit.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    InvalidOption,
    InvalidRequest,
    ProviderError,
    RateLimited,
    RequestTimeout,
)


class Clock:
    """A clock that advances on demand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_limits_nothing_waits() -> None:
    limiter = RateLimiter(0, 0, Clock())
    assert [limiter.reserve(10**9) for _ in range(100)] == [0.0] * 100


def test_requests_are_limited_after_a_short_burst() -> None:
    limiter = RateLimiter(60, 0, Clock())  # one per second, plus a burst
    waits = [limiter.reserve(1) for _ in range(8)]
    assert waits == pytest.approx([0, 0, 0, 0, 0, 0, 1, 2])
    assert BURST_WINDOW_S == 5


def test_tokens_are_limited() -> None:
    clock = Clock()
    limiter = RateLimiter(0, 600, clock)  # ten per second
    assert [limiter.reserve(50), limiter.reserve(100), limiter.reserve(10)] == pytest.approx([0, 0, 10])
    clock.now += 11
    assert limiter.reserve(10) == 0.0


def test_no_request_is_sent_while_the_service_asks_to_wait() -> None:
    clock = Clock()
    limiter = RateLimiter(0, 0, clock)
    limiter.pause(3)
    assert limiter.reserve(1) == pytest.approx(3)
    clock.now += 3
    assert (limiter.reserve(1), limiter.pause_remaining()) == (0.0, 0.0)


def test_a_retry_after_above_the_maximum_is_not_retried() -> None:
    def send() -> None:
        raise RateLimited("test", "come back tomorrow", retry_after=86_400)

    started_at = time.monotonic()
    with pytest.raises(RateLimited, match="come back tomorrow"):
        RequestExecutor("test", ServiceOptions()).execute(send, 1)
    assert time.monotonic() - started_at < 5


def test_backoff_doubles_up_to_a_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(RequestExecutor, "_sleep_unless_stopped", lambda self, seconds: waits.append(seconds))
    monkeypatch.setattr("ragkit.embed.service_requests.random.uniform", lambda low, high: high)

    def send() -> None:
        raise ConnectionFailed("test", "down")

    with pytest.raises(ConnectionFailed, match="down"):
        RequestExecutor("test", ServiceOptions(attempts=9)).execute(send, 1)
    assert [wait for wait in waits if wait] == [0.5, 1, 2, 4, 8, 16, 30, 30]


@pytest.mark.parametrize(
    ("status", "message", "kind", "expected"),
    [
        (401, "no", AuthenticationFailed, "x: the API key was rejected (no): check it"),
        (403, "no", AuthenticationFailed, "x: the API key was rejected (no): check it"),
        (429, "slow", RateLimited, "x: too many requests (slow)"),
        (429, "insufficient_quota", AuthenticationFailed, "x: the account has no credit left (insufficient_quota)"),
        (408, "slow", RequestTimeout, "x: the service timed out (slow)"),
        (500, "", ConnectionFailed, "x: the service failed with status 500 (no reason given)"),
        (503, "a\n b", ConnectionFailed, "x: the service failed with status 503 (a b)"),
        (404, "no model", InvalidRequest, "x: the request was rejected with status 404 (no model)"),
    ],
)
def test_an_http_status_becomes_a_ragkit_error(
    status: int, message: str, kind: type[ProviderError], expected: str
) -> None:
    error = error_from_status("x", status, message)
    assert (type(error), str(error), error.status) == (kind, expected, status)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "Retry-After": "9"}, 0.25),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_seconds(headers: dict[str, str], seconds: float | None) -> None:
    assert parse_retry_after(headers) == seconds


def test_retry_after_may_be_a_date() -> None:
    assert parse_retry_after({"Retry-After": formatdate(time.time() + 60, usegmt=True)}) == pytest.approx(60, abs=3)
    assert parse_retry_after({"Retry-After": formatdate(0, usegmt=True)}) == 0.0


@pytest.mark.parametrize(
    ("status", "message", "large"),
    [
        (413, "whatever", True),
        (400, "max 300000 tokens: too many", True),
        (400, "'input' exceeds the maximum context length", True),
        (422, "at most 96 texts", True),
        (400, "unknown parameter", False),
        (404, "too many models", False),
    ],
)
def test_a_batch_is_too_large_when_the_service_says_so(status: int, message: str, large: bool) -> None:
    error = error_from_status("x", status, message)
    assert isinstance(error, InvalidRequest)
    assert is_too_large(error) is large


def test_an_api_key_argument_takes_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONE_KEY", raising=False)
    monkeypatch.setenv("OTHER_KEY", "from-environment")
    assert resolve_api_key("x", "given", "ONE_KEY", "OTHER_KEY") == "given"
    assert resolve_api_key("x", None, "ONE_KEY", "OTHER_KEY") == "from-environment"
    assert resolve_api_key("x", None, "ONE_KEY", optional=True) == "none"
    with pytest.raises(AuthenticationFailed, match=r"^x: no API key: set ONE_KEY, or pass api_key$"):
        resolve_api_key("x", None, "ONE_KEY")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, r"embed.batch_size must be >= 1 \(got 0\)"),
        ({"attempts": 0}, r"embed.attempts must be >= 1 \(got 0\)"),
        ({"tokens_per_minute": -1}, r"embed.tokens_per_minute must be 0 \(no limit\) or greater \(got -1\)"),
        ({"timeout_s": 0.0}, r"embed.timeout_s must be > 0 \(got 0.0\)"),
        ({"dimensions": -1}, r"embed.dimensions must be 0 \(the model's default\) or greater \(got -1\)"),
        ({"model": ""}, r"embed.model must be the name of a model \(got ''\)"),
    ],
)
def test_options_out_of_range_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        OpenAIEmbeddingOptions(**options)  # type: ignore[arg-type]  # invalid types on purpose

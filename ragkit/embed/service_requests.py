"""Send requests to a service, with rate limits, retries and backoff.

Adapters disable the retries of the SDKs: nested retries would multiply.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from threading import Event, Lock, Semaphore
from typing import TypeVar

from ragkit.embed.embedding_job import STOP_EVENT
from ragkit.embed.service_options import ServiceOptions
from ragkit.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    InvalidRequest,
    ProviderError,
    RateLimited,
    RequestTimeout,
)
from ragkit.masking import is_valid_key, mask_secrets, register_secret

T = TypeVar("T")

INITIAL_BACKOFF_S = 0.5
"""Delay before the second attempt, in seconds; doubled for each further attempt."""
MAX_BACKOFF_S = 30.0
MAX_RETRY_AFTER_S = 300.0
"""No retry if the service asks to wait longer than this, in seconds."""
BURST_WINDOW_S = 5.0
"""Share of a per-minute limit that may be used at once, in seconds."""

_TOO_LARGE = re.compile(r"too (?:large|long|many|big)|maximum|exceed|at most|max[ _](?:allowed|tokens|batch)", re.I)
_QUOTA_EXCEEDED = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.I)


class RateLimiter:
    """Computes when the next request may be sent. Thread-safe."""

    def __init__(
        self, requests_per_minute: int, tokens_per_minute: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds_per_unit = [60 / limit if limit else 0.0 for limit in (requests_per_minute, tokens_per_minute)]
        self._clock = clock
        self._lock = Lock()
        self._next_free_at = [clock() - BURST_WINDOW_S] * 2
        self._paused_until = clock()

    def reserve(self, tokens: int) -> float:
        """Reserve a request with `tokens` tokens; returns the seconds to wait before sending it."""
        with self._lock:
            now = self._clock()
            wait = self._paused_until - now
            for place, cost in enumerate((1, tokens)):
                begin = max(self._next_free_at[place], now - BURST_WINDOW_S)
                wait = max(wait, begin - now)
                self._next_free_at[place] = begin + cost * self._seconds_per_unit[place]
            return max(0.0, wait)

    def pause(self, seconds: float) -> None:
        """Send no requests for `seconds`, as requested by the service."""
        with self._lock:
            self._paused_until = max(self._paused_until, self._clock() + seconds)

    def pause_remaining(self) -> float:
        """Seconds until requests may be sent again."""
        with self._lock:
            return max(0.0, self._paused_until - self._clock())


class RequestExecutor:
    """Sends requests to one service, with limited concurrency and retries."""

    def __init__(self, service: str, options: ServiceOptions) -> None:
        self._service, self._options = service, options
        self._rate_limiter = RateLimiter(options.requests_per_minute, options.tokens_per_minute)
        self._slots = Semaphore(options.concurrency)

    def execute(self, send: Callable[[], T], tokens: int) -> T:
        """Call `send` and return its result. `tokens` is the estimated size of the request.

        Raises:
            ProviderError: an error that is not retryable, or the error of the last attempt.
        """
        for attempt in range(1, self._options.attempts + 1):
            self._sleep_unless_stopped(self._rate_limiter.reserve(tokens))
            try:
                with self._slots:
                    return send()
            except ProviderError as error:
                if not error.retryable or attempt == self._options.attempts:
                    raise
                self._back_off(error, attempt)
        raise AssertionError("attempts is at least 1")

    def _back_off(self, error: ProviderError, attempt: int) -> None:
        after = error.retry_after if isinstance(error, RateLimited) else None
        if after is None:
            # jitter, so that requests that failed together are not retried together
            delay = min(MAX_BACKOFF_S, INITIAL_BACKOFF_S * 2 ** (attempt - 1))
            self._sleep_unless_stopped(random.uniform(0.5, 1) * delay)
            return
        if after > MAX_RETRY_AFTER_S:
            raise error
        self._rate_limiter.pause(after)
        self._sleep_unless_stopped(self._rate_limiter.pause_remaining() + random.uniform(0, 0.1))

    def _sleep_unless_stopped(self, seconds: float) -> None:
        stopped = STOP_EVENT.get() or Event()
        if stopped.wait(seconds) if seconds > 0 else stopped.is_set():
            raise ConnectionFailed(self._service, "cancelled: another request failed, or the run was stopped")


def error_from_status(
    service: str, status: int, message: str, headers: Mapping[str, str] | None = None
) -> ProviderError:
    """The ragkit error for an HTTP status >= 400. `message` is the error message of the service."""
    reason = " ".join(mask_secrets(message).split())[:500] or "no reason given"
    if status in {401, 403}:
        return AuthenticationFailed(service, f"the API key was rejected ({reason}): check it", status=status)
    if status == 429 and _QUOTA_EXCEEDED.search(reason):
        return AuthenticationFailed(service, f"the account has no credit left ({reason})", status=status)
    if status == 429:
        return RateLimited(service, f"too many requests ({reason})", retry_after=parse_retry_after(headers or {}))
    if status == 408:
        return RequestTimeout(service, f"the service timed out ({reason})", status=status)
    if status >= 500 or status == 409:
        return ConnectionFailed(service, f"the service failed with status {status} ({reason})", status=status)
    return InvalidRequest(service, f"the request was rejected with status {status} ({reason})", status=status)


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from the header `retry-after-ms` or `retry-after` (number or date); None without one."""
    values = {name.lower(): value.strip() for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        if re.fullmatch(r"\d+(\.\d+)?", values.get(name, "")):
            return float(values[name]) * unit
    try:
        return max(0.0, parsedate_to_datetime(values.get("retry-after", "")).timestamp() - time.time())
    except ValueError:
        return None


def is_too_large(error: InvalidRequest) -> bool:
    """Whether a smaller batch may succeed."""
    return error.status == 413 or (error.status in {400, 422} and _TOO_LARGE.search(error.message) is not None)


def resolve_api_key(service: str, given: str | None, *variables: str, optional: bool = False) -> str:
    """The API key of a service: the given one, or the first environment variable that is set.

    Args:
        service: used in messages.
        given: the key passed by the caller, if any.
        variables: names of environment variables.
        optional: return 'none' if there is no key, for servers without authentication.

    Raises:
        AuthenticationFailed: there is no key, or it contains invalid characters.
    """
    key = given or next((os.environ[name] for name in variables if os.environ.get(name)), "")
    key = key.strip()  # keys read from files often end with a line break
    if not key and not optional:
        raise AuthenticationFailed(service, f"no API key: set {' or '.join(variables)}, or pass api_key")
    if not is_valid_key(key):
        raise AuthenticationFailed(service, "the API key contains an invalid character: copy it again")
    register_secret(key)
    return key or "none"

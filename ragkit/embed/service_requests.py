"""Requests to a service: at its pace, again after a failure that may pass. Knows nothing of what is asked.

The SDKs' own retries are switched off where this is used: two of them in a row would multiply.
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
"""Before the second attempt; doubled for each one after it."""
MAX_BACKOFF_S = 30.0
MAX_RETRY_AFTER_S = 300.0
"""A service that says to come back later than this is not waited for."""
BURST_WINDOW_S = 5.0
"""Of a limit per minute so many seconds' worth may be used at once."""

_TOO_LARGE = re.compile(r"too (?:large|long|many|big)|maximum|exceed|at most|max[ _](?:allowed|tokens|batch)", re.I)
_QUOTA_EXCEEDED = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.I)


class RateLimiter:
    """When the next request may go out. Safe to use from many threads."""

    def __init__(
        self, requests_per_minute: int, tokens_per_minute: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds_per_unit = [60 / limit if limit else 0.0 for limit in (requests_per_minute, tokens_per_minute)]
        self._clock = clock
        self._lock = Lock()
        self._next_free_at = [clock() - BURST_WINDOW_S] * 2
        self._paused_until = clock()

    def reserve(self, tokens: int) -> float:
        """Take a place for a request with so many tokens: the seconds to wait before it is sent."""
        with self._lock:
            now = self._clock()
            wait = self._paused_until - now
            for place, cost in enumerate((1, tokens)):
                begin = max(self._next_free_at[place], now - BURST_WINDOW_S)
                wait = max(wait, begin - now)
                self._next_free_at[place] = begin + cost * self._seconds_per_unit[place]
            return max(0.0, wait)

    def pause(self, seconds: float) -> None:
        """Send nothing for so long: the service has said so."""
        with self._lock:
            self._paused_until = max(self._paused_until, self._clock() + seconds)

    def pause_remaining(self) -> float:
        """Seconds until the service may be asked again."""
        with self._lock:
            return max(0.0, self._paused_until - self._clock())


class RequestExecutor:
    """Sends requests to one service, so many at once, and again where that may help."""

    def __init__(self, service: str, options: ServiceOptions) -> None:
        self._service, self._options = service, options
        self._rate_limiter = RateLimiter(options.requests_per_minute, options.tokens_per_minute)
        self._slots = Semaphore(options.concurrency)

    def execute(self, send: Callable[[], T], tokens: int) -> T:
        """What `send` gives. `tokens` is about how many the request has.

        Raises:
            ProviderError: the service refused, or did so `attempts` times in a row.
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
            # jitter, so that requests that failed together do not come back together
            self._sleep_unless_stopped(
                random.uniform(0.5, 1) * min(MAX_BACKOFF_S, INITIAL_BACKOFF_S * 2 ** (attempt - 1))
            )
            return
        if after > MAX_RETRY_AFTER_S:
            raise error
        self._rate_limiter.pause(after)
        self._sleep_unless_stopped(self._rate_limiter.pause_remaining() + random.uniform(0, 0.1))

    def _sleep_unless_stopped(self, seconds: float) -> None:
        stopped = STOP_EVENT.get() or Event()
        if stopped.wait(seconds) if seconds > 0 else stopped.is_set():
            raise ConnectionFailed(self._service, "given up: another request failed, or the run was stopped")


def error_from_status(
    service: str, status: int, message: str, headers: Mapping[str, str] | None = None
) -> ProviderError:
    """The error of our tree for an HTTP status of 400 or above. `message` is what the service said."""
    said = " ".join(mask_secrets(message).split())[:500] or "no reason given"
    if status in {401, 403}:
        return AuthenticationFailed(service, f"the key was refused ({said}): check it", status=status)
    if status == 429 and _QUOTA_EXCEEDED.search(said):
        return AuthenticationFailed(service, f"the account has no money left ({said})", status=status)
    if status == 429:
        return RateLimited(service, f"too many requests ({said})", retry_after=parse_retry_after(headers or {}))
    if status == 408:
        return RequestTimeout(service, f"it gave up on the request ({said})", status=status)
    if status >= 500 or status == 409:
        return ConnectionFailed(service, f"it failed with status {status} ({said})", status=status)
    return InvalidRequest(service, f"it refused the request with status {status} ({said})", status=status)


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a service asks to wait, by its headers: a number or a date. None where it says nothing."""
    given = {name.lower(): value.strip() for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        if re.fullmatch(r"\d+(\.\d+)?", given.get(name, "")):
            return float(given[name]) * unit
    try:
        return max(0.0, parsedate_to_datetime(given.get("retry-after", "")).timestamp() - time.time())
    except ValueError:
        return None


def is_too_large(error: InvalidRequest) -> bool:
    """Whether fewer texts in one request would help."""
    return error.status == 413 or (error.status in {400, 422} and _TOO_LARGE.search(error.message) is not None)


def resolve_api_key(service: str, given: str | None, *variables: str, optional: bool = False) -> str:
    """The key of a service: as given, or from the first of the variables that is set.

    Args:
        service: for the message.
        given: by the caller, if at all.
        variables: of the environment.
        optional: the server that is asked may need none: 'none' then.

    Raises:
        AuthenticationFailed: there is none, or it cannot be one.
    """
    found = given or next((os.environ[name] for name in variables if os.environ.get(name)), "")
    found = found.strip()  # a key that was read from a file often ends with a line break
    if not found and not optional:
        raise AuthenticationFailed(service, f"no key is set: export {variables[0]}=...")
    if not is_valid_key(found):
        raise AuthenticationFailed(service, "the key has a character that no key has: copy it again")
    register_secret(found)
    return found or "none"

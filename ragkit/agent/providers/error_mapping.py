"""Map error responses of services to ProviderErrors, which say whether a retry can succeed.

Works on status codes and messages alone: no HTTP client, no vendor classes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from email.utils import parsedate_to_datetime
from typing import cast

from ragkit.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ContextTooLong,
    InvalidRequest,
    ModelNotFound,
    ProviderError,
    RagkitError,
    RateLimited,
    RequestTimeout,
    ToolsNotSupported,
    shorten,
)
from ragkit.masking import mask_secrets
from ragkit.usage.pricing import PriceBook

_FILE_ERRORS = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
"""OSErrors of files, not of connections."""
_PROGRAMMING_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    TypeError,
    ValueError,
    Warning,
)
MAX_MESSAGE_CHARS = 300
"""Characters of a service's message that are kept."""

_TOO_LONG = re.compile(
    r"context[ _](length|window|size|limit)|prompt is too long|input token count|input is too long|request too large",
    re.I,
)
_NO_TOOLS = re.compile(
    r"(?:tool|function)s?(?:[ _-]?(?:use|calls?|calling|choice|param))?\W{0,3}\b[^.\n]{0,60}"
    r"(?:not (?:yet )?supported|not support|unsupported|not enabled|requires? (?:the )?--)"
    r"|(?:not support|unsupported|no endpoints)[^.\n]{0,40}\b(?:tool|function)[ _-]?(?:s\b|use|call|choice)",
    re.I,
)
"""How services say that a model, a chat template or a server knows no tools."""
_TOKEN_LIMITS = (
    re.compile(r"context (?:length|window|size)\D{0,30}?([\d,]{3,})", re.I),
    re.compile(r"> ([\d,]{3,})", re.I),
    re.compile(r"tokens allowed \(([\d,]{3,})\)", re.I),
    re.compile(r"limit (?:of|is) ([\d,]{3,}) tokens", re.I),
)
"""Where services say the window in tokens."""
_MENTIONS_MODEL = re.compile(r"\bmodels?\b", re.I)
_MENTIONS_API_KEY = re.compile(r"\bapi[ _]key\b", re.I)
_NO_CREDIT_CODES = {"insufficient_quota", "billing_error", "billing_hard_limit_reached"}
_AUTHENTICATION_CODES = {
    "authentication_error",
    "permission_error",
    "invalid_api_key",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
}
_TRANSIENT_CODES = {"tool_use_failed"}
"""Error codes that a retry may fix: the model wrote a malformed call."""


@dataclass(frozen=True, slots=True)
class ServiceErrorResponse:
    """An error response of a service."""

    status: int | None
    """HTTP status; None for an error inside a stream."""
    message: str
    code: str = ""
    """The error code of the service, for example `context_length_exceeded`."""
    retry_after: float | None = None
    """Seconds until a retry, if the service says so."""

    @staticmethod
    def parse(status: int | None, body: object, headers: Mapping[str, str] | None = None) -> ServiceErrorResponse:
        """Parse the body of an error response: `{"error": {"message", "code" or "type" or "status"}}`, or text."""
        error = body.get("error", body) if isinstance(body, Mapping) else body
        retry_after = parse_retry_after(headers or {})
        if not isinstance(error, Mapping):
            return ServiceErrorResponse(status, _to_message(error), retry_after=retry_after)
        code = error.get("code") if isinstance(error.get("code"), str) else error.get("type") or error.get("status")
        retry_after = _parse_retry_info(error.get("details")) if retry_after is None else retry_after
        return ServiceErrorResponse(status, _to_message(error.get("message", error)), str(code or ""), retry_after)


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The target of a request, for error messages."""

    provider: str
    model: str
    host: str = field(default="", compare=False)
    """The URL."""


def to_provider_error(target: RequestTarget, refusal: ServiceErrorResponse) -> ProviderError:
    """The ProviderError for an error response."""
    return _permanent_error(target, refusal) or _transient_error(target, refusal)


def from_exception(provider: str, model: str, error: Exception) -> ProviderError | None:
    """The ProviderError for what a provider of the user raised; None for an error of the program, to be raised at once.

    Errors of the network, errors with an HTTP status (as those of SDKs have) and classes of errors that Python does not
    define itself are failures of the service. A plain RuntimeError says nothing of the service: it is the program's.
    """
    if isinstance(error, RagkitError):
        return error if isinstance(error, ProviderError) else None
    failure: ProviderError | None = None
    words = _to_message(str(error) or type(error).__name__)
    response = getattr(error, "response", None)
    statuses = (
        getattr(source, name, None) for source in (error, response) for name in ("status_code", "status", "code")
    )
    status = next((int(value) for value in statuses if isinstance(value, int) and 400 <= value < 600), None)
    if status is not None:
        headers = getattr(response, "headers", None)
        retry_after = parse_retry_after(headers) if isinstance(headers, Mapping) else None
        refusal = ServiceErrorResponse(status, words, retry_after=retry_after)
        failure = to_provider_error(RequestTarget(provider, model), refusal)
    elif isinstance(error, TimeoutError):
        failure = RequestTimeout(provider, words)
    elif isinstance(error, OSError):
        failure = None if isinstance(error, _FILE_ERRORS) else ConnectionFailed(provider, words)
    elif type(error).__module__ != "builtins" and not isinstance(error, _PROGRAMMING_ERRORS):
        failure = ConnectionFailed(provider, words)
    if failure is not None:
        failure.__cause__ = error
    return failure


def _permanent_error(target: RequestTarget, refusal: ServiceErrorResponse) -> ProviderError | None:
    """The error if the request or the account must change before a retry; None if it is unknown."""
    name, status, code, words = target.provider, refusal.status, refusal.code, refusal.message
    if code in _NO_CREDIT_CODES or status == 402:
        return AuthenticationFailed(name, f"the account has no credit: {words}", status=status)
    if status in {401, 403} or code in _AUTHENTICATION_CODES or (status == 400 and _MENTIONS_API_KEY.search(words)):
        return AuthenticationFailed(name, f"the API key was rejected: {words}", status=status)
    if status in {400, 404, 422, 500, 501, None} and _NO_TOOLS.search(words):
        return ToolsNotSupported(name, f"{target.model} knows no tools: {words}", status=status)
    if status == 413 or (status in {400, 422, None} and _TOO_LONG.search(f"{code} {words}")):
        hint = "send fewer or shorter messages, or choose a model with a larger context"
        error = ContextTooLong(name, f"too long for {target.model}: {words}: {hint}", status=status)
        error.limit = _read_token_limit(words)
        return error
    return _not_found_error(target, words) if status == 404 else None


def _read_token_limit(words: str) -> int | None:
    """The context window in the message of a service; None if it does not say it."""
    found = (pattern.search(words) for pattern in _TOKEN_LIMITS)
    return next((int(match[1].replace(",", "")) for match in found if match), None)


def _transient_error(target: RequestTarget, refusal: ServiceErrorResponse) -> ProviderError:
    """A retryable error if a retry may help; else an InvalidRequest."""
    name, status, code, words = target.provider, refusal.status, refusal.code, refusal.message
    if status == 429 or "rate_limit" in code or (status in {503, 529} and refusal.retry_after is not None):
        return RateLimited(name, words, status=status, retry_after=refusal.retry_after)
    if status in {408, 504}:
        return RequestTimeout(name, words, status=status)
    if status is None or status >= 500 or status == 409 or code in _TRANSIENT_CODES:
        return ConnectionFailed(name, words, status=status)
    return InvalidRequest(name, words, status=status)


def _not_found_error(target: RequestTarget, words: str) -> ProviderError:
    if not _MENTIONS_MODEL.search(words):
        hint = f"is {target.host} the address of its API?" if target.host else "is its address right?"
        return InvalidRequest(target.provider, f"not found ({words}): {hint}", status=404)
    if target.provider == "ollama":
        return ModelNotFound("ollama", f"has no model {target.model!r}: ollama pull {target.model}", status=404)
    similar = suggest_models(target.provider, target.model)
    hint = f" (did you mean {' or '.join(map(repr, similar))}?)" if similar else ""
    return ModelNotFound(target.provider, f"has no model {target.model!r}{hint}: {words}", status=404)


def suggest_models(provider: str, model: str) -> list[str]:
    """At most two names similar to `model`, among the priced models of the service."""
    known = [info.model for info in PriceBook().models() if info.provider == provider and info.model != model]
    return get_close_matches(model, known, n=2, cutoff=0.7)


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` (seconds or a date, RFC 9110); None without them."""
    for name, per_second in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if not value:
            continue
        try:
            return max(0.0, float(value) / per_second)
        except ValueError:
            return _seconds_until(value)
    return None


def _seconds_until(date: str) -> float | None:
    try:
        retry_at = parsedate_to_datetime(date)
    except ValueError:
        return None
    return max(0.0, (retry_at.astimezone(UTC) - datetime.now(UTC)).total_seconds())


def _parse_retry_info(details: object) -> float | None:
    """Google's services put the delay into the body: `{"@type": ".../google.rpc.RetryInfo", "retryDelay": "13s"}`."""
    for detail in details if isinstance(details, list) else []:
        delay = cast("object", detail.get("retryDelay")) if isinstance(detail, Mapping) else None
        if isinstance(delay, str) and re.fullmatch(r"[\d.]+s", delay):
            return float(delay[:-1])
    return None


def _to_message(words: object) -> str:
    text = " ".join(mask_secrets(str(words or "no reason given")).split())  # before truncating the text
    return shorten(text, MAX_MESSAGE_CHARS)

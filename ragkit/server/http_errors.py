"""Error responses in OpenAI's format, without tracebacks or messages of model providers.

The log has the details, under the request id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ragkit import errors
from ragkit.errors import RagkitError
from ragkit.records import JSON

NO_RETRY_HEADERS = {"x-should-retry": "false"}
"""Tells OpenAI's clients not to retry: it would fail, or cost the same, again."""


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """Status, body and headers of an error response."""

    status: int
    message: str
    code: str
    type: str = "invalid_request_error"
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, JSON]:
        """The body, in OpenAI's format."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}

    def encode(self) -> bytes:
        """The bytes of the body."""
        return json.dumps(self.to_json()).encode()


class RequestRejected(RagkitError):
    """A request that gets an error response."""

    def __init__(self, response: ErrorResponse) -> None:
        super().__init__(response)
        self.response = response

    def __str__(self) -> str:
        return self.response.message


def invalid_request(
    message: str, param: str | None = None, code: str = "invalid_value", status: int = 400
) -> RequestRejected:
    """The error for an invalid request; 409 responses tell clients not to retry."""
    headers = NO_RETRY_HEADERS if status == 409 else {}
    return RequestRejected(ErrorResponse(status, message, code, param=param, headers=headers))


def not_found(what: str, code: str = "not_found") -> RequestRejected:
    """A 404 error: `{what} not found`."""
    return RequestRejected(ErrorResponse(404, f"{what} not found", code))


def service_unavailable(message: str, seconds: int = 5) -> RequestRejected:
    """A 503 error; clients may retry after `seconds`."""
    headers = {"retry-after": str(seconds)}
    return RequestRejected(ErrorResponse(503, message, "overloaded", "server_error", headers=headers))


def disk_full() -> RequestRejected:
    """The 507 error for a disk without room."""
    return RequestRejected(ErrorResponse(507, "the disk of the server is full", "disk_full", "server_error"))


def _rate_limit_response(error: Exception) -> ErrorResponse:
    wait = error.retry_after if isinstance(error, errors.RateLimited) else None
    headers = {"retry-after": str(max(1, round(wait)))} if wait else {}
    message = "the rate limit of the model provider was reached: retry later"
    return ErrorResponse(429, message, "provider_rate_limited", "rate_limit_error", headers=headers)


def _budget_response(error: Exception) -> ErrorResponse:
    if isinstance(error, errors.BudgetExceeded) and error.unit == "seconds":
        message = "the answer exceeded the time limit of this server"
        return ErrorResponse(504, message, "timeout", "server_error", headers=NO_RETRY_HEADERS)
    message = "the answer exceeds the cost limit of this server"
    return ErrorResponse(402, message, "budget_exceeded", "budget_error", headers=NO_RETRY_HEADERS)


def _unsupported_response(error: Exception) -> ErrorResponse:
    return ErrorResponse(422, str(error), "unsupported_answer", "server_error", headers=NO_RETRY_HEADERS)


def _bad_request_response(error: Exception) -> ErrorResponse:
    return ErrorResponse(400, str(error), "invalid_value")


def _fixed_response(status: int, message: str, code: str) -> Callable[[Exception], ErrorResponse]:
    return lambda _: ErrorResponse(status, message, code, "server_error")


_RESPONSES: tuple[tuple[type[Exception], Callable[[Exception], ErrorResponse]], ...] = (
    (errors.RateLimited, _rate_limit_response),
    (errors.RequestTimeout, _fixed_response(504, "the model provider timed out", "provider_timeout")),
    (
        errors.AuthenticationFailed,
        _fixed_response(502, "the model provider rejected the API key of this server", "provider_refused"),
    ),
    (
        errors.ContextTooLong,
        lambda _: ErrorResponse(
            400, "the conversation exceeds the context window of the model", "context_length_exceeded"
        ),
    ),
    (errors.ProviderError, _fixed_response(502, "the model provider failed", "provider_failed")),
    (errors.BudgetExceeded, _budget_response),
    (errors.PriceUnknown, _budget_response),
    (errors.GuardrailBlocked, lambda _: ErrorResponse(400, "blocked by a guardrail of this server", "content_filter")),
    (errors.UnsupportedAnswer, _unsupported_response),
    (errors.RunCancelled, _fixed_response(503, "the answer was cancelled", "cancelled")),
    (errors.RunError, _fixed_response(502, "the model gave no answer in the requested format", "no_answer")),
    (
        errors.KnowledgeBaseError,
        _fixed_response(503, "the knowledge base is not available", "knowledge_base_unavailable"),
    ),
    (errors.InvalidFilter, _bad_request_response),
    (errors.InvalidOption, _bad_request_response),
    (errors.UnknownName, _bad_request_response),
)


def to_error_response(error: Exception) -> ErrorResponse:
    """The error response for an exception."""
    if isinstance(error, RequestRejected):
        return error.response
    for kind, make in _RESPONSES:
        if isinstance(error, kind):
            return make(error)
    return ErrorResponse(500, "internal server error: see the log of the server", "internal_error", "server_error")

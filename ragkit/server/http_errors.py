"""What a client is told when something is wrong: one shape, OpenAI's, with no traceback and no word of a service.

The log has the whole story under the request's id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ragkit.errors import (
    AuthenticationFailed,
    BudgetExceeded,
    ContextTooLong,
    GuardrailBlocked,
    InvalidFilter,
    InvalidOption,
    KnowledgeBaseError,
    PriceUnknown,
    ProviderError,
    RagkitError,
    RateLimited,
    RequestTimeout,
    RunCancelled,
    RunError,
    UnknownName,
)
from ragkit.records import JSON

NO_RETRY_HEADERS = {"x-should-retry": "false"}
"""Tells OpenAI's clients that asking again will not help, or would cost the same again."""


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """What is answered instead of what was asked for."""

    status: int
    message: str
    code: str
    type: str = "invalid_request_error"
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, JSON]:
        """OpenAI's shape."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


class RequestRejected(RagkitError):
    """A request that is answered with a fault."""

    def __init__(self, fault: ErrorResponse) -> None:
        super().__init__(fault)
        self.response = fault

    def __str__(self) -> str:
        return self.response.message


def invalid_request(
    message: str, param: str | None = None, code: str = "invalid_value", status: int = 400
) -> RequestRejected:
    """The request itself is wrong."""
    return RequestRejected(
        ErrorResponse(status, message, code, param=param, headers=NO_RETRY_HEADERS if status == 409 else {})
    )


def not_found(what: str, code: str = "not_found") -> RequestRejected:
    """There is no such thing."""
    return RequestRejected(ErrorResponse(404, f"there is no such {what}", code))


def service_unavailable(message: str, seconds: int = 5) -> RequestRejected:
    """Too much at once: ask again later."""
    return RequestRejected(
        ErrorResponse(503, message, "overloaded", "server_error", headers={"retry-after": str(seconds)})
    )


def _rate_limit_response(error: Exception) -> ErrorResponse:
    wait = error.retry_after if isinstance(error, RateLimited) else None
    headers = {"retry-after": str(max(1, round(wait)))} if wait else {}
    return ErrorResponse(429, "the model's service takes no more requests now: ask again later", "provider_rate_limited",
                 "rate_limit_error", headers=headers)  # fmt: skip


def _budget_response(error: Exception) -> ErrorResponse:
    if isinstance(error, BudgetExceeded) and error.unit == "seconds":
        return ErrorResponse(
            504, "the answer took longer than this server allows", "timeout", "server_error", headers=NO_RETRY_HEADERS
        )
    message = "the answer would cost, or has cost, more than this server allows for one"
    return ErrorResponse(402, message, "budget_exceeded", "budget_error", headers=NO_RETRY_HEADERS)


def _bad_request_response(error: Exception) -> ErrorResponse:
    return ErrorResponse(400, str(error), "invalid_value")


def _fixed_response(status: int, message: str, code: str) -> Callable[[Exception], ErrorResponse]:
    return lambda _: ErrorResponse(status, message, code, "server_error")


_RESPONSES: tuple[tuple[type[Exception], Callable[[Exception], ErrorResponse]], ...] = (
    (RateLimited, _rate_limit_response),
    (RequestTimeout, _fixed_response(504, "the model's service did not answer in time", "provider_timeout")),
    (
        AuthenticationFailed,
        _fixed_response(502, "the model's service does not take this server's key", "provider_refused"),
    ),
    (
        ContextTooLong,
        lambda _: ErrorResponse(400, "the conversation is longer than the model takes", "context_length_exceeded"),
    ),
    (ProviderError, _fixed_response(502, "the model's service failed", "provider_failed")),
    (BudgetExceeded, _budget_response),
    (PriceUnknown, _budget_response),
    (GuardrailBlocked, lambda _: ErrorResponse(400, "a rule of this server refuses that", "content_filter")),
    (RunCancelled, _fixed_response(503, "the answer was stopped", "cancelled")),
    (RunError, _fixed_response(502, "no answer could be made in the form that was asked for", "no_answer")),
    (
        KnowledgeBaseError,
        _fixed_response(503, "the knowledge base cannot be searched now", "knowledge_base_unavailable"),
    ),
    (InvalidFilter, _bad_request_response),
    (InvalidOption, _bad_request_response),
    (UnknownName, _bad_request_response),
)


def to_error_response(error: Exception) -> ErrorResponse:
    """What a client is told of an error."""
    if isinstance(error, RequestRejected):
        return error.response
    for kind, make in _RESPONSES:
        if isinstance(error, kind):
            return make(error)
    return ErrorResponse(500, "something went wrong here; the server's log says more", "internal_error", "server_error")

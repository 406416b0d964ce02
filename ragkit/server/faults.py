"""What a client is told when something is wrong: one shape, OpenAI's, with no traceback and no word of a service.

The log has the whole story under the request's id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ragkit.errors import (
    AuthenticationFailed,
    BudgetExceeded,
    Cancelled,
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
    RunError,
    UnknownName,
)
from ragkit.records import JSON

NO_RETRY = {"x-should-retry": "false"}
"""Tells OpenAI's clients that asking again will not help, or would cost the same again."""


@dataclass(frozen=True, slots=True)
class Fault:
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


class Refused(RagkitError):
    """A request that is answered with a fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault

    def __str__(self) -> str:
        return self.fault.message


def refuse(message: str, param: str | None = None, code: str = "invalid_value", status: int = 400) -> Refused:
    """The request itself is wrong."""
    return Refused(Fault(status, message, code, param=param, headers=NO_RETRY if status == 409 else {}))


def not_found(what: str, code: str = "not_found") -> Refused:
    """There is no such thing."""
    return Refused(Fault(404, f"there is no such {what}", code))


def overloaded(message: str, seconds: int = 5) -> Refused:
    """Too much at once: ask again later."""
    return Refused(Fault(503, message, "overloaded", "server_error", headers={"retry-after": str(seconds)}))


def _rate_limited(error: Exception) -> Fault:
    wait = error.retry_after if isinstance(error, RateLimited) else None
    headers = {"retry-after": str(max(1, round(wait)))} if wait else {}
    return Fault(429, "the model's service takes no more requests now: ask again later", "provider_rate_limited",
                 "rate_limit_error", headers=headers)  # fmt: skip


def _budget(error: Exception) -> Fault:
    if isinstance(error, BudgetExceeded) and error.what == "seconds":
        return Fault(504, "the answer took longer than this server allows", "timeout", "server_error", headers=NO_RETRY)
    message = "the answer would cost, or has cost, more than this server allows for one"
    return Fault(402, message, "budget_exceeded", "budget_error", headers=NO_RETRY)


def _wrong(error: Exception) -> Fault:
    return Fault(400, str(error), "invalid_value")


def _service(status: int, message: str, code: str) -> Callable[[Exception], Fault]:
    return lambda _: Fault(status, message, code, "server_error")


_KINDS: tuple[tuple[type[Exception], Callable[[Exception], Fault]], ...] = (
    (RateLimited, _rate_limited),
    (RequestTimeout, _service(504, "the model's service did not answer in time", "provider_timeout")),
    (AuthenticationFailed, _service(502, "the model's service does not take this server's key", "provider_refused")),
    (
        ContextTooLong,
        lambda _: Fault(400, "the conversation is longer than the model takes", "context_length_exceeded"),
    ),
    (ProviderError, _service(502, "the model's service failed", "provider_failed")),
    (BudgetExceeded, _budget),
    (PriceUnknown, _budget),
    (GuardrailBlocked, lambda _: Fault(400, "a rule of this server refuses that", "content_filter")),
    (Cancelled, _service(503, "the answer was stopped", "cancelled")),
    (RunError, _service(502, "no answer could be made in the form that was asked for", "no_answer")),
    (KnowledgeBaseError, _service(503, "the knowledge base cannot be searched now", "knowledge_base_unavailable")),
    (InvalidFilter, _wrong),
    (InvalidOption, _wrong),
    (UnknownName, _wrong),
)


def fault_of(error: Exception) -> Fault:
    """What a client is told of an error."""
    if isinstance(error, Refused):
        return error.fault
    for kind, make in _KINDS:
        if isinstance(error, kind):
            return make(error)
    return Fault(500, "something went wrong here; the server's log says more", "internal_error", "server_error")

"""Every error that ragkit raises on purpose.

RagkitError
├── MissingExtra                  an optional dependency is not installed (also an ImportError)
├── UnknownName                   a name that is not registered (also a ValueError)
│   └── UnknownModel              a model that is not in the price data
├── InvalidOption                 an option with a value out of range (also a ValueError)
│   └── InvalidType               an argument of a wrong type (also a TypeError)
├── PipelineError                 an invalid file of settings, with every problem in it
├── LoadError                     a file that cannot be parsed
│   ├── UnsupportedFormat         no loader for this format
│   └── LoadLimitExceeded         a limit of time, memory or size was exceeded
├── DimensionMismatch             embedding and store have different dimensions
├── InvalidVector                 a vector that is not finite, or not of length 1
├── InvalidFilter                 a filter with an unknown operator, a wrong type or a syntax error
├── KnowledgeBaseError            a knowledge base that cannot be used
│   ├── NotAKnowledgeBase         the directory holds no knowledge base
│   ├── SettingsMismatch          it was built with different settings
│   ├── KnowledgeBaseDamaged      a file is missing, truncated or altered
│   ├── KnowledgeBaseWriteFailed  the disk is full, read-only or failing
│   ├── KnowledgeBaseLocked       another process is writing to it
│   └── DatabaseFailed            the database that holds it is unreachable or rejected a request
├── WorkerError                   a worker of an index run failed
├── StoreError                    a vector store rejected a request or is unreachable
├── ProviderError                 a model service rejected a request or is unreachable
│   ├── AuthenticationFailed
│   ├── RateLimited
│   ├── RequestTimeout
│   ├── ConnectionFailed
│   └── InvalidRequest
│       ├── ModelNotFound
│       ├── ContextTooLong
│       └── ToolsNotSupported
├── BudgetExceeded                a limit of cost, tokens or time was reached
│   └── BudgetTooSmall            the estimate exceeds the limit; nothing was spent
├── PriceUnknown                  a cost limit was set, but the price is unknown
├── InvalidToolArguments          a model called a tool with arguments that its schema does not allow
├── ToolTimeout                   a tool exceeded its timeout
├── ToolRefused                   a tool call was rejected
├── UnsupportedAnswer             the documents do not support an answer, and `strict` is set
└── RunError                      an agent run ended without an answer; holds its partial result
    ├── RunCancelled
    ├── GuardrailBlocked
    ├── HandoffFailed
    └── ToolCallLoop
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from math import floor, log10

from ragkit.distribution import install_command
from ragkit.masking import mask_secrets


def format_amount(amount: float) -> str:
    """A number without an exponent: `0.00052`, `1.25`, `0`; small numbers with two significant digits."""
    if amount == 0 or abs(amount) >= 1e-3:
        return f"{amount:.6g}" if abs(amount) < 1e6 else f"{amount:.0f}"
    return f"{amount:.{1 - floor(log10(abs(amount)))}f}".rstrip("0")


def closest_match(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word closest to `word`, ignoring case, or None."""
    lowered = {name.lower(): name for name in known}
    close = get_close_matches(str(word).lower(), list(lowered), n=1, cutoff=cutoff)
    return lowered[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """` (did you mean 'x'?)`, or '' if no known word is close."""
    near = closest_match(word, known, cutoff)
    return f" (did you mean {near!r}?)" if near else ""


def shorten(text: str, limit: int) -> str:
    """The text, cut to `limit` characters with `...` at the end if it is longer."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


class RagkitError(Exception):
    """Base class of all errors of ragkit. The command line and the server catch it; the library does not."""


class MissingExtra(RagkitError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(feature, extra)
        self.feature, self.extra = feature, extra

    def __str__(self) -> str:
        return f"{self.feature} needs an optional dependency: {install_command(self.extra)}"


class UnknownName(RagkitError, ValueError):
    """A name that is not registered. `kind` says of what: store, loader, model; `known` are the valid names."""

    def __init__(self, kind: str, name: str, known: Sequence[str]) -> None:
        super().__init__(kind, name, tuple(known))
        self.kind, self.name, self.known = kind, name, tuple(known)

    def __str__(self) -> str:
        hint = did_you_mean(self.name, self.known)
        return f"unknown {self.kind} {self.name!r}{hint}; available: {', '.join(self.known)}"


class UnknownModel(UnknownName):
    """A model that is not in the price data. `known` holds the closest names only: there are thousands."""

    def __init__(self, name: str, near: Sequence[str]) -> None:
        super().__init__("model", name, near)
        self.args = (name, tuple(near))

    def __str__(self) -> str:
        near = f" (did you mean {', '.join(map(repr, self.known))}?)" if self.known else ""
        return f"unknown model {self.name!r}{near}: `ragkit models --all` lists all models"


class InvalidOption(RagkitError, ValueError):
    """An option with an invalid value. `expected` completes the sentence "OPTION must be ..."."""

    def __init__(self, option: str, value: object, expected: str) -> None:
        super().__init__(option, value, expected)
        self.option, self.value, self.expected = option, value, expected

    def __str__(self) -> str:
        return f"{self.option} must be {self.expected} (got {self.value!r})"


class InvalidType(InvalidOption, TypeError):
    """An argument of a wrong type. `option` names it, `expected` the types that are allowed."""

    def __str__(self) -> str:
        got = f"{type(self.value).__name__}: {shorten(repr(self.value), 80)}"
        return f"{self.option} must be {self.expected} (got {got})"


class PipelineError(RagkitError):
    """An invalid pipeline file, or another file of settings: of a grid, of prices, of a benchmark.

    `problems` holds one line for each problem: `file:line:column: ...`.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(tuple(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


class LoadError(RagkitError):
    """A file that cannot be parsed. `hint` says what the user can do."""

    def __init__(self, source: str, reason: str, hint: str = "") -> None:
        super().__init__(source, reason, hint)
        self.source, self.reason, self.hint = source, reason, hint

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}" + (f": {self.hint}" if self.hint else "")


class UnsupportedFormat(LoadError):
    """A file in a format without a loader."""


class LoadLimitExceeded(LoadError):
    """A file that exceeded a limit of time, memory or size while it was parsed."""


class DimensionMismatch(RagkitError):
    """Embedding and store have different dimensions."""

    def __init__(self, got: int, expected: int) -> None:
        super().__init__(got, expected)
        self.got, self.expected = got, expected

    def __str__(self) -> str:
        return (
            f"embedding dimension mismatch: the store has {self.expected}, got {self.got}: "
            "use the embedder that the index was built with, or rebuild the index"
        )


class InvalidVector(RagkitError):
    """A vector that is not finite, or not of length 1."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(row, reason)
        self.row, self.reason = row, reason

    def __str__(self) -> str:
        return f"vector {self.row} {self.reason}: vectors must be finite and of length 1"


class InvalidFilter(RagkitError):
    """A filter with an unknown operator, a wrong type or a syntax error."""


class KnowledgeBaseError(RagkitError):
    """A knowledge base that cannot be used."""


class NotAKnowledgeBase(KnowledgeBaseError):
    """The directory does not exist, or holds no knowledge base."""

    def __init__(self, path: str, reason: str, hint: str) -> None:
        super().__init__(path, reason, hint)
        self.path, self.reason, self.hint = path, reason, hint

    def __str__(self) -> str:
        return f"{self.path} {self.reason}: {self.hint}"


class SettingsMismatch(KnowledgeBaseError):
    """The knowledge base was built with settings that differ from those of the pipeline."""

    def __init__(self, path: str, differences: Sequence[str], fix: str) -> None:
        super().__init__(path, tuple(differences), fix)
        self.path, self.differences, self.fix = path, tuple(differences), fix

    def __str__(self) -> str:
        return f"{self.path} was built with different settings ({'; '.join(self.differences)}): run {self.fix}"


class KnowledgeBaseDamaged(KnowledgeBaseError):
    """A file of the knowledge base is missing, truncated, altered or belongs to another one."""

    def __init__(self, path: str, reason: str, fix: str) -> None:
        """`fix`: what to do, as an instruction. It begins with the command in backticks if there is one."""
        super().__init__(path, reason, fix)
        self.path, self.reason, self.fix = path, reason, fix

    def __str__(self) -> str:
        return f"{self.path} {self.reason}: {'run ' if self.fix.startswith('`') else ''}{self.fix}"


class KnowledgeBaseWriteFailed(KnowledgeBaseError):
    """The disk is full, read-only or failing. What was recorded before is kept."""

    def __init__(self, path: str, reason: str, hint: str) -> None:
        super().__init__(path, reason, hint)
        self.path, self.reason, self.hint = path, reason, hint

    def __str__(self) -> str:
        return f"{self.path} cannot be written ({self.reason}): {self.hint}"


class KnowledgeBaseLocked(KnowledgeBaseError):
    """Another process is writing to the knowledge base."""

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(path, holder)
        self.path, self.holder = path, holder

    def __str__(self) -> str:
        return f"{self.path} is locked by {self.holder}: wait until it finishes, or stop it"


class DatabaseFailed(KnowledgeBaseError):
    """The database of a knowledge base is unreachable, or rejected a request."""

    def __init__(self, path: str, reason: str, hint: str) -> None:
        reason = mask_secrets(reason)
        super().__init__(path, reason, hint)
        self.path, self.reason, self.hint = path, reason, hint

    def __str__(self) -> str:
        return f"{self.path} cannot be used ({self.reason}): {self.hint}"


class WorkerError(RagkitError):
    """A worker of an index run cannot be started or reached, or died repeatedly."""


class StoreError(RagkitError):
    """A vector store rejected a request or is unreachable."""

    def __init__(self, message: str) -> None:
        super().__init__(mask_secrets(message))


class ProviderError(RagkitError):
    """A model service rejected a request or is unreachable.

    `retryable` says whether the same request may succeed later.
    """

    retryable = False
    failed_in_chain: frozenset[int] = frozenset()
    """If a fallback chain failed in mid-stream and has another provider: those that failed, by index."""

    def __init__(self, provider: str, message: str, *, status: int | None = None) -> None:
        message = mask_secrets(message)
        super().__init__(provider, message)
        self.provider, self.message, self.status = provider, message, status

    def __str__(self) -> str:
        return f"{self.provider}: {self.message}"


class AuthenticationFailed(ProviderError):
    """The API key is missing, invalid or lacks a permission."""


class RateLimited(ProviderError):
    """Too many requests. `retry_after` is in seconds, or None if the service does not say."""

    retryable = True

    def __init__(
        self, provider: str, message: str, *, status: int | None = 429, retry_after: float | None = None
    ) -> None:
        super().__init__(provider, message, status=status)
        self.retry_after = retry_after


class RequestTimeout(ProviderError):
    """No response within the timeout."""

    retryable = True


class ConnectionFailed(ProviderError):
    """The service is unreachable, dropped the connection, or answered with a 5xx status."""

    retryable = True


class InvalidRequest(ProviderError):
    """The service rejected the request as invalid; a retry cannot succeed."""


class ModelNotFound(InvalidRequest):
    """The service has no model of this name, or the key has no access to it."""


class ToolsNotSupported(InvalidRequest):
    """The model, its template or its server knows no tools. The agent asks again without them."""


class ContextTooLong(InvalidRequest):
    """The messages exceed the context window of the model."""

    limit: int | None = None
    """The window in tokens, if the service says it."""


class BudgetExceeded(RagkitError):
    """A limit of cost, tokens or time was reached. `unit` is USD, tokens or seconds."""

    def __init__(self, unit: str, spent: float, limit: float) -> None:
        super().__init__(unit, spent, limit)
        self.unit, self.spent, self.limit = unit, spent, limit

    def __str__(self) -> str:
        limit, spent = format_amount(self.limit), format_amount(self.spent)
        return f"budget of {limit} {self.unit} exceeded ({spent} spent): raise the limit to continue"


class BudgetTooSmall(BudgetExceeded):
    """The estimated cost exceeds the budget; nothing was spent. `estimate` and `limit` are in USD."""

    def __init__(self, estimate: float, limit: float) -> None:
        super().__init__("USD", 0.0, limit)
        self.args = (estimate, limit)
        self.estimate = estimate

    def __str__(self) -> str:
        return (
            f"estimated cost of {format_amount(self.estimate)} USD exceeds the budget of "
            f"{format_amount(self.limit)} USD: nothing was spent; raise the limit to continue"
        )


class PriceUnknown(RagkitError):
    """A cost limit was set, but the price is unknown, so the limit cannot be enforced."""

    def __init__(self, what: str, limit: float) -> None:
        super().__init__(what, limit)
        self.what, self.limit = what, limit

    def __str__(self) -> str:
        return (
            f"the price of {self.what} is unknown, so a budget of {format_amount(self.limit)} USD cannot be enforced: "
            "add the price to configs/prices.yaml, or remove the budget"
        )


class InvalidToolArguments(RagkitError):
    """A model called a tool with invalid arguments. `problems` has one line for each problem."""

    def __init__(self, tool: str, problems: Sequence[str]) -> None:
        super().__init__(tool, tuple(problems))
        self.tool, self.problems = tool, tuple(problems)

    def __str__(self) -> str:
        return f"invalid arguments for {self.tool}: {'; '.join(self.problems)}"


class ToolTimeout(RagkitError):
    """A tool exceeded its timeout; the run no longer waits for it."""

    def __init__(self, tool: str, seconds: float) -> None:
        super().__init__(tool, seconds)
        self.tool, self.seconds = tool, seconds

    def __str__(self) -> str:
        return f"{self.tool} did not answer within {self.seconds:g} seconds"


class ToolRefused(RagkitError):
    """A tool call was rejected by a guardrail, the policy, the user or the coherence check."""


class UnsupportedAnswer(RagkitError):
    """The documents do not support an answer, and `strict` is set. `reasons` has one line each."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__(tuple(reasons))
        self.reasons = tuple(reasons)

    def __str__(self) -> str:
        return f"the documents do not support the answer: {'; '.join(self.reasons)}"


class RunError(RagkitError):
    """An agent run ended without an answer. `partial` is an AgentResult with what it had, or None."""

    def __init__(self, message: str, partial: object = None) -> None:
        super().__init__(message, partial)
        self.message, self.partial = message, partial

    def __str__(self) -> str:
        return self.message


class RunCancelled(RunError):
    """The caller cancelled the run."""


class GuardrailBlocked(RunError):
    """A guardrail blocked the input or the output."""


class HandoffFailed(RunError):
    """A handoff to another agent failed."""


class ToolCallLoop(RunError):
    """The model repeated a tool call that had the same result before."""

"""Every error that ragkit raises on purpose.

RagkitError
├── MissingExtra          an optional dependency is not installed (also an ImportError)
├── UnknownName           a name that no registry holds
│   └── UnknownModel      a model that nothing is known of
├── InvalidOption         an option with a value that its part does not take
├── PipelineError         a pipeline file that cannot be used; holds every problem found in it
├── LoadError             a file that no text can be taken from
│   ├── UnsupportedFormat its format has no loader
│   └── LoadLimitExceeded         it went over a limit of time, memory or size
├── DimensionMismatch     vectors of one width met a store of another
├── InvalidVector         a vector that is not finite, or not of length 1
├── InvalidFilter         a filter with an unknown operator, a wrong type or a syntax error
├── KnowledgeBaseError    a knowledge base that cannot be used as it is
│   ├── NotAKnowledgeBase nothing there, or something else
│   ├── SettingsMismatch  it was built with other settings than were asked for
│   ├── Damaged           a file of it is missing, cut short, foreign or altered
│   ├── KnowledgeBaseWriteFailed       its disk is full, fails, or may not be written to
│   └── Locked            another process is writing to it
├── WorkerError           a worker of an index run cannot be started or reached, or was lost again and again
├── StoreError            a vector store refused or cannot be reached
├── ProviderError         a model's service refused or cannot be reached
│   ├── AuthenticationFailed
│   ├── RateLimited
│   ├── RequestTimeout
│   ├── ConnectionFailed
│   └── InvalidRequest
│       ├── ModelNotFound
│       └── ContextTooLong
├── BudgetExceeded        a limit of money, tokens or seconds was reached
│   └── BudgetTooSmall    it would be: nothing was spent
├── PriceUnknown          a budget was set for something whose price is not known
└── RunError              an agent run that ended without an answer; holds what it had
    ├── Cancelled
    ├── GuardrailBlocked
    └── HandoffFailed
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from math import floor, log10

from ragkit.masking import mask_secrets


def format_amount(amount: float) -> str:
    """A number without an exponent, however small: `0.00052`, `1.25`, `0`; small ones with two digits that count."""
    if amount == 0 or abs(amount) >= 1e-3:
        return f"{amount:.6g}" if abs(amount) < 1e6 else f"{amount:.0f}"
    return f"{amount:.{1 - floor(log10(abs(amount)))}f}".rstrip("0")


def closest_match(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word that `word` was most likely meant to be, or None. Upper and lower case count as equal."""
    lowered = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), list(lowered), n=1, cutoff=cutoff)
    return lowered[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """` (did you mean 'x'?)`, or nothing when no known word is near."""
    near = closest_match(word, known, cutoff)
    return f" (did you mean {near!r}?)" if near else ""


class RagkitError(Exception):
    """The root of the tree. The command line and the server catch it; the library does not."""


class MissingExtra(RagkitError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(what, extra)
        self.feature, self.extra = what, extra

    def __str__(self) -> str:
        return f"{self.feature} needs an optional dependency: pip install 'ragkit[{self.extra}]'"


class UnknownName(RagkitError):
    """A name that no registry holds."""

    def __init__(self, kind: str, name: str, known: Sequence[str]) -> None:
        super().__init__(kind, name, tuple(known))
        self.kind, self.name, self.known = kind, name, tuple(known)

    def __str__(self) -> str:
        article = "an" if self.kind[:1] in "aeiou" else "a"
        hint = did_you_mean(self.name, self.known)
        return f"{self.name!r} is not the name of {article} {self.kind}{hint}; known: {', '.join(self.known)}"


class UnknownModel(UnknownName):
    """A model that nothing is known of. `known` are the nearest names, at best none: there are thousands."""

    def __init__(self, name: str, near: Sequence[str]) -> None:
        super().__init__("model", name, near)
        self.args = (name, tuple(near))

    def __str__(self) -> str:
        near = f" (did you mean {', '.join(map(repr, self.known))}?)" if self.known else ""
        return f"no model is known whose name is or holds {self.name!r}{near}: `ragkit models --all` lists them"


class InvalidOption(RagkitError):
    """An option with a value that its part does not take."""

    def __init__(self, option: str, met: object, wanted: str) -> None:
        super().__init__(option, met, wanted)
        self.option, self.value, self.expected = option, met, wanted

    def __str__(self) -> str:
        return f"{self.option} is {self.value!r}: {self.expected} is wanted"


class PipelineError(RagkitError):
    """A pipeline file that cannot be used. `problems` holds one line each, `file:line:column: ...`."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(tuple(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


class LoadError(RagkitError):
    """A file that no text can be taken from. `hint` says what the user can do."""

    def __init__(self, source: str, reason: str, hint: str = "") -> None:
        super().__init__(source, reason, hint)
        self.source, self.reason, self.hint = source, reason, hint

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}" + (f": {self.hint}" if self.hint else "")


class UnsupportedFormat(LoadError):
    """A file whose format has no loader."""


class LoadLimitExceeded(LoadError):
    """A file that went over a limit of time, memory or size while it was read."""


class DimensionMismatch(RagkitError):
    """Vectors of one width met a store of another."""

    def __init__(self, got: int, want: int) -> None:
        super().__init__(got, want)
        self.got, self.expected = got, want

    def __str__(self) -> str:
        return (
            f"vectors have {self.got} columns but the store holds {self.expected}: "
            "use the embedder that this index was built with, or rebuild the index"
        )


class InvalidVector(RagkitError):
    """A vector that is not finite, or not of length 1."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(row, reason)
        self.row, self.reason = row, reason

    def __str__(self) -> str:
        return f"vector {self.row} {self.reason}: stores take finite vectors of length 1"


class InvalidFilter(RagkitError):
    """A filter with an unknown operator, a wrong type or a syntax error."""


class KnowledgeBaseError(RagkitError):
    """A knowledge base that cannot be used as it is."""


class NotAKnowledgeBase(KnowledgeBaseError):
    """Nothing there, or something else than a knowledge base."""

    def __init__(self, path: str, reason: str, hint: str) -> None:
        super().__init__(path, reason, hint)
        self.path, self.reason, self.hint = path, reason, hint

    def __str__(self) -> str:
        return f"{self.path} {self.reason}: {self.hint}"


class SettingsMismatch(KnowledgeBaseError):
    """The knowledge base was built with other settings than were asked for."""

    def __init__(self, path: str, differences: Sequence[str], fix: str) -> None:
        super().__init__(path, tuple(differences), fix)
        self.path, self.differences, self.fix = path, tuple(differences), fix

    def __str__(self) -> str:
        return f"{self.path} was built with other settings ({'; '.join(self.differences)}): run {self.fix}"


class KnowledgeBaseDamaged(KnowledgeBaseError):
    """A file of the knowledge base is missing, cut short, foreign or altered."""

    def __init__(self, path: str, reason: str, fix: str) -> None:
        super().__init__(path, reason, fix)
        self.path, self.reason, self.fix = path, reason, fix

    def __str__(self) -> str:
        return f"{self.path} {self.reason}: run {self.fix}"


class KnowledgeBaseWriteFailed(KnowledgeBaseError):
    """The disk of the knowledge base is full, fails, or may not be written to. What was recorded before is kept."""

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
        return f"{self.path} is being written by {self.holder}: wait until it is done, or stop it"


class WorkerError(RagkitError):
    """A worker of an index run cannot be started or reached, or was lost again and again."""


class StoreError(RagkitError):
    """A vector store refused a request or cannot be reached."""

    def __init__(self, message: str) -> None:
        super().__init__(mask_secrets(message))


class ProviderError(RagkitError):
    """A model's service refused a request or cannot be reached.

    `retryable` says whether the same request may succeed later.
    """

    retryable = False

    def __init__(self, provider: str, message: str, *, status: int | None = None) -> None:
        message = mask_secrets(message)
        super().__init__(provider, message)
        self.provider, self.message, self.status = provider, message, status

    def __str__(self) -> str:
        return f"{self.provider}: {self.message}"


class AuthenticationFailed(ProviderError):
    """The key is missing, wrong or not allowed to do this."""


class RateLimited(ProviderError):
    """Too many requests; `parse_retry_after` is in seconds where the service said it, else None."""

    retryable = True

    def __init__(
        self, provider: str, message: str, *, status: int | None = 429, retry_after: float | None = None
    ) -> None:
        super().__init__(provider, message, status=status)
        self.retry_after = retry_after


class RequestTimeout(ProviderError):
    """No answer within the time allowed."""

    retryable = True


class ConnectionFailed(ProviderError):
    """The service cannot be reached, broke off, or answered that it is down (5xx)."""

    retryable = True


class InvalidRequest(ProviderError):
    """The service says that the request itself is wrong: sending it again does not help."""


class ModelNotFound(InvalidRequest):
    """The service has no model of this name, or not for this key."""


class ContextTooLong(InvalidRequest):
    """The messages are longer than the model, or the service, takes."""


class BudgetExceeded(RagkitError):
    """A limit of money, tokens or seconds was reached."""

    def __init__(self, what: str, spent: float, limit: float) -> None:
        super().__init__(what, spent, limit)
        self.unit, self.spent, self.limit = what, spent, limit

    def __str__(self) -> str:
        limit, spent = format_amount(self.limit), format_amount(self.spent)
        return f"the budget of {limit} {self.unit} is reached ({spent} spent): raise the limit to go on"


class BudgetTooSmall(BudgetExceeded):
    """What is to be done is likely to cost more than the budget: nothing was begun. Both are US dollars."""

    def __init__(self, estimate: float, limit: float) -> None:
        super().__init__("USD", 0.0, limit)
        self.args = (estimate, limit)
        self.estimate = estimate

    def __str__(self) -> str:
        return (
            f"about {format_amount(self.estimate)} USD are needed, and the budget is {format_amount(self.limit)} USD: "
            "nothing was spent; raise the limit to go on"
        )


class PriceUnknown(RagkitError):
    """A budget was set for something whose price is not known, so it cannot be kept."""

    def __init__(self, what: str, limit: float) -> None:
        super().__init__(what, limit)
        self.what, self.limit = what, limit

    def __str__(self) -> str:
        return (
            f"the price of {self.what} is not known, so a budget of {format_amount(self.limit)} USD cannot be kept: "
            "put the price into configs/prices.yaml, or set no budget"
        )


class RunError(RagkitError):
    """An agent run that ended without an answer. `partial` holds what it had (an AgentResult), if anything."""

    def __init__(self, message: str, partial: object = None) -> None:
        super().__init__(message, partial)
        self.message, self.partial = message, partial

    def __str__(self) -> str:
        return self.message


class RunCancelled(RunError):
    """The caller stopped the run."""


class GuardrailBlocked(RunError):
    """A guardrail refused the input or the answer."""


class HandoffFailed(RunError):
    """A run could not be passed on to another agent."""

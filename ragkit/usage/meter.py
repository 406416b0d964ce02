"""The meter of a run: every chat, embedding and rerank call reports to it, and it knows by whom and when.

A meter is bound to what runs under it through a context variable, so an embedder deep inside a tool needs no
argument to report. Threads and tasks started for a run carry the binding with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from threading import Lock
from types import MappingProxyType
from typing import Literal

from ragkit.errors import BudgetExceeded
from ragkit.records import JSON
from ragkit.usage.pricing import PriceBook
from ragkit.usage.tokens import Tokens


@dataclass(frozen=True, slots=True)
class UsageStats:
    """Tokens and US dollars of one call, or of several added together. A cost of None: a price is unknown."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    embedding_tokens: int = 0
    cached_tokens: int = 0
    """Tokens read from a service's prompt cache, and those of answers taken from the response cache."""
    llm_cost_usd: float | None = 0.0
    embedding_cost_usd: float | None = 0.0
    """Embedding and reranking: what retrieval cost."""
    saved_cost_usd: float = 0.0
    """What the answers from the response cache would have cost, as far as their prices are known."""

    @property
    def total_cost_usd(self) -> float | None:
        """LLM cost + embedding cost; None when either is unknown."""
        return _add_costs(self.llm_cost_usd, self.embedding_cost_usd)

    @property
    def total_tokens(self) -> int:
        """Tokens sent, received and embedded."""
        return self.prompt_tokens + self.completion_tokens + self.embedding_tokens

    def __add__(self, other: UsageStats) -> UsageStats:
        if self is _ZERO_USAGE:
            return other
        return UsageStats(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.embedding_tokens + other.embedding_tokens,
            self.cached_tokens + other.cached_tokens,
            _add_costs(self.llm_cost_usd, other.llm_cost_usd),
            _add_costs(self.embedding_cost_usd, other.embedding_cost_usd),
            self.saved_cost_usd + other.saved_cost_usd,
        )

    def to_dict(self) -> dict[str, JSON]:
        """The figures by name, the total included."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "embedding_tokens": self.embedding_tokens,
            "cached_tokens": self.cached_tokens,
            "llm_cost_usd": self.llm_cost_usd,
            "embedding_cost_usd": self.embedding_cost_usd,
            "total_cost_usd": self.total_cost_usd,
            "saved_cost_usd": self.saved_cost_usd,
        }


_ZERO_USAGE = UsageStats()
"""Where sums begin."""


@dataclass(frozen=True, slots=True)
class ToolUsage:
    """What one tool used during a run."""

    calls: int = 0
    """How often it was executed."""
    stats: UsageStats = _ZERO_USAGE
    """What was spent inside those executions."""

    def to_dict(self) -> dict[str, JSON]:
        """`calls` and the figures of `stats`."""
        return {"calls": self.calls, **self.stats.to_dict()}


_ZERO_TOOL_USAGE = ToolUsage()


@dataclass(frozen=True, slots=True)
class AgentUsage(UsageStats):
    """All that a run used: the sum, and the same by tool and by iteration."""

    by_tool: Mapping[str, ToolUsage] = field(default_factory=lambda: MappingProxyType({}))
    iterations: tuple[UsageStats, ...] = ()
    """One entry per iteration of the loop, the first iteration first."""

    def to_dict(self) -> dict[str, JSON]:
        """The shape of `usage` in every JSON answer."""
        return {
            **UsageStats.to_dict(self),
            "by_tool": {name: tool.to_dict() for name, tool in self.by_tool.items()},
            "iterations": [one.to_dict() for one in self.iterations],
        }

    @staticmethod
    def from_dict(data: Mapping[str, JSON]) -> AgentUsage:
        """The inverse of `to_dict`."""
        tools, iterations = data.get("by_tool"), data.get("iterations")
        by_tool = {
            str(name): ToolUsage(_read_count(one.get("calls")), _read_stats(one))
            for name, one in (tools if isinstance(tools, Mapping) else {}).items()
            if isinstance(one, Mapping)
        }
        rounds = iterations if isinstance(iterations, list) else []
        return _to_agent_usage(
            _read_stats(data), by_tool, tuple(_read_stats(one) for one in rounds if isinstance(one, Mapping))
        )


@dataclass(frozen=True, slots=True)
class MeteredCall:
    """One call that cost something."""

    kind: Literal["chat", "embedding", "rerank"]
    provider: str
    model: str
    usage: UsageStats
    tool: str = ""
    """The tool inside which it was made; empty for the loop's own calls."""
    iteration: int = 0
    """Counted from 1; 0 outside the loop."""
    at: float = 0.0
    """Unix time, seconds."""


class MeterScope:
    """Where a call is made: which meter counts it, in which iteration and tool.

    In `with`, what runs in the block is counted there, and so is what runs in threads and tasks that copy its context.
    """

    __slots__ = ("_token", "iteration", "meter", "tool")

    def __init__(self, meter: Meter, *, iteration: int = 0, tool: str = "") -> None:
        self.meter, self.iteration, self.tool = meter, iteration, tool

    def __enter__(self) -> Meter:
        self._token = _SCOPE.set(self)
        return self.meter

    def __exit__(self, *_: object) -> None:
        _SCOPE.reset(self._token)


use_meter = MeterScope
"""`with metered(meter): ...`"""


_SCOPE: ContextVar[MeterScope | None] = ContextVar("ragkit_usage_scope", default=None)


class Meter:
    """Counts what one run uses. Safe to use from many threads.

    A meter that is made while another one counts reports to that one as well: what an agent spends inside a
    tool of another agent is part of the outer run, and of its budget.

    Args:
        prices: where prices are looked up.
        budget_usd: US dollars that may be spent under this meter; None: as much as it takes. See `check`.
        on_call: told of each call as soon as it is reported, in the thread that reports it: a ledger. Where
            meters stand in each other, the innermost that has one tells it, and the others do not.
    """

    def __init__(
        self,
        prices: PriceBook | None = None,
        *,
        budget_usd: float | None = None,
        on_call: Callable[[MeteredCall], None] | None = None,
    ) -> None:
        self.prices = prices or PriceBook()
        self.budget_usd = budget_usd
        self._on_call = on_call
        self._parent_scope = _SCOPE.get()
        self._lock = Lock()
        self._calls: list[MeteredCall] = []
        self._summed_calls = 0
        self._pending_executions: list[str] = []
        self._total = _ZERO_USAGE
        self._by_tool: dict[str, ToolUsage] = {}
        self._iterations: list[UsageStats] = []
        self._known_usd = 0.0
        self._tokens = 0

    @property
    def calls(self) -> tuple[MeteredCall, ...]:
        """Every call so far, in the order in which they were reported."""
        with self._lock:
            return tuple(self._calls)

    @property
    def known_cost_usd(self) -> float:
        """US dollars spent as far as prices are known: what a budget is checked against."""
        return self._known_usd

    @property
    def total_tokens(self) -> int:
        """Tokens sent, received and embedded: what a budget is checked against."""
        return self._tokens

    @property
    def remaining_usd(self) -> float | None:
        """US dollars that may still be spent, here and in the meters around this one; None: no limit is set."""
        here = None if self.budget_usd is None else max(0.0, self.budget_usd - self._known_usd)
        around = self._parent_scope.meter.remaining_usd if self._parent_scope else None
        return min((left for left in (here, around) if left is not None), default=None)

    @property
    def has_call_listener(self) -> bool:
        """Whether somebody is told of each call: here, or around this meter."""
        return self._on_call is not None or (
            self._parent_scope is not None and self._parent_scope.meter.has_call_listener
        )

    def check_budget(self) -> None:
        """To be asked before a request that costs something.

        Raises:
            BudgetExceeded: the budget is spent, here or in a meter around this one.
        """
        meter: Meter | None = self
        while meter is not None:
            if meter.budget_usd is not None and 0 < meter._known_usd >= meter.budget_usd:
                raise BudgetExceeded("USD", meter._known_usd, meter.budget_usd)
            meter = meter._parent_scope.meter if meter._parent_scope else None

    def usage(self) -> AgentUsage:
        """All that was used so far, as a record."""
        with self._lock:
            self._update_totals()
            return _to_agent_usage(self._total, self._by_tool, tuple(self._iterations))

    def _update_totals(self) -> None:
        """Bring the sums up to date: what was reported since the last time is added to them."""
        for call in self._calls[self._summed_calls :]:
            self._total = self._total + call.usage
            if call.tool:
                known = self._by_tool.get(call.tool, _ZERO_TOOL_USAGE)
                self._by_tool[call.tool] = ToolUsage(known.calls, known.stats + call.usage)
            if call.iteration:
                self._extend_iterations(call.iteration)
                self._iterations[call.iteration - 1] += call.usage
        self._summed_calls = len(self._calls)
        for tool in self._pending_executions:
            known = self._by_tool.get(tool, _ZERO_TOOL_USAGE)
            self._by_tool[tool] = ToolUsage(known.calls + 1, known.stats)
        self._pending_executions.clear()

    def _extend_iterations(self, iteration: int) -> None:
        self._iterations += [_ZERO_USAGE] * (iteration - len(self._iterations))

    def restore(self, usage: AgentUsage) -> None:
        """Start from what an earlier part of the same run has used."""
        with self._lock:
            self._total = UsageStats(*(getattr(usage, one.name) for one in fields(UsageStats)))
            self._by_tool = dict(usage.by_tool)
            self._iterations = list(usage.iterations)
            self._known_usd = (usage.llm_cost_usd or 0.0) + (usage.embedding_cost_usd or 0.0)
            self._tokens = usage.total_tokens

    def begin_iteration(self, iteration: int) -> None:
        """Open the entry of an iteration, so that one that used nothing is seen too."""
        with self._lock:
            self._extend_iterations(iteration)

    def record_chat(self, provider: str, model: str, tokens: Tokens, *, iteration: int = 0) -> UsageStats:
        """Count a chat request and price it."""
        cost = self.prices.chat_cost(provider, model, tokens)
        stats = UsageStats(tokens.prompt_tokens, tokens.completion_tokens, 0, tokens.cached_tokens, cost)
        self.record(MeteredCall("chat", provider, model, stats, iteration=iteration, at=time.time()))
        return stats

    def record_cache_hit(self, provider: str, model: str, tokens: Tokens, *, iteration: int = 0) -> UsageStats:
        """Count an answer that came from the response cache: cached tokens, no cost, its price saved."""
        saved = self.prices.chat_cost(provider, model, tokens) or 0.0
        stats = UsageStats(cached_tokens=tokens.total, saved_cost_usd=saved)
        self.record(MeteredCall("chat", provider, model, stats, iteration=iteration, at=time.time()))
        return stats

    def record_tool_execution(self, tool: str) -> None:
        """Count one execution of a tool."""
        with self._lock:
            self._pending_executions.append(tool)
        if self._parent_scope is not None and not self._parent_scope.tool:
            self._parent_scope.meter.record_tool_execution(tool)

    def record(self, call: MeteredCall, *, booked: bool = False) -> None:
        """Count a call, here and in the meter around this one. `booked`: somebody has been told of it."""
        usage = call.usage
        with self._lock:
            self._calls.append(call)
            self._known_usd += (usage.llm_cost_usd or 0.0) + (usage.embedding_cost_usd or 0.0)
            self._tokens += usage.total_tokens
        if self._on_call is not None and not booked:
            booked = True
            self._on_call(call)
        outer = self._parent_scope
        if outer is not None:
            # a tool of an inner run is one of the outer run's when no tool of that stands between them
            seen = replace(call, tool=outer.tool or call.tool, iteration=outer.iteration)
            outer.meter.record(seen, booked=booked)


def current_scope() -> MeterScope | None:
    """Where calls are counted here; None when nothing counts."""
    return _SCOPE.get()


def current_meter() -> Meter | None:
    """The meter that counts here, or None."""
    scope = _SCOPE.get()
    return scope.meter if scope else None


def record_chat(provider: str, model: str, tokens: Tokens) -> UsageStats | None:
    """Report a chat request made outside the loop (by a tool, say). Does nothing where no meter counts."""
    scope = _SCOPE.get()
    if scope is None:
        return None
    cost = scope.meter.prices.chat_cost(provider, model, tokens)
    stats = UsageStats(tokens.prompt_tokens, tokens.completion_tokens, 0, tokens.cached_tokens, cost)
    _record_in_scope(scope, "chat", provider, model, stats)
    return stats


def record_embedding(model: str, tokens: int, cost: float | None, *, provider: str = "") -> None:
    """Report an embedding request: tokens embedded and US dollars (0.0 for a local model; None: the price book says).

    Report each request by itself, as soon as it is answered. Does nothing where no meter counts.
    """
    scope = _SCOPE.get()
    if scope is not None:
        if cost is None:
            cost = scope.meter.prices.embedding_cost(provider, model, tokens)
        _record_in_scope(
            scope, "embedding", provider, model, UsageStats(embedding_tokens=tokens, embedding_cost_usd=cost)
        )


def record_rerank(model: str, cost: float | None, *, provider: str = "", searches: int = 1, tokens: int = 0) -> None:
    """Report a rerank request and its US dollars (0.0 for a local model; None: the price book says).

    `searches` and `tokens` are what services charge for. Does nothing where no meter counts.
    """
    scope = _SCOPE.get()
    if scope is not None:
        if cost is None:
            cost = scope.meter.prices.rerank_cost(provider, model, searches=searches, tokens=tokens)
        _record_in_scope(scope, "rerank", provider, model, UsageStats(embedding_cost_usd=cost))


def _record_in_scope(
    scope: MeterScope, kind: Literal["chat", "embedding", "rerank"], provider: str, model: str, usage: UsageStats
) -> None:
    scope.meter.record(MeteredCall(kind, provider, model, usage, scope.tool, scope.iteration, time.time()))


def _to_agent_usage(
    total: UsageStats, by_tool: Mapping[str, ToolUsage], iterations: tuple[UsageStats, ...]
) -> AgentUsage:
    return AgentUsage(
        total.prompt_tokens,
        total.completion_tokens,
        total.embedding_tokens,
        total.cached_tokens,
        total.llm_cost_usd,
        total.embedding_cost_usd,
        total.saved_cost_usd,
        MappingProxyType(dict(by_tool)),
        iterations,
    )


def _add_costs(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _read_count(value: JSON) -> int:
    return value if isinstance(value, int) else 0


def _read_dollars(value: JSON) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _read_stats(data: Mapping[str, JSON]) -> UsageStats:
    return UsageStats(
        _read_count(data.get("prompt_tokens")),
        _read_count(data.get("completion_tokens")),
        _read_count(data.get("embedding_tokens")),
        _read_count(data.get("cached_tokens")),
        _read_dollars(data.get("llm_cost_usd")),
        _read_dollars(data.get("embedding_cost_usd")),
        _read_dollars(data.get("saved_cost_usd")) or 0.0,
    )

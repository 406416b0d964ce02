"""The meter of a run, which records every chat, embedding and rerank call.

The current meter is a context variable, so an embedder inside a tool can report to it without an argument. Threads
and tasks of a run copy the context.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from threading import Lock
from types import MappingProxyType
from typing import Any, Literal

from ragkit.errors import BudgetExceeded
from ragkit.records import JSON
from ragkit.usage.pricing import PriceBook
from ragkit.usage.summary import format_usage
from ragkit.usage.tokens import Tokens


@dataclass(frozen=True, slots=True)
class UsageStats:
    """Tokens and US dollars of one or more calls. A cost of None: a price is unknown."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    embedding_tokens: int = 0
    cached_tokens: int = 0
    """Tokens read from a service's prompt cache, and those of response cache hits."""
    llm_cost_usd: float | None = 0.0
    embedding_cost_usd: float | None = 0.0
    """Cost of embedding and reranking."""
    saved_cost_usd: float = 0.0
    """Cost saved by response cache hits, as far as prices are known."""

    @property
    def total_cost_usd(self) -> float | None:
        """LLM cost + embedding cost; None if either is unknown."""
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
        """The fields by name, with the total cost."""
        return {key: getattr(self, key) for key in (*_COUNT_KEYS, *_COST_KEYS)}


_ZERO_USAGE = UsageStats()
_stat_values: Callable[[UsageStats], tuple[Any, ...]] = attrgetter(*(stat.name for stat in fields(UsageStats)))
"""The values of the fields, in order."""
_COUNT_KEYS = ("prompt_tokens", "completion_tokens", "embedding_tokens", "cached_tokens")
_COST_KEYS = ("llm_cost_usd", "embedding_cost_usd", "total_cost_usd", "saved_cost_usd")


@dataclass(frozen=True, slots=True)
class ToolUsage:
    """The usage of one tool during a run."""

    calls: int = 0
    """Number of executions."""
    stats: UsageStats = _ZERO_USAGE
    """Usage inside those executions."""

    def to_dict(self) -> dict[str, JSON]:
        """`calls` and the fields of `stats`."""
        return {"calls": self.calls, **self.stats.to_dict()}


_ZERO_TOOL_USAGE = ToolUsage()


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The usage of one model during a run."""

    calls: int = 0
    """Number of requests, without those that the response cache answered."""
    cache_hits: int = 0
    """Number of requests that the response cache answered."""
    stats: UsageStats = _ZERO_USAGE

    def to_dict(self) -> dict[str, JSON]:
        """`calls`, `cache_hits` and the fields of `stats`."""
        return {"calls": self.calls, "cache_hits": self.cache_hits, **self.stats.to_dict()}


@dataclass(frozen=True, slots=True)
class AgentUsage(UsageStats):
    """The usage of a run: in total, by model, by tool and by iteration."""

    by_tool: Mapping[str, ToolUsage] = field(default_factory=lambda: MappingProxyType({}))
    iterations: tuple[UsageStats, ...] = ()
    """One entry per iteration of the agent loop, in order."""
    by_model: Mapping[str, ModelUsage] = field(default_factory=lambda: MappingProxyType({}))
    """By `provider:model`; chat, embedding and rerank models, those of tools included."""

    def summary(self) -> str:
        """A few lines to print: tokens, calls and costs, by model and by tool. Unknown prices are called unknown."""
        return format_usage(self.to_dict())

    def to_dict(self) -> dict[str, JSON]:
        """The `usage` object of all JSON output."""
        return {
            **UsageStats.to_dict(self),
            "by_model": {name: model.to_dict() for name, model in self.by_model.items()},
            "by_tool": {name: tool.to_dict() for name, tool in self.by_tool.items()},
            "iterations": [stats.to_dict() for stats in self.iterations],
        }

    @staticmethod
    def from_dict(data: Mapping[str, JSON]) -> AgentUsage:
        """The inverse of `to_dict`."""
        by_tool = {
            name: ToolUsage(_read_count(tool.get("calls")), _read_stats(tool))
            for name, tool in _read_objects(data.get("by_tool"))
        }
        by_model = {
            name: ModelUsage(_read_count(model.get("calls")), _read_count(model.get("cache_hits")), _read_stats(model))
            for name, model in _read_objects(data.get("by_model"))
        }
        rows = data.get("iterations")
        by_iteration = tuple(
            _read_stats(row) for row in (rows if isinstance(rows, list) else []) if isinstance(row, Mapping)
        )
        return _to_agent_usage(_read_stats(data), by_tool, by_iteration, by_model)


@dataclass(frozen=True, slots=True)
class MeteredCall:
    """One metered model call."""

    kind: Literal["chat", "embedding", "rerank"]
    provider: str
    model: str
    usage: UsageStats
    tool: str = ""
    """The tool that made the call; empty for calls of the agent loop."""
    iteration: int = 0
    """From 1; 0 outside the agent loop."""
    at: float = 0.0
    """Unix time in seconds."""
    cached: bool = False
    """Whether the response cache answered."""


class MeterScope:
    """A context manager that assigns calls to a meter, an iteration and a tool.

    It applies to the `with` block, and to threads and tasks that copy its context.
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
"""`with use_meter(meter): ...`"""


_SCOPE: ContextVar[MeterScope | None] = ContextVar("ragkit_usage_scope", default=None)


class Meter:
    """Records the usage of one run. Thread-safe.

    A meter that is created inside the scope of another one also reports to that one: the usage of an agent inside a
    tool of another agent is part of the outer run and of its budget.

    Args:
        prices: the price book.
        budget_usd: maximum cost in US dollars; None: no limit. See `check_budget`.
        on_call: called for each call when it is reported, in the reporting thread, to record it in a ledger. With
            nested meters, only the innermost listener is called.
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
        self._by_model: dict[str, ModelUsage] = {}
        self._iterations: list[UsageStats] = []
        self._known_usd = 0.0
        self._tokens = 0

    @property
    def calls(self) -> tuple[MeteredCall, ...]:
        """All calls so far, in the order of their reports."""
        with self._lock:
            return tuple(self._calls)

    @property
    def known_cost_usd(self) -> float:
        """US dollars spent as far as prices are known; budgets are checked against it."""
        return self._known_usd

    @property
    def total_tokens(self) -> int:
        """Tokens sent, received and embedded; limits are checked against it."""
        return self._tokens

    @property
    def remaining_usd(self) -> float | None:
        """The remaining budget of this meter and the enclosing ones, in US dollars; None: no limit."""
        own = None if self.budget_usd is None else max(0.0, self.budget_usd - self._known_usd)
        outer = self._parent_scope.meter.remaining_usd if self._parent_scope else None
        return min((usd for usd in (own, outer) if usd is not None), default=None)

    @property
    def has_call_listener(self) -> bool:
        """Whether this meter or an enclosing one has an `on_call` listener."""
        outer = self._parent_scope
        return self._on_call is not None or (outer is not None and outer.meter.has_call_listener)

    def check_budget(self) -> None:
        """Raises BudgetExceeded if the budget of this meter or an enclosing one is spent. Call it before a request."""
        meter: Meter | None = self
        while meter is not None:
            if meter.budget_usd is not None and 0 < meter._known_usd >= meter.budget_usd:
                raise BudgetExceeded("USD", meter._known_usd, meter.budget_usd)
            meter = meter._parent_scope.meter if meter._parent_scope else None

    def usage(self) -> AgentUsage:
        """The usage so far."""
        with self._lock:
            self._update_totals()
            return _to_agent_usage(self._total, self._by_tool, tuple(self._iterations), self._by_model)

    def _update_totals(self) -> None:
        """Add the calls since the last update to the totals."""
        for call in self._calls[self._summed_calls :]:
            self._total = self._total + call.usage
            name = f"{call.provider}:{call.model}" if call.provider else call.model
            model = self._by_model.get(name)
            calls, hits = (0, 1) if call.cached else (1, 0)
            self._by_model[name] = (
                ModelUsage(calls, hits, call.usage)
                if model is None
                else ModelUsage(model.calls + calls, model.cache_hits + hits, model.stats + call.usage)
            )
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

    def carry_over(self, usage: UsageStats) -> None:
        """Include usage from before this run. It was recorded where it arose, and counts towards no budget here."""
        with self._lock:
            self._total = self._total + UsageStats(*_stat_values(usage))

    def restore(self, usage: AgentUsage) -> None:
        """Start from the usage of an earlier part of the same run."""
        self.carry_over(usage)
        with self._lock:
            self._by_tool, self._by_model = dict(usage.by_tool), dict(usage.by_model)
            self._iterations = list(usage.iterations)
            self._known_usd = (usage.llm_cost_usd or 0.0) + (usage.embedding_cost_usd or 0.0)
            self._tokens = usage.total_tokens

    def begin_iteration(self, iteration: int) -> None:
        """Add the entry of an iteration, so that iterations without usage are listed."""
        with self._lock:
            self._extend_iterations(iteration)

    def record_chat(
        self, provider: str, model: str, tokens: Tokens, *, iteration: int = 0, tool: str = ""
    ) -> UsageStats:
        """Record a chat request and return its usage and cost.

        The cost of a request for which the service reported no usage is unknown, unless the model is free.
        """
        cost = self.prices.chat_cost(provider, model, tokens)
        if cost == 0 and not tokens.total and tokens.cost_usd is None:
            cost = None if self.prices.chat_cost(provider, model, Tokens(1, 1)) else cost
        stats = UsageStats(tokens.prompt_tokens, tokens.completion_tokens, 0, tokens.cached_tokens, cost)
        self.record(MeteredCall("chat", provider, model, stats, tool, iteration, time.time()))
        return stats

    def record_cache_hit(self, provider: str, model: str, tokens: Tokens, *, iteration: int = 0) -> UsageStats:
        """Record a response cache hit: cached tokens, no cost, its price as saved cost."""
        saved = self.prices.chat_cost(provider, model, tokens) or 0.0
        stats = UsageStats(cached_tokens=tokens.total, saved_cost_usd=saved)
        self.record(MeteredCall("chat", provider, model, stats, iteration=iteration, at=time.time(), cached=True))
        return stats

    def record_tool_execution(self, tool: str) -> None:
        """Record one execution of a tool."""
        with self._lock:
            self._pending_executions.append(tool)
        if self._parent_scope is not None and not self._parent_scope.tool:
            self._parent_scope.meter.record_tool_execution(tool)

    def record(self, call: MeteredCall, *, booked: bool = False) -> None:
        """Record a call in this meter and the enclosing ones. `booked`: a listener has been called for it."""
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
            # in the outer run, the tool is the one that started the inner run; without one, the tool of the inner run
            outer_call = replace(call, tool=outer.tool or call.tool, iteration=outer.iteration)
            outer.meter.record(outer_call, booked=booked)


def current_meter() -> Meter | None:
    """The meter of the current context, or None."""
    scope = _SCOPE.get()
    return scope.meter if scope else None


def record_chat(provider: str, model: str, tokens: Tokens) -> UsageStats | None:
    """Record a chat request outside the agent loop, such as in a tool. No-op without a current meter."""
    scope = _SCOPE.get()
    if scope is None:
        return None
    return scope.meter.record_chat(provider, model, tokens, iteration=scope.iteration, tool=scope.tool)


def record_embedding(model: str, tokens: int, cost: float | None, *, provider: str = "", booked: bool = False) -> None:
    """Record an embedding request with its cost in US dollars (0.0 for a local model; None: from the price book).

    Record each request separately, when its response arrives. `booked`: another process has recorded it in the ledger.
    No-op without a current meter.
    """
    scope = _SCOPE.get()
    if scope is not None:
        if cost is None:
            cost = scope.meter.prices.embedding_cost(provider, model, tokens)
        usage = UsageStats(embedding_tokens=tokens, embedding_cost_usd=cost)
        _record_in_scope(scope, "embedding", provider, model, usage, booked=booked)


def record_unknown_embedding(model: str, provider: str) -> None:
    """Record an embedding request whose tokens nobody knows: its cost is unknown. No-op without a current meter."""
    scope = _SCOPE.get()
    if scope is not None:
        _record_in_scope(scope, "embedding", provider, model, UsageStats(embedding_cost_usd=None))


def record_rerank(model: str, cost: float | None, *, provider: str = "", searches: int = 1, tokens: int = 0) -> None:
    """Record a rerank request with its cost in US dollars (0.0 for a local model; None: from the price book).

    Services charge for `searches` or `tokens`. No-op without a current meter.
    """
    scope = _SCOPE.get()
    if scope is not None:
        if cost is None:
            cost = scope.meter.prices.rerank_cost(provider, model, searches=searches, tokens=tokens)
        _record_in_scope(scope, "rerank", provider, model, UsageStats(embedding_cost_usd=cost))


def _record_in_scope(
    scope: MeterScope,
    kind: Literal["chat", "embedding", "rerank"],
    provider: str,
    model: str,
    usage: UsageStats,
    *,
    booked: bool = False,
) -> None:
    call = MeteredCall(kind, provider, model, usage, scope.tool, scope.iteration, time.time())
    scope.meter.record(call, booked=booked)


def _to_agent_usage(
    total: UsageStats,
    by_tool: Mapping[str, ToolUsage],
    iterations: tuple[UsageStats, ...],
    by_model: Mapping[str, ModelUsage],
) -> AgentUsage:
    tools, models = MappingProxyType(dict(by_tool)), MappingProxyType(dict(by_model))
    stats: tuple[Any, ...] = (*_stat_values(total), tools, iterations, models)
    return AgentUsage(*stats)


def _add_costs(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second


def _read_count(value: JSON) -> int:
    return value if isinstance(value, int) else 0


def _read_dollars(value: JSON) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _read_objects(value: JSON) -> list[tuple[str, Mapping[str, JSON]]]:
    items = value.items() if isinstance(value, Mapping) else ()
    return [(str(name), item) for name, item in items if isinstance(item, Mapping)]


def _read_stats(data: Mapping[str, JSON]) -> UsageStats:
    prompt, completion, embedding, cached = (_read_count(data.get(key)) for key in _COUNT_KEYS)
    llm_cost, embedding_cost, _, saved = (_read_dollars(data.get(key)) for key in _COST_KEYS)
    return UsageStats(prompt, completion, embedding, cached, llm_cost, embedding_cost, saved or 0.0)

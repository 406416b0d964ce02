"""Observers receive the events of a run. An exception in an observer is a warning and does not affect the run."""

from __future__ import annotations

import inspect
import logging
import os
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from types import CodeType
from typing import TypeAlias, cast

from ragkit.agent import events
from ragkit.agent.runtime.background_tasks import BackgroundLoop
from ragkit.errors import UnknownName

LOG = logging.getLogger("ragkit.agent")

Handled: TypeAlias = Awaitable[object] | None
"""What an observer returns: None, or something to await."""
Hook: TypeAlias = Callable[..., object]
OBSERVER_LOOP = BackgroundLoop("ragkit-observers")
"""Runs the coroutines of observers in synchronous runs."""


class ObserverWarning(UserWarning):
    """An observer or a hook failed; the run went on."""


class AgentObserver:
    """Base class of observers: override the methods you need, with `def` or `async def`.

    They are called in the thread that drives the run, which waits for them. Coroutines run in the event loop of an
    asynchronous run; those of a synchronous run in a background loop.
    """

    def on_agent_start(self, event: events.RunStarted) -> Handled:
        """A run starts."""

    def on_agent_end(self, event: events.RunEnded) -> Handled:
        """A run ended."""

    def on_error(self, event: events.RunFailed) -> Handled:
        """A run failed."""

    def on_iteration_start(self, event: events.IterationStarted) -> Handled:
        """A turn of the loop starts."""

    def on_iteration_end(self, event: events.IterationEnded) -> Handled:
        """A turn of the loop ended."""

    def on_llm_start(self, event: events.ModelCallStarted) -> Handled:
        """A request is sent to a model."""

    def on_llm_chunk(self, event: events.TextChunk) -> Handled:
        """A chunk of text arrived, in a streamed run."""

    def on_reasoning_chunk(self, event: events.ReasoningChunk) -> Handled:
        """A chunk of reasoning arrived, in a streamed run."""

    def on_llm_end(self, event: events.ModelCallEnded) -> Handled:
        """A model or the cache answered."""

    def on_tool_call_chunk(self, event: events.ToolCallChunk) -> Handled:
        """A chunk of a tool call arrived, in a streamed run."""

    def on_retry(self, event: events.Retrying) -> Handled:
        """A request will be sent again."""

    def on_fallback(self, event: events.ProviderFallback) -> Handled:
        """A fallback chain skipped failed providers."""

    def on_tool_start(self, event: events.ToolStarted) -> Handled:
        """A tool is about to be executed."""

    def on_tool_chunk(self, event: events.ToolChunk) -> Handled:
        """A tool emitted a chunk of output."""

    def on_tool_end(self, event: events.ToolEnded) -> Handled:
        """A tool returned a result."""

    def on_tool_error(self, event: events.ToolFailed) -> Handled:
        """A tool call failed."""

    def on_guardrail(self, event: events.GuardrailTriggered) -> Handled:
        """A guardrail blocked, rewrote or flagged a text."""

    def on_policy(self, event: events.PolicyDecided) -> Handled:
        """The policy decided about a call."""

    def on_approval(self, event: events.ApprovalNeeded) -> Handled:
        """The run awaits human approval."""

    def on_loop(self, event: events.LoopDetected) -> Handled:
        """The model repeats a tool call without a new result."""

    def on_last_answer(self, event: events.LastAnswerRequested) -> Handled:
        """The model is asked for a last answer without tools."""

    def on_handoff(self, event: events.HandedOff) -> Handled:
        """Another agent takes over."""

    def on_memory_trim(self, event: events.MemoryTrimmed) -> Handled:
        """Memory dropped its oldest messages."""

    def on_budget_warning(self, event: events.BudgetWarning) -> Handled:
        """A limit is nearly reached."""

    def handle(self, event: events.Event) -> Handled:
        """Dispatch an event to its method. An override returns what this returns, so that coroutines are awaited."""
        return cast("Handled", getattr(self, OBSERVER_METHODS[type(event)])(event))


OBSERVER_METHODS: Mapping[type[events.Event], str] = {
    events.RunStarted: "on_agent_start",
    events.RunEnded: "on_agent_end",
    events.RunFailed: "on_error",
    events.IterationStarted: "on_iteration_start",
    events.IterationEnded: "on_iteration_end",
    events.ModelCallStarted: "on_llm_start",
    events.TextChunk: "on_llm_chunk",
    events.ReasoningChunk: "on_reasoning_chunk",
    events.ModelCallEnded: "on_llm_end",
    events.ToolCallChunk: "on_tool_call_chunk",
    events.Retrying: "on_retry",
    events.ProviderFallback: "on_fallback",
    events.ToolStarted: "on_tool_start",
    events.ToolChunk: "on_tool_chunk",
    events.ToolEnded: "on_tool_end",
    events.ToolFailed: "on_tool_error",
    events.GuardrailTriggered: "on_guardrail",
    events.PolicyDecided: "on_policy",
    events.ApprovalNeeded: "on_approval",
    events.LoopDetected: "on_loop",
    events.LastAnswerRequested: "on_last_answer",
    events.HandedOff: "on_handoff",
    events.MemoryTrimmed: "on_memory_trim",
    events.BudgetWarning: "on_budget_warning",
}
"""The observer's method for each kind of event."""


_MODEL_AND_MESSAGES = ("model", "request.messages")
_HOOK_ARGUMENTS: Mapping[type[events.Event], tuple[str, ...]] = {
    events.RunStarted: ("messages",),
    events.RunEnded: ("result",),
    events.RunFailed: ("error",),
    events.IterationStarted: ("iteration",),
    events.IterationEnded: ("iteration",),
    events.ModelCallStarted: _MODEL_AND_MESSAGES,
    events.ModelCallEnded: ("message", "usage"),
    events.ToolStarted: ("call.name", "call.arguments"),
    events.ToolChunk: ("call.name", "text"),
    events.ToolEnded: ("call.name", "content"),
    events.ToolFailed: ("call.name", "error"),
    events.MemoryTrimmed: ("messages",),
}
"""The arguments of a hook, in order; the hook of any other event gets the event itself."""

_FURTHER_HOOK_ARGUMENTS: Mapping[type[events.Event], tuple[str, ...]] = {
    events.RunStarted: ("agent_name",),
    events.RunEnded: ("result.usage",),
    events.IterationStarted: ("messages",),
    events.IterationEnded: ("outcome",),
    events.ToolEnded: ("seconds", "call.arguments"),
    events.ToolFailed: ("call.arguments", "seconds"),
}
"""Arguments that follow if the hook has parameters for them: `on_tool_end(name, result, duration)`."""

HOOK_ALIASES: Mapping[str, str] = {"new_message": "on_llm_start", "end_message": "on_llm_end"}
"""Aliases of hooks."""


class HookObserver(AgentObserver):
    """Calls plain functions: `{"on_tool_start": my_hook}` calls `my_hook(tool_name, args)`.

    Called with: on_agent_start(messages), on_agent_end(result), on_error(error), on_iteration_start(number),
    on_iteration_end(number), on_llm_start(model, messages), on_llm_end(message, usage),
    on_tool_start(name, args), on_tool_chunk(name, text), on_tool_end(name, result), on_tool_error(name, error),
    on_memory_trim(messages); every other hook gets the event. `new_message` and `end_message` are aliases
    of on_llm_start and on_llm_end.

    A hook with fewer parameters gets the first of these arguments. One with more gets more: on_tool_end(name, result,
    seconds, args), on_tool_error(name, error, args, seconds), on_iteration_start(number, messages),
    on_iteration_end(number, outcome), on_agent_start(messages, agent_name), on_agent_end(result, usage). The hook of
    on_llm_start may also be `def hook(messages, model)`. A hook may be a coroutine function.

    Raises:
        UnknownName: there is no hook of this name.
    """

    def __init__(self, hooks: Mapping[str, Hook]) -> None:
        known = [*OBSERVER_METHODS.values(), *HOOK_ALIASES]
        for name in hooks:
            if name not in known:
                raise UnknownName("hook", name, sorted(known))
        self._hooks: dict[str, list[Hook]] = {}
        for name, hook in hooks.items():
            self._hooks.setdefault(HOOK_ALIASES.get(name, name), []).append(hook)

    def __eq__(self, other: object) -> bool:
        """Equal if they call the same functions: agents of a team may share their hooks."""
        return isinstance(other, HookObserver) and self._hooks == other._hooks

    def __hash__(self) -> int:
        """Computed from the hook names."""
        return hash(tuple(sorted(self._hooks)))

    def handle(self, event: events.Event) -> Handled:
        """Call the hooks of this event."""
        hooks = self._hooks.get(OBSERVER_METHODS[type(event)])
        pending = [_call_hook(hook, event) for hook in hooks] if hooks else []
        awaitables = [item for item in pending if inspect.isawaitable(item)]
        return _gather(event, awaitables) if awaitables else None


def _call_hook(hook: Hook, event: events.Event) -> object:
    """Call a hook with as many arguments as it takes. Its exceptions are reported, so that the others are called."""
    names = _HOOK_ARGUMENTS.get(type(event))
    try:
        if names is None:
            return hook(event)
        count = _count_parameters(hook)
        if names == _MODEL_AND_MESSAGES and _begins_with_messages(hook):
            names = names[::-1]
        names = names if count is None else (*names, *_FURTHER_HOOK_ARGUMENTS.get(type(event), ()))[:count]
        return hook(*[attrgetter(name)(event) for name in names])
    except Exception as error:  # noqa: BLE001 - reported: an observer must not break the run
        report_failure(event, error)
        return None


def _begins_with_messages(hook: Hook) -> bool:
    """Whether the first parameter of a hook, but for `self`, has the name `messages`."""
    code: CodeType | None = getattr(hook, "__code__", None)
    return code is not None and code.co_varnames[inspect.ismethod(hook) :][:1] == ("messages",)


def _count_parameters(hook: Hook) -> int | None:
    """The number of positional arguments that a hook takes; None: any, or unknown."""
    code: CodeType | None = getattr(hook, "__code__", None)
    if code is not None:  # fast path: this is done for every event
        return None if code.co_flags & inspect.CO_VARARGS else code.co_argcount - inspect.ismethod(hook)
    try:
        parameters = inspect.signature(hook).parameters.values()
    except (TypeError, ValueError):  # some functions in C have no signature
        return None
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    return sum(
        parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) for parameter in parameters
    )


class LogObserver(AgentObserver):
    """Logs model answers, tool calls and tool results to the logger `ragkit.agent`, at level DEBUG."""

    def on_llm_end(self, event: events.ModelCallEnded) -> None:
        """Log the answer."""
        LOG.debug("%s think %s", event.run_id[:8], event.message.content or "(calls tools)")

    def on_tool_start(self, event: events.ToolStarted) -> None:
        """Log the call."""
        LOG.debug("%s act %s %s", event.run_id[:8], event.call.name, dict(event.call.arguments))

    def on_tool_end(self, event: events.ToolEnded) -> None:
        """Log the result."""
        LOG.debug("%s observe %s: %s", event.run_id[:8], event.call.name, event.content[:500])

    def on_tool_error(self, event: events.ToolFailed) -> None:
        """Log the result."""
        LOG.debug("%s observe %s: %s", event.run_id[:8], event.call.name, event.content[:500])


def enable_debug_log() -> None:
    """With RAGKIT_LOG=debug (or RAGKIT_DEBUG=true), log agent runs to stderr, unless the program configures logging."""
    wanted = os.environ.get("RAGKIT_LOG", "").lower() == "debug"
    wanted = wanted or os.environ.get("RAGKIT_DEBUG", "").lower() in ("1", "true", "yes")
    if wanted and not LOG.isEnabledFor(logging.DEBUG):
        LOG.setLevel(logging.DEBUG)
        if not LOG.hasHandlers():
            LOG.addHandler(logging.StreamHandler())


class ObserverDispatcher:
    """Dispatches every event to every observer, and logs their exceptions."""

    def __init__(self, observers: Sequence[AgentObserver]) -> None:
        self._observers = tuple(observers)

    @property
    def has_observers(self) -> bool:
        """Whether it has observers."""
        return bool(self._observers)

    @staticmethod
    def from_config(observers: Sequence[AgentObserver], hooks: Mapping[str, Hook]) -> ObserverDispatcher:
        """The observers of an agent, hooks included."""
        if not observers and not hooks and not LOG.isEnabledFor(logging.DEBUG):
            return _NO_OBSERVERS
        from_hooks = [HookObserver(hooks)] if hooks else []
        logs = [_LOG_OBSERVER] if LOG.isEnabledFor(logging.DEBUG) else []
        return ObserverDispatcher([*observers, *from_hooks, *logs])

    def merge(self, other: ObserverDispatcher) -> ObserverDispatcher:
        """The union of both, without duplicates."""
        new = [observer for observer in other._observers if observer not in self._observers]
        return ObserverDispatcher([*self._observers, *new]) if new else self

    def notify(self, event: events.Event) -> Coroutine[object, object, None] | None:
        """Dispatch an event. Returns what is still to be awaited, if anything. Exceptions of observers are reported."""
        awaitables: list[Awaitable[object]] = []
        for observer in self._observers:
            try:
                handled = observer.handle(event)
            except Exception as error:  # noqa: BLE001 - reported: an observer must not break the run
                report_failure(event, error)
            else:
                if handled is not None and inspect.isawaitable(handled):
                    awaitables.append(handled)
        return _gather(event, awaitables) if awaitables else None

    def notify_and_wait(self, event: events.Event) -> None:
        """As `notify`; coroutines run in a background loop until they end."""
        pending = self.notify(event)
        if pending is not None:
            OBSERVER_LOOP.run(pending)


async def _gather(event: events.Event, awaitables: Sequence[Awaitable[object]]) -> None:
    """Await coroutines of observers; their exceptions are reported."""
    import asyncio  # noqa: PLC0415 - synchronous runs need no asyncio

    for outcome in await asyncio.gather(*awaitables, return_exceptions=True):
        if isinstance(outcome, Exception):
            report_failure(event, outcome)


def report_failure(event: events.Event, error: Exception) -> None:
    """Log the exception of an observer and warn of it."""
    name = OBSERVER_METHODS[type(event)]
    LOG.error("an observer of run %s failed on %s", event.run_id, type(event).__name__, exc_info=error)
    with suppress(Warning):  # where warnings are errors, too, the run goes on
        words = f"an observer or hook failed in {name}: {type(error).__name__}: {error}"
        warnings.warn(words, ObserverWarning, stacklevel=2)


_NO_OBSERVERS = ObserverDispatcher(())
_LOG_OBSERVER = LogObserver()
enable_debug_log()

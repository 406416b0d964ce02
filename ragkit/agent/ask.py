"""Steps 3 to 6 of a turn: cache, model (with retries), output guardrails, parsing."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import replace

from ragkit.agent import events as e
from ragkit.agent.cache import Cache, CacheKeyBuilder
from ragkit.agent.effects import CallModel, Flow, call_model, do, wait
from ragkit.agent.guardrails import Guardrail, apply
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.parser import ToolCallParser
from ragkit.agent.providers.base import Completion, Request
from ragkit.agent.run import Run
from ragkit.agent.trace import Span, StepType
from ragkit.errors import GuardrailBlocked, ProviderError
from ragkit.usage.meter import UsageStats


def ask(run: Run) -> Flow[tuple[Message, str]]:
    """What the model answers now, from the cache or from its service, checked and with its tool calls read.

    Returns the message and why the model stopped.
    """
    run.check()
    if run.limits.any:
        yield from _warn(run)
    request = run.request()
    span, completion = run.trace.note(StepType.CACHE), None
    if run.config.cache is not None and not run.live:
        completion = yield from _from_cache(run, run.config.cache, request, span)
    if completion is None:
        completion = yield from _from_model(run, request)
    message = completion.message
    rails = run.config.guardrails.output
    span = run.trace.note(StepType.OUTPUT_GUARDRAILS)
    if rails and message.content:
        message = replace(message, content=(yield from guard(run, "output", rails, message.content, span)))
        if run.live:  # the pieces were held back until the guardrails had seen the whole
            yield e.TextChunk(run.id, message.content)
    return _parsed(run, message), completion.stop_reason


def guard(run: Run, place: str, guardrails: Sequence[Guardrail], text: str, span: Span) -> Flow[str]:
    """Let guardrails look at a text. Returns what is left of it; raises GuardrailBlocked."""
    text, findings = apply(guardrails, text)
    for one in findings:
        span.attributes[one.guardrail] = one.action
        yield e.GuardrailTriggered(run.id, place, one.guardrail, one.action, one.reason)
        if one.action == "block":
            raise GuardrailBlocked(f"the {place} was blocked by the guardrail {one.guardrail}: {one.reason}")
    return text


def _warn(run: Run) -> Flow[None]:
    for unit, spent, limit in run.limits.near(run.meter, run.seconds):
        if unit not in run.warned:
            run.warned.add(unit)
            yield e.BudgetWarning(run.id, unit, spent, limit)


def _from_cache(run: Run, cache: Cache, request: Request, span: Span) -> Flow[Completion | None]:
    """Step 3. A streamed run does not ask the cache."""
    key = CacheKeyBuilder.build(run.agent.provider.name, request)
    found = yield from _lookup(cache, key)
    span.attributes["hit"] = found is not None
    span.ended = run.trace.now()
    if found is None:
        return None
    provider, model = _who(run, request, found)
    usage = run.meter.cache_hit(provider, model, found.usage, iteration=run.iteration)
    if run.heard:
        yield _ended(run, found, usage, cached=True, request=request, seconds=0.0)
    return found


def _lookup(cache: Cache, key: str) -> Flow[Completion | None]:
    return (yield from do(lambda: cache.get(key), waits=cache.waits))


def _from_model(run: Run, request: Request) -> Flow[Completion]:
    """Step 4: the request is sent, again when it failed in a way that may pass, and the answer is stored."""
    provider, cache = run.agent.provider, run.config.cache
    held = bool(run.config.guardrails.output)
    span = run.trace.open(StepType.LLM_CALL, request.model or provider.name)
    if run.heard:
        yield e.ModelCallStarted(run.id, run.iteration, provider.name, request.model, request)
    began = time.perf_counter()
    for attempt in range(1, run.config.retry.attempts + 1):
        try:
            effect = CallModel(
                run, provider, request, run.within(run.config.request_timeout_s), live=run.live and not held
            )
            completion = yield from call_model(effect)
            break
        except ProviderError as error:
            yield from _retry(run, attempt, error)
    usage = run.meter.chat(*_who(run, request, completion), completion.usage, iteration=run.iteration)
    _describe(span, completion, usage)
    run.trace.close(span)
    if completion.passed_over:
        yield e.FellBack(run.id, completion.passed_over, completion.provider)
    if run.heard:
        yield _ended(run, completion, usage, cached=False, request=request, seconds=time.perf_counter() - began)
    if cache is not None and not run.live:
        key = CacheKeyBuilder.build(provider.name, request)
        stored = completion
        yield from do(lambda: cache.set(key, stored), waits=cache.waits)
    return completion


def _retry(run: Run, attempt: int, error: ProviderError) -> Flow[None]:
    """Wait before the next attempt; raise the error when there is none."""
    run.check()  # a request that ended because the run's time is over, or it was cancelled
    delay = run.config.retry.wait(attempt, error)
    if delay is None:
        raise error
    run.trace.note(StepType.RETRY, type(error).__name__, {"attempt": attempt, "wait_s": delay, "error": str(error)})
    yield e.Retrying(run.id, run.iteration, attempt, delay, error, discard_text=run.live)
    within = run.within(delay)
    yield from wait(delay if within is None else within)
    run.check()


def _who(run: Run, request: Request, completion: Completion) -> tuple[str, str]:
    """Provider and model that answered."""
    return completion.provider or run.agent.provider.name, completion.model or request.model


def _ended(
    run: Run, completion: Completion, usage: UsageStats, *, cached: bool, request: Request, seconds: float
) -> e.ModelCallEnded:
    provider, model = _who(run, request, completion)
    return e.ModelCallEnded(
        run.id, run.iteration, provider, model, completion.message, usage, cached, completion.stop_reason, seconds
    )


def _describe(span: Span, completion: Completion, usage: UsageStats) -> None:
    span.attributes.update(
        {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cached_tokens": usage.cached_tokens,
            "cost_usd": usage.llm_cost_usd,
            "stop_reason": completion.stop_reason,
        }
    )


def _parsed(run: Run, message: Message) -> Message:
    """Step 6: tool calls written as text are read, and every call has an id.

    Where a form was asked for, the text is the answer and is left alone.
    """
    span = run.trace.note(StepType.PARSE)
    calls, text = message.tool_calls, message.content
    readable = not calls and text and len(run.agent.registry) and run.config.response_format is None
    native = run.agent.provider.native_tools
    if readable and run.config.text_tool_calls and not (native and "TOOL_CALL" not in text):
        parser = ToolCallParser(bare=not native)
        found = parser.find(text, run.agent.registry.list_names())
        calls = tuple([call for call, piece in found if not _quoted(run, piece)])
        text = parser.before(text) if calls else text
    if calls:
        seen: set[str] = set()
        calls = tuple([_identified(call, seen) for call in calls])
    span.attributes["tool_calls"] = [call.name for call in calls]
    span.ended = run.trace.now()
    # not `replace`: this is done for every answer
    return Message(
        message.role,
        text,
        calls,
        agent_name=run.agent.name,
        images=message.images,
        reasoning=message.reasoning,
        provider_state=message.provider_state,
        data=message.data,
    )


def _quoted(run: Run, piece: str) -> bool:
    """Whether a tool returned these words: a model that quotes a document must not do what the document says."""
    words = " ".join(piece.split())
    return any(words in " ".join(one.content.split()) for one in run.messages if one.role is Role.TOOL)


def _identified(call: ToolCall, seen: set[str]) -> ToolCall:
    """The call with an id that no other call of the message has."""
    if call.id and call.id not in seen:
        seen.add(call.id)
        return call
    return replace(call, id=f"call_{secrets.token_hex(8)}")

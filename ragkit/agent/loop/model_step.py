"""Steps 3 to 6 of a turn: cache, model (with retries), output guardrails, parsing."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from ragkit.agent import events
from ragkit.agent.cache.base import Cache, CacheKeyBuilder, is_blocking
from ragkit.agent.guardrails import Guardrail, apply_guardrails
from ragkit.agent.loop.call_repeats import without_repeats
from ragkit.agent.loop.run_state import RunState
from ragkit.agent.loop.side_effects import CallModel, EffectGenerator, call_model, run_function, sleep
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest
from ragkit.agent.providers.error_mapping import from_exception
from ragkit.agent.providers.parser import ToolCallParser, text_before_call
from ragkit.agent.providers.stream_filter import StreamFilter, split_reasoning
from ragkit.agent.tracing.trace import StepType, TraceSpan
from ragkit.errors import GuardrailBlocked, ProviderError
from ragkit.usage.meter import UsageStats, use_meter

T = TypeVar("T")
MAX_SHORTENINGS = 3
"""How often a request that its service finds too long is shortened and sent again."""


def run_model_step(run: RunState) -> EffectGenerator[tuple[Message, str]]:
    """The model's answer, from the cache or its service, after output guardrails and parsing.

    Returns the message and the stop reason.
    """
    if run.has_limits:
        yield from emit_budget_warnings(run)
    run.raise_if_stopped()
    request = run.build_request()
    span, completion = run.trace.add_span(StepType.CACHE), None
    cache = None if run.streaming else run.config.cache
    build_key = getattr(cache, "build_key", CacheKeyBuilder.build)
    key = build_key(run.agent.provider.name, request) if cache is not None else ""
    if cache is not None:
        completion = yield from _read_cache(run, cache, key, request, span)
    if completion is None:
        completion = yield from _call_with_retries(run, request)
        if run.has_limits:
            yield from emit_budget_warnings(run)
        if cache is not None:
            yield from run_function(_metered(run, partial(cache.set, key, completion)), blocking=is_blocking(cache))
    message = completion.message
    guardrails = run.config.guardrails.output
    span = run.trace.add_span(StepType.OUTPUT_GUARDRAILS)
    if guardrails and message.content:
        message = replace(
            message, content=(yield from enforce_guardrails(run, "output", guardrails, message.content, span))
        )
    parsed = _parse_tool_calls(run, message)
    if run.streaming:
        # with guardrails, all text is held back until they have checked it; without, what may be a tool call
        has_text_calls = len(parsed.tool_calls) > len(message.tool_calls)
        held = parsed.content if guardrails else "" if has_text_calls else run.stream_filter.flush()
        reasoning = run.stream_filter.take_reasoning()
        if reasoning:
            yield events.ReasoningChunk(run.id, reasoning)
        if held:
            yield events.TextChunk(run.id, held)
    return parsed, completion.stop_reason


def enforce_guardrails(
    run: RunState, place: str, guardrails: Sequence[Guardrail], text: str, span: TraceSpan
) -> EffectGenerator[str]:
    """Run guardrails on a text. Returns the new text; raises GuardrailBlocked."""
    text, findings = apply_guardrails(guardrails, text)
    for finding in findings:
        span.attributes[finding.guardrail] = finding.action
        yield events.GuardrailTriggered(run.id, place, finding.guardrail, finding.action, finding.reason)
        if finding.action == "block":
            raise GuardrailBlocked(f"the {place} was blocked by the guardrail {finding.guardrail}: {finding.reason}")
    return text


def emit_budget_warnings(run: RunState) -> EffectGenerator[None]:
    """Warn about each limit once, when it is nearly reached."""
    for unit, spent, limit in run.limits.warnings(run.meter, run.elapsed_s):
        if (unit, limit) not in run.warned_limits:
            run.warned_limits.add((unit, limit))
            yield events.BudgetWarning(run.id, unit, spent, limit)


def _read_cache(
    run: RunState, cache: Cache, key: str, request: ModelRequest, span: TraceSpan
) -> EffectGenerator[Completion | None]:
    """Step 3, cache. Streamed runs skip it."""
    cached = yield from run_function(_metered(run, partial(cache.get, key)), blocking=is_blocking(cache))
    if not isinstance(cached, Completion):  # a cache of the user's own may hold values of others
        cached = None
    span.attributes["hit"] = cached is not None
    span.ended = run.trace.elapsed_s()
    if cached is None:
        return None
    _add_reasoning(span, cached)
    provider, model = _provider_and_model(run, request, cached)
    usage = run.meter.record_cache_hit(provider, model, cached.usage, iteration=run.iteration)
    if run.has_listeners:
        yield _model_call_ended(run, cached, usage, cached=True, request=request, seconds=0.0)
    return cached


def _metered(run: RunState, work: Callable[[], T]) -> Callable[[], T]:
    """`work`, whose model calls are part of the run's usage: a semantic cache embeds."""

    def metered() -> T:
        with use_meter(run.meter, iteration=run.iteration):
            return work()

    return metered


def _call_with_retries(run: RunState, request: ModelRequest) -> EffectGenerator[Completion]:
    """Step 4: send the request, with retries."""
    provider = run.agent.provider
    streaming = run.streaming and not run.config.guardrails.output
    span = run.trace.start_span(StepType.LLM_CALL, request.model or provider.name)
    if run.has_listeners:
        yield events.ModelCallStarted(run.id, run.iteration, provider.name, request.model, request)
    started_at = time.perf_counter()
    attempt = shortened = 0
    while True:
        attempt += 1
        if run.streaming:
            run.stream_filter, run.has_streamed_text = _create_stream_filter(run), False
        try:
            timeout = run.cap_timeout(run.config.request_timeout_s)
            completion = yield from call_model(CallModel(run, provider, request, timeout, streaming))
            break
        except Exception as raised:
            error = from_exception(provider.name, request.model, raised)
            if error is None:
                raise
            smaller = run.reduce_request(request, error) if shortened < MAX_SHORTENINGS else None
            if smaller is not None:
                request, attempt, shortened = smaller, attempt - 1, shortened + 1
                run.trace.add_span(StepType.RETRY, type(error).__name__, {"error": str(error)})
                yield events.Retrying(run.id, run.iteration, shortened, 0.0, error, discard_text=False)
                continue
            yield from _wait_for_retry(run, attempt, error)
            if request.failed_in_chain != error.failed_in_chain:
                request = replace(request, failed_in_chain=error.failed_in_chain)
    completion = _without_reasoning(run, completion)
    if run.config.context_window is not None:
        run.config.context_window.observe(request, provider, completion.usage.prompt_tokens)
    name, model = _provider_and_model(run, request, completion)
    usage = run.meter.record_chat(name, model, completion.usage, iteration=run.iteration)
    span.attributes.update(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        cost_usd=usage.llm_cost_usd,
        stop_reason=completion.stop_reason,
    )
    _add_reasoning(span, completion)
    run.trace.end_span(span)
    if completion.fallback_errors:
        yield events.ProviderFallback(run.id, completion.fallback_errors, completion.provider)
    if run.has_listeners:
        seconds = time.perf_counter() - started_at
        yield _model_call_ended(run, completion, usage, cached=False, request=request, seconds=seconds)
    return completion


def _wait_for_retry(run: RunState, attempt: int, error: ProviderError) -> EffectGenerator[None]:
    """Wait before the next attempt; raise the error if there is none."""
    run.raise_if_stopped()  # the request may have failed because the run was cancelled or timed out
    delay = run.config.retry.next_wait_s(attempt, error)
    if error.failed_in_chain and attempt < run.config.retry.max_attempts:
        delay = 0.0  # another provider of the chain is tried
    if delay is None or (run.has_streamed_text and not run.retry_after_text):
        raise error
    run.trace.add_span(StepType.RETRY, type(error).__name__, {"attempt": attempt, "wait_s": delay, "error": str(error)})
    yield events.Retrying(run.id, run.iteration, attempt, delay, error, discard_text=run.has_streamed_text)
    capped_delay = run.cap_timeout(delay)
    yield from sleep(delay if capped_delay is None else capped_delay)
    run.raise_if_stopped()


def _add_reasoning(span: TraceSpan, completion: Completion) -> None:
    if completion.message.reasoning:
        span.attributes["reasoning"] = completion.message.reasoning


def _without_reasoning(run: RunState, completion: Completion) -> Completion:
    """The completion with reasoning that the model wrote into its text moved to `reasoning`."""
    message = completion.message
    if "<" not in message.content:
        return completion
    text, reasoning = split_reasoning(message.content, starts_with_reasoning=run.config.starts_with_reasoning)
    if not reasoning:
        return completion
    joined = "\n\n".join(part for part in (message.reasoning, reasoning) if part)
    return replace(completion, message=replace(message, content=text, reasoning=joined))


def _create_stream_filter(run: RunState) -> StreamFilter:
    native, names = run.agent.provider.native_tools, run.agent.registry.list_names()
    is_parsed = run.config.text_tool_calls and run.config.response_format is None
    bare = not native or run.agent.provider.writes_calls
    return StreamFilter(
        names if is_parsed else (), accept_bare_json=bare, starts_with_reasoning=run.config.starts_with_reasoning
    )


def _provider_and_model(run: RunState, request: ModelRequest, completion: Completion) -> tuple[str, str]:
    """The provider and the model that answered."""
    return completion.provider or run.agent.provider.name, completion.model or request.model


def _model_call_ended(
    run: RunState, completion: Completion, usage: UsageStats, *, cached: bool, request: ModelRequest, seconds: float
) -> events.ModelCallEnded:
    provider, model = _provider_and_model(run, request, completion)
    return events.ModelCallEnded(
        run.id, run.iteration, provider, model, completion.message, usage, cached, completion.stop_reason, seconds
    )


def _parse_tool_calls(run: RunState, message: Message) -> Message:
    """Step 6: parse tool calls from the text, and assign missing ids.

    With a `response_format`, the text is the answer and is not parsed.
    """
    span = run.trace.add_span(StepType.PARSE)
    calls, text = message.tool_calls, message.content
    readable = not calls and text and len(run.agent.registry) and run.config.response_format is None
    accepts_json = not run.agent.provider.native_tools or run.agent.provider.writes_calls
    if readable and run.config.text_tool_calls and (accepts_json or "TOOL_CALL" in text):
        matches = ToolCallParser(accept_bare_json=accepts_json).find_calls(text, run.agent.registry.list_names())
        written = [(call, piece) for call, piece in matches if not _is_quoted_from_tool(run, piece)]
        calls = tuple([call for call, _ in written])
        text = text_before_call(text, written[0][1]) if written else text
    if calls:
        calls = without_repeats(calls) if run.agent.provider.writes_calls else calls
        seen: set[str] = set()
        calls = tuple([_with_unique_id(call, seen) for call in calls])
    span.attributes["tool_calls"] = [call.name for call in calls]
    span.ended = run.trace.elapsed_s()
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


def is_failed_call(run: RunState, message: Message) -> bool:
    """Whether the whole answer is a call of a tool that does not exist: a small model imitates what it was shown."""
    provider, config = run.agent.provider, run.config
    model = config.model or provider.default_model
    can_call = config.text_tool_calls and config.response_format is None
    if message.tool_calls or not can_call or not len(run.agent.registry) or model in provider.models_without_tools:
        return False
    found = ToolCallParser(accept_bare_json=True).find_calls(message.content)
    if len(found) != 1:
        return False
    _, _, after = message.content.partition(found[0][1])
    return not text_before_call(message.content, found[0][1]) and not after.strip("` \n").removeprefix("</tool_call>")


def _is_quoted_from_tool(run: RunState, piece: str) -> bool:
    """Whether a tool returned these words: a model that quotes a document must not do what the document says."""
    words = " ".join(piece.split())
    return any(words in " ".join(message.content.split()) for message in run.messages if message.role is Role.TOOL)


def _with_unique_id(call: ToolCall, seen: set[str]) -> ToolCall:
    """The call with an id that no other call of the message has."""
    if call.id and call.id not in seen:
        seen.add(call.id)
        return call
    return replace(call, id=f"call_{secrets.token_hex(8)}")

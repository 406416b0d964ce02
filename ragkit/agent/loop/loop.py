"""The agent loop: a generator that yields events and effects and does no I/O itself.

One turn keeps the order of the eleven steps: input guardrails, memory (both in the first turn only), cache,
model, output guardrails, parsing, policy, coherence, tools, record, outcome. Steps 3 to 6 are in `model_step`,
7 to 10 in `tool_step`.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

from ragkit.agent import events
from ragkit.agent.loop.call_repeats import adds_nothing
from ragkit.agent.loop.memory_turn import MAX_UNREAD_S, MemoryTurn
from ragkit.agent.loop.model_step import emit_budget_warnings, enforce_guardrails, is_failed_call, run_model_step
from ragkit.agent.loop.opening import run_opening
from ragkit.agent.loop.run_state import FinalAnswer, Handoff, RunState, Stopped, TurnOutcome
from ragkit.agent.loop.side_effects import EffectGenerator, run_function, sleep, wait_for_future
from ragkit.agent.loop.structured_output import InvalidStructuredOutput, build_repair_prompt, parse_structured_output
from ragkit.agent.loop.tool_step import run_tool_step
from ragkit.agent.memory.memory import FifoLock
from ragkit.agent.messages import Message, Role
from ragkit.agent.result import AgentResult, ToolOutcome, attach_partial_result
from ragkit.agent.tracing.trace import StepType
from ragkit.errors import RunError
from ragkit.usage.meter import use_meter

MAX_ITERATIONS_TEXT = "[Max iterations reached]"


def run_loop(run: RunState) -> EffectGenerator[AgentResult]:
    """One run, from the input to the result. An error that ends it carries the partial result."""
    if run.has_listeners:
        yield events.RunStarted(run.id, run.agent.name, run.input_messages)
    turn: Future[None] | None = None
    try:
        if run.memory is not None:
            lock = run.memory.run_lock
            turn = run.memory_turn.granted = lock.acquire(run.memory_turn)
            while not turn.done():
                yield from _wait_for_memory(run.memory_turn, lock, turn)
                run.raise_if_stopped()  # its time may have passed while it waited
        result = yield from _run_turns(run)
        result = yield from _save_to_memory(run, result)
    except BaseException as error:
        if not isinstance(error, GeneratorExit | KeyboardInterrupt | SystemExit):
            yield from emit_budget_warnings(run)  # a limit of time is often reached while the run waits
            yield _failure_event(run, error)
        raise
    finally:
        if turn is not None and run.memory is not None:
            run.memory.run_lock.release(turn)
            run.memory_turn.granted = None
    run.trace.end_span(run.trace.root)
    run.final_result = result
    if run.has_listeners:
        yield events.RunEnded(run.id, result)
    return result


def _wait_for_memory(own: MemoryTurn, lock: FifoLock, turn: Future[None]) -> EffectGenerator[None]:
    """Wait until the turn comes, for some time at most. A stream that was left unread loses its own."""
    for _ in range(3):  # an event loop closes a generator that nobody holds any more in its next turns
        if own.waits_for_itself(lock):
            yield from sleep(0)
    if own.waits_for_itself(lock):
        raise RunError("the memory is in use by a stream that has not ended: read it to its end, or close it")
    holder = lock.holder
    left = holder.end_if_unread() if isinstance(holder, MemoryTurn) else MAX_UNREAD_S
    if left > 0:
        yield from wait_for_future(turn, left)
    elif isinstance(holder, MemoryTurn) and holder.granted is not None:
        lock.release(holder.granted)


def _failure_event(run: RunState, error: BaseException) -> events.RunFailed:
    run.trace.add_span(StepType.ERROR, type(error).__name__, {"message": str(error)})
    run.trace.end_span(run.trace.root)
    attach_partial_result(error, run.build_result("error"))
    return events.RunFailed(run.id, error)


def _run_turns(run: RunState) -> EffectGenerator[AgentResult]:
    while run.resumed_from is not None or run.iteration < run.config.max_iterations:
        if run.resumed_from is None:
            run.iteration += 1
        if run.has_listeners:
            messages = (*run.messages, *(run.input_messages if run.iteration == 1 else ()))
            yield events.IterationStarted(run.id, run.iteration, run.agent.name, messages)
        span = run.trace.start_span(StepType.ITERATION, f"iteration {run.iteration}")
        outcome = yield from _run_turn(run)
        run.trace.add_span(StepType.OUTCOME, outcome.label)
        run.trace.end_span(span)
        if run.has_listeners:
            yield events.IterationEnded(run.id, run.iteration, outcome.label)
        if isinstance(outcome, FinalAnswer):
            return run.build_result(outcome.stop_reason, outcome.content)
        if isinstance(outcome, Stopped):
            return (yield from _end_early(run, "loop")) if outcome.reason == "loop" else _stopped_result(run, outcome)
        if isinstance(outcome, Handoff):
            before = run.agent.name
            run.switch_agent(outcome.target)
            yield events.HandedOff(run.id, before, outcome.target.name, outcome.reason)
    return (yield from _end_early(run, "max_iterations"))


def _end_early(run: RunState, reason: str) -> EffectGenerator[AgentResult]:
    """End a run that is in a loop, or has used up its iterations: with an answer without tools, or a fixed text."""
    content = MAX_ITERATIONS_TEXT
    if reason == "max_iterations" and run.config.on_max_iterations == "stop":
        run.messages.append(Message(Role.ASSISTANT, content, agent_name=run.agent.name))
    else:
        content = yield from _request_last_answer(run, reason)
    if run.streaming and content is MAX_ITERATIONS_TEXT:
        yield events.TextChunk(run.id, content)
    return run.build_result(reason, content)


def _request_last_answer(run: RunState, reason: str) -> EffectGenerator[str]:
    run.tools_are_closed = True
    yield events.LastAnswerRequested(run.id, reason)
    span = run.trace.start_span(StepType.ITERATION, "last answer")
    outcome = yield from _request_answer(run)
    assert isinstance(outcome, FinalAnswer)  # noqa: S101 - without tools there are no calls
    run.trace.add_span(StepType.OUTCOME, outcome.label, {"reason": reason})
    run.trace.end_span(span)
    return outcome.content


def _stopped_result(run: RunState, outcome: Stopped) -> AgentResult:
    if outcome.error is not None:
        raise outcome.error
    return run.suspend() if outcome.reason == "approval" else run.build_result(outcome.reason)


def _run_turn(run: RunState) -> EffectGenerator[TurnOutcome]:
    """One turn: one request to the model and its tool calls."""
    resumed, run.resumed_from = run.resumed_from, None
    if resumed is not None:
        return (yield from run_tool_step(run, run.messages[-1], resumed.decisions))
    run.meter.begin_iteration(run.iteration)
    if run.iteration == 1:
        yield from _prepare_conversation(run)
        opened = yield from run_opening(run)
        if isinstance(opened, Stopped):
            return opened
    message = yield from _request_answer(run)
    if isinstance(message, FinalAnswer):
        return message
    if message.content:
        run.reasoning_parts.append(message.content)
    if run.config.routing_only:
        run.tool_outcomes += [ToolOutcome(call, "") for call in message.tool_calls]
        run.trace.add_span(StepType.RECORD)
        return FinalAnswer(message.content, "routing_only")
    return (yield from run_tool_step(run, message, {}))


def _request_answer(run: RunState) -> EffectGenerator[FinalAnswer | Message]:
    """Ask the model until it answers, or calls tools; an answer that does not match `response_format` is repaired."""
    while True:
        message, stop_reason = yield from run_model_step(run)
        if run.agent.provider.writes_calls and not run.tools_are_closed:
            if is_failed_call(run, message):
                run.learn_no_tools(run.config.model or run.agent.provider.default_model)
                continue
            if run.config.on_loop == "auto" and _adds_nothing(run, message):
                run.tools_are_closed = True
                yield events.LastAnswerRequested(run.id, "loop")
                continue
        if run.tools_are_closed and (message.tool_calls or not message.content):
            stop_reason = "loop" if message.tool_calls else stop_reason
            message = replace(message, tool_calls=(), content=message.content or MAX_ITERATIONS_TEXT)
        run.messages.append(message)
        if message.reasoning:
            run.reasoning_parts.append(message.reasoning)
        if message.tool_calls:
            return message
        run.trace.add_span(StepType.RECORD)
        if _is_valid_answer(run, message):
            return FinalAnswer(message.content, stop_reason)


def _adds_nothing(run: RunState, message: Message) -> bool:
    """Whether an answer after successful calls repeats one of them, is empty, or names a tool instead of its result.

    Seen with models of .5 to 1.5 billion parameters; without tools in the request they answer from the results.
    """
    outcomes = [outcome for outcome in run.tool_outcomes if outcome.error is None]
    if not outcomes or run.has_streamed_text:
        return False
    if message.tool_calls:
        return all(adds_nothing(run.tool_outcomes, call) for call in message.tool_calls)
    names = (outcome.call.name for outcome in outcomes if "_" in outcome.call.name)
    return not message.content.strip() or any(name in message.content for name in names)


def _prepare_conversation(run: RunState) -> EffectGenerator[None]:
    """Steps 1 and 2: check the input with guardrails, and append it to the history."""
    span = run.trace.start_span(StepType.INPUT_GUARDRAILS)
    checked: list[Message] = []
    for message in run.input_messages:
        text = message.content
        if message.role is Role.USER and run.config.guardrails.input:
            text = yield from enforce_guardrails(run, "input", run.config.guardrails.input, text, span)
        checked.append(message if text is message.content else replace(message, content=text))
    run.trace.end_span(span)
    span = run.trace.start_span(StepType.MEMORY)
    if run.memory is not None:
        run.messages += run.memory.load_messages()
        run.state = {**run.memory.tool_state, **run.state}
        run.new_messages_start = len(run.messages)
        span.attributes["messages"] = run.new_messages_start
    run.trace.end_span(span)
    run.add_input(checked)


def _is_valid_answer(run: RunState, message: Message) -> bool:
    """Whether the answer matches `response_format`. If not, ask for a repair; raises RunError after the last one."""
    form = run.config.response_format
    if form is None:
        return True
    try:
        run.parsed = parse_structured_output(message.content, form)
    except InvalidStructuredOutput as error:
        if run.repairs >= run.config.max_repairs:
            requests = {0: "", 1: " after a repair request"}.get(run.repairs, f" after {run.repairs} repair requests")
            raise RunError(f"the answer does not match response_format{requests}: {error}") from error
        run.repairs += 1
        run.trace.add_span(StepType.REPAIR, attributes={"error": str(error)})
        run.messages.append(Message(Role.USER, build_repair_prompt(error)))
        return False
    return True


def _save_to_memory(run: RunState, result: AgentResult) -> EffectGenerator[AgentResult]:
    """Add the messages of this run to the memory, unless the run is suspended.

    Returns the result with what the memory spent on a summary.
    """
    memory = run.memory
    if memory is None or result.suspended is not None or result.stop_reason == "routing_only":
        return result
    new = run.messages[run.new_messages_start :]

    def record() -> list[Message]:
        with use_meter(run.meter, iteration=run.iteration):
            return memory.record_turn(new, run.state)

    calls = len(run.meter.calls)
    dropped = yield from run_function(record, blocking=memory.is_persistent)
    if dropped:
        yield events.MemoryTrimmed(run.id, tuple(dropped))
    return result if len(run.meter.calls) == calls else run.add_usage(result)

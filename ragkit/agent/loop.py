"""The agent loop: a generator that yields events and effects and does no input or output itself.

One turn keeps the order of the eleven steps: input guardrails, memory (both in the first turn only), cache,
model, output guardrails, parsing, policy, coherence, tools, record, outcome. Steps 3 to 6 are in `ask`,
7 to 9 in `act`.
"""

from __future__ import annotations

from asyncio import CancelledError
from concurrent.futures import Future
from dataclasses import replace

from ragkit.agent import events as e
from ragkit.agent.act import act
from ragkit.agent.ask import ask, guard
from ragkit.agent.effects import Flow, await_future, do
from ragkit.agent.messages import Message, Role
from ragkit.agent.result import AgentResult, ToolOutcome, attach_partial
from ragkit.agent.run import RUN_AGAIN, FinalAnswer, HandOff, Outcome, Run, Stopped
from ragkit.agent.structured import AnswerInvalid, read_answer, repair_prompt
from ragkit.agent.trace import StepType
from ragkit.errors import RunError

MAX_ITERATIONS_TEXT = "[Max iterations reached]"


def run_loop(run: Run) -> Flow[AgentResult]:
    """One run, from the user's words to the result. Raises what ends it; the error carries what there was."""
    if run.heard:
        yield e.RunStarted(run.id, run.agent.name, run.given)
    turn: Future[None] | None = None
    try:
        if run.memory is not None:
            turn = run.memory.turns.enter()
            yield from await_future(turn)
            run.check()  # the run's time may have been over before its turn came
        result = yield from _turns(run)
        yield from _remember(run, result)
    except (Exception, CancelledError) as error:
        yield _failed(run, error)
        raise
    finally:
        if turn is not None and run.memory is not None:
            run.memory.turns.leave(turn)
    run.trace.close(run.trace.root)
    run.ended = result
    if run.heard:
        yield e.RunEnded(run.id, result)
    return result


def _failed(run: Run, error: BaseException) -> e.RunFailed:
    run.trace.note(StepType.ERROR, type(error).__name__, {"message": str(error)})
    run.trace.close(run.trace.root)
    attach_partial(error, run.result("error"))
    return e.RunFailed(run.id, error)


def _turns(run: Run) -> Flow[AgentResult]:
    while run.resumed is not None or run.iteration < run.config.max_iterations:
        if run.resumed is None:
            run.iteration += 1
        if run.heard:
            yield e.IterationStarted(run.id, run.iteration, run.agent.name)
        span = run.trace.open(StepType.ITERATION, f"iteration {run.iteration}")
        outcome = yield from _turn(run)
        run.trace.note(StepType.OUTCOME, outcome.label)
        run.trace.close(span)
        if run.heard:
            yield e.IterationEnded(run.id, run.iteration, outcome.label)
        if isinstance(outcome, FinalAnswer):
            return run.result(outcome.stop_reason, outcome.content)
        if isinstance(outcome, Stopped):
            return _stop(run, outcome)
        if isinstance(outcome, HandOff):
            before = run.agent.name
            run.hand_over(outcome.target)
            yield e.HandedOff(run.id, before, outcome.target.name, outcome.reason)
    run.messages.append(Message(Role.ASSISTANT, MAX_ITERATIONS_TEXT, agent_name=run.agent.name))
    return run.result("max_iterations", MAX_ITERATIONS_TEXT)


def _stop(run: Run, outcome: Stopped) -> AgentResult:
    if outcome.error is not None:
        raise outcome.error
    return run.suspend() if outcome.reason == "approval" else run.result(outcome.reason)


def _turn(run: Run) -> Flow[Outcome]:
    """One turn: one request to the model and what follows from it."""
    resumed, run.resumed = run.resumed, None
    if resumed is not None:
        return (yield from act(run, run.messages[-1], resumed.decisions))
    run.meter.begin_iteration(run.iteration)
    if run.iteration == 1:
        yield from _open(run)
    message, stop_reason = yield from ask(run)
    run.messages.append(message)
    if message.reasoning:
        run.reasons.append(message.reasoning)
    if not message.tool_calls:
        return _finish(run, message, stop_reason)
    if message.content:
        run.reasons.append(message.content)
    if run.config.routing_only:
        run.outcomes += [ToolOutcome(call, "") for call in message.tool_calls]
        run.trace.note(StepType.RECORD)
        return FinalAnswer(message.content, "routing_only")
    return (yield from act(run, message, {}))


def _open(run: Run) -> Flow[None]:
    """Steps 1 and 2: the user's words are checked, and put behind what memory holds."""
    span = run.trace.open(StepType.INPUT_GUARDRAILS)
    given: list[Message] = []
    for message in run.given:
        text = message.content
        if message.role is Role.USER and run.config.guardrails.input:
            text = yield from guard(run, "input", run.config.guardrails.input, text, span)
        given.append(message if text is message.content else replace(message, content=text))
    run.trace.close(span)
    span = run.trace.open(StepType.MEMORY)
    if run.memory is not None:
        run.messages += run.memory.get_history()
        run.first_new = len(run.messages)
        span.attributes["messages"] = run.first_new
    run.trace.close(span)
    run.messages += given


def _finish(run: Run, message: Message, stop_reason: str) -> Outcome:
    """The model has answered. Where a form was asked for, the answer must have it; one repair is asked for."""
    run.trace.note(StepType.RECORD)
    form = run.config.response_format
    if form is not None:
        try:
            run.parsed = read_answer(message.content, form)
        except AnswerInvalid as error:
            if run.repaired:
                raise RunError(f"the answer has not the form that was asked for, asked twice: {error}") from error
            run.repaired = True
            run.messages.append(Message(Role.USER, repair_prompt(error)))
            return RUN_AGAIN
    return FinalAnswer(message.content, stop_reason)


def _remember(run: Run, result: AgentResult) -> Flow[None]:
    """Put the messages of this run into memory, unless the run only waits to go on."""
    memory = run.memory
    if memory is None or result.suspended is not None or result.stop_reason == "routing_only":
        return
    new = run.messages[run.first_new :]
    dropped = yield from do(lambda: memory.add_many(new), waits=memory.persistent)
    if dropped:
        yield e.MemoryTrimmed(run.id, tuple(dropped))

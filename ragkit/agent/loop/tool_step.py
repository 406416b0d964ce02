"""Steps 7 to 10 of a turn: policy, coherence, tools, record. A failed call gets an error result; it never raises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ragkit.agent import events
from ragkit.agent.guardrails import GuardrailFinding, apply_guardrails, apply_guardrails_to_arguments
from ragkit.agent.loop.call_repeats import count_repeats
from ragkit.agent.loop.coherence_check import CoherenceVerdict
from ragkit.agent.loop.definition import AgentDefinition, HandoffTool
from ragkit.agent.loop.paged_results import MAX_PAGED_CHARS, READ_TOOL
from ragkit.agent.loop.run_state import RUN_AGAIN, Handoff, RunState, Stopped, TurnOutcome
from ragkit.agent.loop.side_effects import (
    CallModel,
    EffectGenerator,
    RunTools,
    ToolJob,
    await_future,
    call_model,
    run_function,
    run_tools,
)
from ragkit.agent.loop.tool_cache import find_kept_result, keep_result
from ragkit.agent.loop.tool_execution import RepeatedCall
from ragkit.agent.messages import BY_RAGKIT, Message, Role, ToolCall
from ragkit.agent.policy import ApprovalRequest
from ragkit.agent.providers.error_mapping import from_exception
from ragkit.agent.result import PendingToolCall, ToolOutcome
from ragkit.agent.runtime.background_tasks import THREAD_POOL
from ragkit.agent.tools.base import Tool
from ragkit.agent.tracing.trace import StepType, TraceSpan
from ragkit.errors import HandoffFailed, InvalidToolArguments, ToolCallLoop, ToolRefused, UnknownName, shorten

if TYPE_CHECKING:
    from ragkit.usage.analytics import AgentAnalytics


@dataclass(slots=True)
class ToolPlan:
    """The calls of a turn and their outcomes. Calls without an outcome will be executed."""

    calls: list[ToolCall]
    tools: list[Tool | None]
    outcomes: list[ToolOutcome | None]
    arguments: list[dict[str, object]] = field(default_factory=list)
    handoff_index: int | None = None
    """Index of the handoff call."""

    def undecided(self) -> list[int]:
        """The calls without an outcome."""
        return [index for index, outcome in enumerate(self.outcomes) if outcome is None]

    def refuse(self, index: int, error: Exception) -> None:
        """Set an error as the outcome of a call."""
        self.outcomes[index] = ToolOutcome(self.calls[index], f"Error: {error}", None, error)
        if self.handoff_index == index:
            self.handoff_index = None


def run_tool_step(run: RunState, message: Message, decisions: Mapping[str, bool]) -> EffectGenerator[TurnOutcome]:
    """Check and execute the calls of a message. `decisions`: approvals and rejections of the user, by call id."""
    plan = plan_tool_calls(run, message.tool_calls)
    if run.config.guardrails.tool_arguments:
        yield from _apply_argument_guardrails(run, plan)
    _validate_arguments(plan)
    limit = run.config.max_repeated_calls
    is_loop = limit is not None and len(run.tool_outcomes) >= limit
    is_loop = is_loop and (yield from _refuse_repeated_calls(run, plan, limit or 1))
    pending = yield from _apply_policy(run, plan, decisions)
    if pending:
        run.pending = tuple(pending)
        return Stopped("approval")
    yield from _check_coherence(run, plan)
    yield from _execute_tools(run, plan)
    _record_results(run, plan)
    if plan.handoff_index is None:
        return Stopped("loop") if is_loop and run.config.on_loop == "answer" else RUN_AGAIN
    call = plan.calls[plan.handoff_index]
    target = _find_handoff_target(run, plan.tools[plan.handoff_index])
    run.trace.add_span(StepType.HANDOFF, target.name, {"from": run.agent.name})
    return Handoff(target, str(call.arguments.get("reason", "")))


def plan_tool_calls(run: RunState, calls: Sequence[ToolCall]) -> ToolPlan:
    """Look up the tool of each call. The first handoff wins; later ones are ignored."""
    plan = ToolPlan(list(calls), [None] * len(calls), [None] * len(calls), [{} for _ in calls])
    for index, call in enumerate(calls):
        if run.paged_results is not None and call.name == run.paged_results.tool.name:
            plan.tools[index] = run.paged_results.tool
            continue
        if call.name not in run.agent.registry:
            plan.refuse(index, UnknownName("tool", call.name, run.agent.registry.list_names()))
            continue
        plan.tools[index] = tool = run.agent.registry.get(call.name)
        if not isinstance(tool, HandoffTool):
            continue
        if plan.handoff_index is None:
            plan.handoff_index = index
        else:
            first = plan.calls[plan.handoff_index].name
            plan.refuse(index, ToolRefused(f"ignored, because {first} came first"))
    return plan


def _apply_argument_guardrails(run: RunState, plan: ToolPlan) -> EffectGenerator[None]:
    guardrails = run.config.guardrails.tool_arguments
    for index in plan.undecided():
        arguments, findings = apply_guardrails_to_arguments(guardrails, plan.calls[index].arguments)
        yield from _report_findings(run, "tool_arguments", findings)
        blocked = next((finding for finding in findings if finding.action == "block"), None)
        if blocked:
            plan.refuse(index, ToolRefused(f"its arguments were blocked by {blocked.guardrail}: {blocked.reason}"))
        else:
            plan.calls[index] = replace(plan.calls[index], arguments=arguments)


def _report_findings(run: RunState, place: str, findings: Sequence[GuardrailFinding]) -> EffectGenerator[None]:
    for finding in findings:
        yield events.GuardrailTriggered(run.id, place, finding.guardrail, finding.action, finding.reason)


def _validate_arguments(plan: ToolPlan) -> None:
    for index in plan.undecided():
        call, tool = plan.calls[index], plan.tools[index]
        if call.malformed:
            problem = f"no JSON object can be read from {shorten(call.malformed, 200)!r}"
            plan.refuse(index, InvalidToolArguments(call.name, [problem]))
            continue
        try:
            plan.arguments[index] = tool.validate(call.arguments) if tool else {}
        except InvalidToolArguments as error:
            plan.refuse(index, error)


def _refuse_repeated_calls(run: RunState, plan: ToolPlan, limit: int) -> EffectGenerator[bool]:
    """Refuse the calls that the run repeats without a new result. Whether there are any. Raises ToolCallLoop."""
    found = False
    for index, call in enumerate(plan.calls):
        times = count_repeats(run.tool_outcomes, call)
        if index == plan.handoff_index or times < limit:
            continue
        found = True
        run.trace.add_span(StepType.LOOP, call.name, {"call_id": call.id, "times": times})
        yield events.LoopDetected(run.id, run.iteration, call, times)
        if run.config.on_loop == "raise":
            raise ToolCallLoop(f"the model is in a loop: {call.name} had the same result {times} times")
        advice = "use that result, try something else, or answer"
        plan.refuse(
            index, RepeatedCall(f"{call.name} had the same result {times} times with these arguments: {advice}")
        )
    return found


def _apply_policy(
    run: RunState, plan: ToolPlan, decisions: Mapping[str, bool]
) -> EffectGenerator[list[PendingToolCall]]:
    """Step 7, policy. Returns the calls that need approval."""
    policy, span = run.config.policy, run.trace.add_span(StepType.POLICY)
    pending: list[PendingToolCall] = []
    run.decisions.update(decisions)
    if policy is None:
        return pending
    for index in plan.undecided():
        call = plan.calls[index]
        if run.paged_results is not None and plan.tools[index] is run.paged_results.tool:
            continue  # the call that it continues was allowed
        decision = policy.decide(call)
        span.attributes[call.id] = decision.decision
        yield events.PolicyDecided(run.id, call, decision.decision, decision.reason)
        if decision.decision == "deny":
            plan.refuse(index, ToolRefused(f"{call.name} is not allowed: {decision.reason}"))
        elif decision.decision == "review":
            may = yield from _request_approval(run, call, decision.reason)
            if may is None:
                pending.append(PendingToolCall(call, decision.reason))
                yield events.ApprovalNeeded(run.id, call, decision.reason)
            elif not may:
                plan.refuse(index, ToolRefused(f"{call.name} was refused by a person: {decision.reason}"))
    span.ended = run.trace.elapsed_s()
    return pending


def _request_approval(run: RunState, call: ToolCall, reason: str) -> EffectGenerator[bool | None]:
    if call.id in run.decisions:
        return run.decisions[call.id]
    approve = run.config.approve
    if approve is None:
        return None
    request = ApprovalRequest(call, reason, run.agent.name, run.id)
    if run.cancel is None and run.limits.max_seconds is None:
        may = yield from run_function(lambda: approve(request), blocking=True)
    else:  # in a thread, which the run abandons when it is cancelled or its time is over
        answer = THREAD_POOL.submit(lambda: approve(request))
        may = yield from await_future(answer)
        while not answer.done():
            run.raise_if_stopped()
            may = yield from await_future(answer)
    if may is not None:
        run.decisions[call.id] = may
    return may


def _check_coherence(run: RunState, plan: ToolPlan) -> EffectGenerator[None]:
    """Step 8, coherence check."""
    check, span = run.config.coherence, run.trace.add_span(StepType.COHERENCE)
    indices = [
        index
        for index in (plan.undecided() if check else ())
        if index != plan.handoff_index and plan.calls[index].by != BY_RAGKIT
    ]
    if check is not None and indices:
        provider = check.provider or run.agent.provider
        request = check.build_request(run.last_user_text, [plan.calls[index] for index in indices])
        own_model = run.config.model if check.provider is None else ""
        request = replace(request, model=request.model or own_model or provider.default_model)
        try:
            run.raise_if_stopped()
            effect = CallModel(run, provider, request, run.cap_timeout(run.config.request_timeout_s))
            completion = yield from call_model(effect)
            name, model = completion.provider or provider.name, completion.model or request.model
            run.meter.record_chat(name, model, completion.usage, iteration=run.iteration)
            verdict = check.parse_verdict(completion, len(indices))
        except Exception as raised:
            error = from_exception(provider.name, request.model, raised)
            if error is None:
                raise
            verdict = CoherenceVerdict({}, str(error))
        reasons = dict(verdict.refused)
        if verdict.problem:
            span.attributes["error"] = verdict.problem
            if not check.fail_open:
                reasons = dict.fromkeys(range(len(indices)), f"it could not be checked: {verdict.problem}") | reasons
        for position, reason in reasons.items():
            call = plan.calls[indices[position]]
            span.attributes[call.id] = reason
            plan.refuse(indices[position], ToolRefused(f"{call.name} does not fit the request: {reason}"))
    span.ended = run.trace.elapsed_s()


def _execute_tools(run: RunState, plan: ToolPlan) -> EffectGenerator[None]:
    """Step 9: run the tools, concurrently unless configured otherwise. Results keep the order of the calls."""
    span = run.trace.start_span(StepType.TOOL_EXECUTION)
    if plan.handoff_index is not None:
        tool, call = plan.tools[plan.handoff_index], plan.calls[plan.handoff_index]
        plan.outcomes[plan.handoff_index] = ToolOutcome(call, str(tool(**call.arguments)) if tool else "", attempts=1)
    for index in plan.undecided():
        tool = plan.tools[index]
        kept = find_kept_result(run, tool, plan.calls[index]) if tool is not None and tool.cache is not None else None
        if kept is not None:
            yield from _finish_call(run, plan, index, kept, span)
    indices = plan.undecided()
    groups = [indices] if run.config.parallel_tool_execution else [[index] for index in indices]
    for group in groups:
        if not group:
            continue
        for index in group if run.has_listeners else ():
            yield events.ToolStarted(run.id, run.iteration, plan.calls[index])
        outcomes = yield from run_tools(RunTools(run, [_create_job(run, plan, index) for index in group]))
        if any(outcome.error is not None for outcome in outcomes):
            outcomes = yield from _run_fallbacks(run, plan, group, outcomes)
        for index, outcome in zip(group, outcomes, strict=True):
            run.meter.record_tool_execution(outcome.name)
            tool = plan.tools[index]
            if tool is not None and tool.cache is not None:
                keep_result(run, tool, outcome)
            yield from _finish_call(run, plan, index, outcome, span)
    for done in plan.outcomes:
        if done is not None and run.config.analytics is not None:
            _record_analytics(run.config.analytics, done)
        if done is not None and run.has_listeners:
            yield _tool_event(run, done)
    run.trace.end_span(span)


def _finish_call(
    run: RunState, plan: ToolPlan, index: int, outcome: ToolOutcome, span: TraceSpan
) -> EffectGenerator[None]:
    """Set the outcome of a call, as the model sees it, and add its span to the trace."""
    plan.outcomes[index] = screened = yield from _screen_output(run, outcome)
    _add_tool_span(span, screened, run.trace.elapsed_s() - outcome.seconds)


def _run_fallbacks(
    run: RunState, plan: ToolPlan, indices: Sequence[int], outcomes: Sequence[ToolOutcome]
) -> EffectGenerator[list[ToolOutcome]]:
    """The outcomes, where that of a failed tool is replaced by that of its fallback, unless it fails too."""
    results = list(outcomes)
    jobs: dict[int, ToolJob] = {}
    for position, index in enumerate(indices):
        tool = plan.tools[index]
        if results[position].error is not None and tool is not None and isinstance(tool.fallback, Tool):
            job = _create_fallback_job(run, plan.calls[index], tool.fallback)
            jobs |= {position: job} if job else {}
    if not jobs:
        return results
    answers = yield from run_tools(RunTools(run, list(jobs.values())))
    for position, answer in zip(jobs, answers, strict=True):
        if answer.error is None:
            seconds = results[position].seconds + answer.seconds
            attempts = results[position].attempts + answer.attempts
            name = jobs[position].tool.name
            results[position] = replace(answer, seconds=seconds, attempts=attempts, fallback=name)
    return results


def _create_fallback_job(run: RunState, call: ToolCall, fallback: Tool) -> ToolJob | None:
    """The call of a fallback; None if the policy does not allow it or the arguments do not fit."""
    policy = run.config.policy
    if policy is not None and policy.decide(replace(call, name=fallback.name)).decision != "allow":
        return None
    try:
        arguments = fallback.validate(call.arguments)
    except InvalidToolArguments:
        return None
    timeout = fallback.timeout_s if fallback.timeout_s is not None else run.config.tool_timeout_s
    return ToolJob(run, call, fallback, arguments, run.cap_timeout(timeout))


def _create_job(run: RunState, plan: ToolPlan, index: int) -> ToolJob:
    tool = plan.tools[index]
    assert tool is not None  # noqa: S101 - calls without a tool have an outcome
    timeout = tool.timeout_s if tool.timeout_s is not None else run.config.tool_timeout_s
    return ToolJob(run, plan.calls[index], tool, plan.arguments[index], run.cap_timeout(timeout))


def _screen_output(run: RunState, outcome: ToolOutcome) -> EffectGenerator[ToolOutcome]:
    """The outcome for the model: checked by guardrails, screened for prompt injection, paged."""
    text = outcome.content[:MAX_PAGED_CHARS]
    guardrails = [*run.config.guardrails.tool_results]
    if run.config.screening.guardrail is not None:
        guardrails.append(run.config.screening.guardrail)
    if guardrails and text:
        text, findings = apply_guardrails(guardrails, text)
        yield from _report_findings(run, "tool_results", findings)
        blocked = next((finding for finding in findings if finding.action == "block"), None)
        if blocked is not None:
            error = ToolRefused(f"the result was withheld by {blocked.guardrail}: {blocked.reason}")
            return replace(outcome, content=f"Error: {error}", data=None, error=error)
    if len(text) > run.config.max_tool_output_chars and outcome.name != READ_TOOL:
        text = run.page_result(text, len(outcome.content))
    return outcome if text is outcome.content else replace(outcome, content=text)


def _add_tool_span(parent: TraceSpan, outcome: ToolOutcome, started: float) -> None:
    span = TraceSpan(StepType.TOOL, outcome.name, started, started + outcome.seconds)
    span.attributes = {"call_id": outcome.call.id, "attempts": outcome.attempts, "chars": len(outcome.content)}
    if outcome.call.by == BY_RAGKIT:
        span.attributes["by"] = BY_RAGKIT
    if outcome.cached:
        span.attributes["cached"] = True
    if outcome.fallback:
        span.attributes["fallback"] = outcome.fallback
    if outcome.error is not None:
        span.attributes["error"] = str(outcome.error)
    parent.children.append(span)


def _record_analytics(analytics: AgentAnalytics, outcome: ToolOutcome) -> None:
    error = type(outcome.error).__name__ if outcome.error else ""
    analytics.record_tool(outcome.name, outcome.arguments, outcome.seconds, error=error, chunks=outcome.chunks)


def _tool_event(run: RunState, done: ToolOutcome) -> events.ToolEnded | events.ToolFailed:
    if done.error is not None:
        return events.ToolFailed(run.id, run.iteration, done.call, done.error, done.content, done.seconds)
    return events.ToolEnded(
        run.id, run.iteration, done.call, done.content, done.data, done.seconds, done.attempts, done.chunks
    )


def _record_results(run: RunState, plan: ToolPlan) -> None:
    """Step 10: append the results as messages, in the order of the calls."""
    done = [outcome for outcome in plan.outcomes if outcome is not None]
    run.tool_outcomes += done
    run.messages += [
        Message(Role.TOOL, result.content, (), result.call.id, result.name, result.error is not None, data=result.data)
        for result in done
    ]
    run.trace.add_span(StepType.RECORD, attributes={"results": len(done)})


def _find_handoff_target(run: RunState, tool: Tool | None) -> AgentDefinition:
    """The agent that a handoff names. Raises HandoffFailed."""
    if isinstance(tool, HandoffTool):
        if isinstance(tool.target, AgentDefinition):
            return run.agents.get(tool.target.name, tool.target)
        if tool.target in run.agents:
            return run.agents[tool.target]
    name = tool.target_name if isinstance(tool, HandoffTool) else ""
    known = ", ".join(run.agents) or "none"
    raise HandoffFailed(f"unknown handoff target {name!r} (available: {known}): add the agent to the AgentRunner")

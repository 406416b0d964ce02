"""Teams of agents: handoffs, the next speaker, conversations that continue in another process."""

import asyncio
import copy
import json
import pickle
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.events import Event, HandedOff
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.loop.definition import HandoffTool
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.observers import AgentObserver
from ragkit.agent.policy import ToolPolicy
from ragkit.agent.providers.base import ModelRequest
from ragkit.agent.providers.scripted import FunctionProvider, ScriptedProvider, ScriptedTurn
from ragkit.agent.result import AgentResult, RunContext, partial_result
from ragkit.agent.runner import AgentRunner, ConversationState
from ragkit.agent.tools.base import ToolContext, tool
from ragkit.agent.tracing.trace import StepType
from ragkit.errors import HandoffFailed, InvalidOption
from tests.agent.parts import add, call, final_result, request_messages, scripted, tool_messages


def team(*scripts: list[ScriptedTurn]) -> tuple[AgentRunner, list[ScriptedProvider]]:
    """Triage, billing and support, each of which can hand over to each other."""
    names = ["Triage", "Billing", "Support"]
    providers = [ScriptedProvider(script) for script in (*scripts, [], [], [])[:3]]
    agents = [
        Agent(
            provider,
            [add],
            name=name,
            instructions=f"You are {name}.",
            description=f"Knows all about {name.lower()}.",
            handoffs=[target for target in names if target != name],
        )
        for name, provider in zip(names, providers, strict=True)
    ]
    return AgentRunner(agents), providers


def speakers(result: AgentResult) -> list[str]:
    return [message.agent_name for message in result.messages if message.role is Role.ASSISTANT]


def test_a_handoff_is_a_tool_and_the_other_agent_answers() -> None:
    runner, providers = team([call("handoff_to_billing", reason="an invoice")], ["I can help with billing"])
    result = runner.run("My invoice is wrong")
    assert (result.content, result.agent_name) == ("I can help with billing", "Billing")
    assert speakers(result) == ["Triage", "Billing"]
    assert tool_messages(result) == ["handed over to Billing: an invoice"]
    assert providers[1].requests[0].messages[0].content.startswith("You are Billing.")
    assert [tool.name for tool in providers[0].requests[0].tools] == ["add", "handoff_to_billing", "handoff_to_support"]
    assert [span.attributes for span in result.trace.find_spans(StepType.HANDOFF)] == [{"from": "Triage"}]


def test_the_first_handoff_wins_and_later_ones_are_reported_as_ignored() -> None:
    calls = [call("handoff_to_support", "c1"), call("handoff_to_billing", "c2"), call("handoff_to_support", "c3")]
    runner, _ = team([calls], [], ["support here"])
    result = runner.run("help")
    assert (result.content, result.agent_name) == ("support here", "Support")
    ignored = "Error: ignored, because handoff_to_support came first"
    assert tool_messages(result) == ["handed over to Support", ignored, ignored]


def test_ordinary_tools_of_the_same_turn_are_executed() -> None:
    runner, _ = team([[call("handoff_to_billing", "c1"), call("add", "c2", a=1, b=2)]], ["three"])
    assert tool_messages(runner.run("x")) == ["handed over to Billing", "3"]


def test_agents_may_be_passed_as_objects_and_run_without_a_runner() -> None:
    billing = Agent(ScriptedProvider(["paid"]), name="Billing Desk", description="Takes money.")
    triage = Agent(ScriptedProvider([call("handoff_to_billing_desk")]), name="Triage", handoffs=[billing])
    [handoff_tool] = triage.registry.list_all()
    assert handoff_tool.description == "Hand the conversation over to Billing Desk. Takes money."
    result = triage.run("pay")
    assert (result.content, result.agent_name) == ("paid", "Billing Desk")


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("Büro", "handoff_to_buro"),
        ("Café-Été 2", "handoff_to_cafe_ete_2"),
        ("Straße", "handoff_to_stra_e_[0-9a-f]{6}"),
        ("営業", "handoff_to_[0-9a-f]{6}"),
        ("!?", "handoff_to_[0-9a-f]{6}"),
        ("x" * 80, "handoff_to_x{46}_[0-9a-f]{6}"),
    ],
)
def test_a_handoff_has_a_name_that_services_allow(agent: str, expected: str) -> None:
    name = HandoffTool.to(agent).name
    assert re.fullmatch(expected, name)
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", name)
    other = Agent(ScriptedProvider(["I am here"]), name=agent)
    first = Agent(ScriptedProvider([call(name)]), name="Triage", handoffs=[other])
    assert first.run("x").agent_name == agent


def test_names_that_differ_in_letters_that_services_reject_are_different_tools() -> None:
    agents = [Agent(ScriptedProvider(["hi"]), name=name) for name in ("営業 1", "開発 1", "x" * 80, "x" * 81)]
    assert len(Agent(ScriptedProvider(["hi"]), handoffs=agents).registry) == 4


def test_a_handoff_may_have_its_own_description() -> None:
    handoff = HandoffTool.to("Billing", "For anything about money.")
    assert (handoff.name, handoff.description, handoff.target_name) == (
        "handoff_to_billing",
        "For anything about money.",
        "Billing",
    )


def test_a_handoff_to_an_unknown_agent_is_an_error_with_the_partial_result() -> None:
    agent = Agent(ScriptedProvider([call("handoff_to_billing")]), name="Triage", handoffs=["Billing"])
    with pytest.raises(
        HandoffFailed, match=r"unknown handoff target 'Billing' \(available: none\): add the agent to the AgentRunner"
    ) as raised:
        agent.run("x")
    partial = partial_result(raised.value)
    assert partial is not None
    assert partial.messages[0].content == "x"


def test_endless_handoffs_end_at_the_last_iteration() -> None:
    to_billing = [call("handoff_to_billing", f"c{n}") for n in range(9)]
    to_triage = [call("handoff_to_triage", f"d{n}") for n in range(9)]
    runner, _ = team(to_billing, to_triage)  # type: ignore[arg-type]
    result = runner.run("x")
    assert (result.stop_reason, result.iterations) == ("max_iterations", 10)


def test_the_policy_applies_to_handoffs() -> None:
    billing = Agent(ScriptedProvider([]), name="Billing")
    script: list[ScriptedTurn] = [call("handoff_to_billing"), "then I answer"]
    config = AgentConfig(policy=ToolPolicy(deny=["handoff_to_*"]))
    agent = Agent(ScriptedProvider(script), config=config, name="Triage", handoffs=[billing])
    result = agent.run("x")
    assert (result.content, result.agent_name) == ("then I answer", "Triage")


def test_observers_receive_a_handoff() -> None:
    runner, _ = team([call("handoff_to_billing", reason="money")], ["ok"])
    events = list(runner.stream("x"))
    assert [(event.source, event.target, event.reason) for event in events if isinstance(event, HandedOff)] == [
        ("Triage", "Billing", "money")
    ]
    assert final_result(events).content == "ok"


class RecordingObserver(AgentObserver):
    """Records the class names of the events."""

    def __init__(self) -> None:
        self.event_names: list[str] = []

    def handle(self, event: Event) -> None:
        self.event_names.append(type(event).__name__)


@pytest.mark.parametrize("mode", ["run", "arun"])
def test_the_observers_of_an_agent_receive_events_from_its_takeover_on(mode: str) -> None:
    first, second, both = RecordingObserver(), RecordingObserver(), RecordingObserver()
    hooked: list[int] = []
    hooks = {"on_iteration_start": hooked.append}
    billing = Agent(
        ScriptedProvider(["ok"]), name="Billing", config=AgentConfig(observers=(second, both), hooks=dict(hooks))
    )
    triage = Agent(
        ScriptedProvider([call("handoff_to_billing", reason="money")]),
        name="Triage",
        handoffs=[billing],
        config=AgentConfig(observers=(first, both), hooks=dict(hooks)),
    )
    assert (triage.run("x") if mode == "run" else asyncio.run(triage.arun("x"))).content == "ok"
    assert second.event_names == [
        "HandedOff",
        "IterationStarted",
        "ModelCallStarted",
        "ModelCallEnded",
        "IterationEnded",
        "RunEnded",
    ]
    assert first.event_names == both.event_names  # a shared observer receives each event once
    assert (first.event_names[0], first.event_names[-6:]) == ("RunStarted", second.event_names)
    assert hooked == [1, 2]


def test_an_observer_of_the_second_agent_alone_receives_events() -> None:
    second = RecordingObserver()
    billing = Agent(ScriptedProvider(["ok"]), name="Billing", config=AgentConfig(observers=(second,)))
    triage = Agent(ScriptedProvider([call("handoff_to_billing", reason="m")]), name="Triage", handoffs=[billing])
    assert triage.run("x").agent_name == "Billing"
    assert second.event_names[:2] == ["HandedOff", "IterationStarted"]


def test_the_last_speaker_answers_the_next_turn() -> None:
    runner, providers = team([call("handoff_to_billing")], ["hello", "still me"])
    first = runner.run("hi", context={"user": "anna"})
    second = runner.run("and now?", context=ConversationState.from_result(first))
    assert (second.content, second.agent_name, second.context.data) == ("still me", "Billing", {"user": "anna"})
    assert request_messages(providers[1])[-1] == ("user", "and now?")
    assert len(second.new_messages) == 2


def test_the_last_speaker_is_read_from_the_messages() -> None:
    runner, _ = team(["triage"], ["billing"])
    last_message = Message(Role.ASSISTANT, "hello", agent_name="Billing")
    state = ConversationState((Message.user("hi"), last_message))
    assert runner.select_agent(state).name == "Billing"
    assert runner.select_agent(ConversationState()).name == "Triage"
    unknown_agent = Message(Role.ASSISTANT, "hello", agent_name="Dismissed")
    assert runner.select_agent(ConversationState((unknown_agent,))).name == "Triage"


@tool
def visit(ctx: ToolContext) -> str:
    """Visit."""
    ctx.state["visits"] = int(str(ctx.state.get("visits", 0))) + 1
    return str(ctx.state["visits"])


def test_the_whole_conversation_survives_json_and_continues() -> None:
    provider = ScriptedProvider([call("visit"), "once", call("visit", "c2"), "twice"])
    runner = AgentRunner([Agent(provider, [visit], name="Guide")])
    first = runner.run("go", context={"user": "anna"})
    saved = ConversationState.from_result(first).to_json()
    restored = json.loads(saved)
    second = runner.run("go again", context=restored)
    assert (second.content, second.state, second.context.data) == ("twice", {"visits": 2}, {"user": "anna"})
    assert ConversationState.from_json(saved) == ConversationState.from_result(first)
    assert (restored["current_agent"], restored["format"]) == ("Guide", "ragkit.conversation")


def test_an_invalid_conversation_is_rejected() -> None:
    for text, words in [
        ("{", "a saved conversation must be JSON"),
        ("[]", "a saved conversation must be a JSON object"),
        ("{}", "format 'ragkit.conversation'"),
    ]:
        with pytest.raises(InvalidOption, match=words):
            ConversationState.from_json(text)


CONTINUE = """
import json, sys
from tests.agent.test_handoffs import team

runner, _ = team([], ["still me"])
result = runner.run("and now?", context=json.load(sys.stdin))
print(result.agent_name, result.content, len(result.messages), result.context.data)
"""


def test_another_process_can_continue_the_conversation() -> None:
    runner, _ = team([call("handoff_to_billing")], ["hello"])
    saved = ConversationState.from_result(runner.run("hi", context={"user": "anna"})).to_json()
    done = subprocess.run(
        [sys.executable, "-c", CONTINUE],
        input=saved,
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.strip() == "Billing still me 6 {'user': 'anna'}"


def test_a_suspended_run_of_a_team_resumes_with_the_suspended_agent() -> None:
    config = AgentConfig(policy=ToolPolicy(review=["add"]))
    billing = Agent(ScriptedProvider([call("add", a=1, b=2), "three"]), [add], config=config, name="Billing")
    triage = Agent(ScriptedProvider([call("handoff_to_billing")]), name="Triage", handoffs=[billing])
    pending_run = triage.run("x").suspended
    assert pending_run is not None
    assert pending_run.agent_name == "Billing"
    result = triage.run(pending_run.approve())
    assert (result.content, result.agent_name) == ("three", "Billing")


def test_a_runner_requires_agents_with_distinct_names() -> None:
    with pytest.raises(InvalidOption, match="agents of AgentRunner must be one or more"):
        AgentRunner([])
    agent = Agent(ScriptedProvider([]), name="a")
    with pytest.raises(InvalidOption, match="the names of agents must be unique"):
        AgentRunner([agent, agent])


def test_many_conversations_on_one_runner_are_independent() -> None:
    def answer(request: ModelRequest) -> ScriptedTurn:
        words = request.messages[1].content
        return ToolCall("handoff_to_billing") if request.messages[-1].role is Role.USER else f"for {words}"

    billing = Agent(FunctionProvider(lambda request: f"for {request.messages[1].content}"), name="Billing")
    triage = Agent(FunctionProvider(answer), name="Triage", handoffs=["Billing"])  # type: ignore[arg-type]
    runner = AgentRunner([triage, billing])
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda n: runner.run(f"q{n}").content, range(200)))
    assert answers == [f"for q{n}" for n in range(200)]

    async def run_all() -> list[str]:
        return [result.content for result in await asyncio.gather(*(runner.arun(f"q{n}") for n in range(200)))]

    assert asyncio.run(run_all()) == answers


def test_a_turn_of_a_team_can_be_streamed_asynchronously() -> None:
    runner, _ = team(["hello"])

    async def collect() -> list[Event]:
        return [event async for event in runner.astream("x")]

    assert final_result(asyncio.run(collect())).content == "hello"


def test_a_single_agent_cannot_hand_over_to_an_unknown_agent() -> None:
    agent, _ = scripted([call("handoff_to_nobody"), "ok"])
    [message] = tool_messages(agent.run("x"))
    assert message.startswith("Error: unknown tool 'handoff_to_nobody'")


def test_the_context_of_a_result_continues_the_conversation() -> None:
    runner, _ = team([call("handoff_to_billing")], ["hello", "two", "three"])
    first = runner.run("hi", context={"user": "anna"})
    assert first.context == {"user": "anna"}
    second = runner.run("two", context=first.context)
    assert (second.agent_name, second.content) == ("Billing", "two")
    assert [message.content for message in second.messages if message.role is Role.USER] == ["hi", "two"]
    third = runner.run("three", context=json.loads(second.context.to_json()))
    assert (third.context.data, len(third.messages)) == ({"user": "anna"}, len(second.messages) + 2)
    assert ConversationState.from_json(third.context.to_json()) == ConversationState.from_result(third)


def test_data_that_is_added_to_the_context_is_kept() -> None:
    runner, _ = team(["one", "two"], [])
    context = runner.run("hi", context={"user": "anna"}).context
    context["visits"] = 2
    assert runner.run("again", context=context).context == {"user": "anna", "visits": 2}


def test_a_plain_dict_of_a_context_is_refused_since_it_would_lose_the_conversation() -> None:
    provider = ScriptedProvider([call("visit"), "once", call("visit", "c2"), "twice"])
    runner = AgentRunner([Agent(provider, [visit], name="Guide")])
    context = runner.run("go", context={"user": "anna"}).context
    for empty in (context, RunContext({}, context.messages)):
        for lose in (dict, lambda it: {**it}, lambda it: dict(**it), lambda it: {"a": 1} | dict(it)):
            with pytest.raises(TypeError, match=r"loses the conversation: .* `context.data` .* `context.to_json\(\)`"):
                lose(empty)
        with pytest.raises(TypeError, match="RunContext is not JSON serializable"):
            json.dumps(empty)
    assert (context["user"], list(context), context.get("x"), context.data) == (
        "anna",
        ["user"],
        None,
        {"user": "anna"},
    )

    changed = context | {"user": "berta"}
    second = runner.run("go again", context=changed)
    assert (second.content, second.context.data, len(second.messages)) == ("twice", {"user": "berta"}, 8)
    assert context == copy.copy(context) == {"user": "anna"}
    assert copy.deepcopy(context).messages == pickle.loads(pickle.dumps(context)).messages == context.messages


def test_the_data_of_a_context_may_go_to_an_agent() -> None:
    context = Agent(ScriptedProvider(["hi"])).run("x", context={"user": "anna"}).context
    assert Agent(ScriptedProvider(["hi"])).run("x", context=context).context == {"user": "anna"}

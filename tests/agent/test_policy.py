"""Policies: decisions, files, approval during a run or later, in this process or another."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ragkit.agent.events import ApprovalNeeded, PolicyDecided
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import Role, ToolCall
from ragkit.agent.policy import ApprovalRequest, ArgumentRule, ToolPolicy
from ragkit.agent.result import SuspendedRun
from ragkit.agent.runtime.cancellation import Cancellation
from ragkit.errors import BudgetExceeded, InvalidOption, RunCancelled
from ragkit.usage.limits import Limits
from tests.agent.parts import add, call, fail, names, scripted, tool_messages

POLICIES = Path(__file__).parents[2] / "configs" / "policies"


@pytest.mark.parametrize(
    ("name", "decision"), [("read_a", "allow"), ("send_mail", "review"), ("delete_all", "deny"), ("other", "review")]
)
def test_rules_match_tool_names(name: str, decision: str) -> None:
    policy = ToolPolicy(allow=["read_*"], review=["send_*"], deny=["delete_*"], default="review")
    assert policy.decide(ToolCall(name)).decision == decision


def test_the_strictest_rule_wins() -> None:
    policy = ToolPolicy(allow=["*"], review=["pay"], deny=["pay"])
    assert policy.decide(ToolCall("pay")).decision == "deny"
    assert ToolPolicy(allow=["*"], review=["pay"]).decide(ToolCall("pay")).decision == "review"


def test_rules_match_arguments() -> None:
    large_amounts = ArgumentRule("pay", "amount", r"^\d{4,}$", "review", "a large amount")
    foreign_accounts = ArgumentRule("pay", "to", "^XX", "deny")
    policy = ToolPolicy(when=[large_amounts, foreign_accounts])
    assert policy.decide(ToolCall("pay", {"amount": 10})).decision == "allow"
    decision = policy.decide(ToolCall("pay", {"amount": 1000}))
    assert (decision.decision, decision.reason) == ("review", "a large amount")
    decision = policy.decide(ToolCall("pay", {"amount": 1000, "to": "XX1"}))
    assert (decision.decision, decision.reason) == ("deny", "its to matches '^XX'")


def test_a_rule_about_arguments_lifts_a_review_but_never_a_denial() -> None:
    small = ArgumentRule("pay", "amount", r"^\d$", "allow")
    assert ToolPolicy(review=["pay"], when=[small]).decide(ToolCall("pay", {"amount": 5})).decision == "allow"
    assert ToolPolicy(deny=["pay"], when=[small]).decide(ToolCall("pay", {"amount": 5})).decision == "deny"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"alow": []}, "a policy key must be one of allow, default.*'alow'"),
        ({"version": 2}, "the policy version must be 1"),
        ({"allow": "x"}, "'allow' of the policy must be a list of names"),
        ({"when": {}, "deny": ["x"], "default": "maybe"}, "the policy default must be one of allow"),
        ({"when": [{"tool": "x"}]}, "a policy rule must be a mapping with tool, argument and matches"),
        (
            {"when": [{"tool": "x", "argument": "a", "matches": "("}]},
            "`matches` of a rule must be a regular expression",
        ),
        (
            {"when": [{"tool": "x", "argument": "a", "matches": "b", "decision": "no"}]},
            "the rule decision must be one of allow",
        ),
        ({"when": [{"tool": "x", "argument": "a", "matches": "b", "why": "c"}]}, "a rule key must be one of tool"),
        ({"when": "x"}, "`when` of the policy must be a list of rules"),
    ],
)
def test_an_invalid_policy_is_rejected_with_its_key(data: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        ToolPolicy.from_dict(data)  # type: ignore[arg-type]


def test_a_policy_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"the policy .*none\.yaml must be a readable YAML file .*No such file"):
        ToolPolicy.from_yaml(tmp_path / "none.yaml")
    (tmp_path / "list.yaml").write_text("- a\n")
    with pytest.raises(InvalidOption, match=r"list\.yaml must be a mapping"):
        ToolPolicy.from_yaml(tmp_path / "list.yaml")
    (tmp_path / "key.yaml").write_text("alow: []\n")
    with pytest.raises(InvalidOption, match=r"key\.yaml: a policy key must be one of allow, default.*'alow'"):
        ToolPolicy.from_yaml(tmp_path / "key.yaml")
    (tmp_path / "code.yaml").write_text("allow: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(
        InvalidOption, match=r"code\.yaml must be a readable YAML file .*could not determine a constructor"
    ):
        ToolPolicy.from_yaml(tmp_path / "code.yaml")


@pytest.mark.parametrize(
    ("file", "call_", "decision"),
    [
        ("default", ToolCall("search_knowledge_base", {"query": "x"}), "allow"),
        ("default", ToolCall("send_mail"), "review"),
        ("default", ToolCall("read_file", {"path": "notes.md"}), "allow"),
        ("default", ToolCall("read_file", {"path": "a/.env"}), "deny"),
        ("default", ToolCall("read_file", {"path": "server.pem"}), "deny"),
        ("read-only", ToolCall("calculator"), "allow"),
        ("read-only", ToolCall("handoff_to_billing"), "allow"),
        ("read-only", ToolCall("send_mail"), "deny"),
        ("ask-first", ToolCall("calculator"), "allow"),
        ("ask-first", ToolCall("read_file", {"path": "x"}), "review"),
    ],
)
def test_the_shipped_policies_decide_as_their_names_say(file: str, call_: ToolCall, decision: str) -> None:
    assert ToolPolicy.from_yaml(POLICIES / f"{file}.yaml").decide(call_).decision == decision


def test_a_denied_call_gets_an_error_and_the_run_continues() -> None:
    agent, _ = scripted([call("add", a=1, b=2), "I may not"], config=AgentConfig(policy=ToolPolicy(deny=["add"])))
    result = agent.run("x")
    assert result.content == "I may not"
    assert tool_messages(result) == ["Error: add is not allowed: add is denied"]


REVIEW = ToolPolicy(review=["add"])


@pytest.mark.parametrize(
    ("is_approved", "expected"), [(True, "3"), (False, "Error: add was refused by a person: add needs approval")]
)
def test_approval_may_be_requested_during_the_run(is_approved: bool, expected: str) -> None:
    requests: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        requests.append(request)
        return is_approved

    agent, _ = scripted([call("add", a=1, b=2), "done"], config=AgentConfig(policy=REVIEW, approve=approve))
    result = agent.run("x")
    assert tool_messages(result) == [expected]
    assert [(request.call.name, request.reason, request.agent_name) for request in requests] == [
        ("add", "add needs approval", "agent")
    ]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("stop", ["cancel", "max_seconds"])
def test_a_run_that_is_stopped_does_not_wait_for_the_approval(stop: str, is_async: bool) -> None:
    answered = threading.Event()
    limits = Limits(max_seconds=0.3) if stop == "max_seconds" else Limits()
    config = AgentConfig(policy=REVIEW, approve=lambda _: answered.wait(20), limits=limits)
    agent, _ = scripted([call("add", a=1, b=2), "done"], config=config)
    cancel = Cancellation() if stop == "cancel" else None
    if cancel is not None:
        threading.Timer(0.3, cancel.cancel).start()
    started_at = time.monotonic()
    with pytest.raises(RunCancelled if stop == "cancel" else BudgetExceeded):
        asyncio.run(agent.arun("x", cancel=cancel)) if is_async else agent.run("x", cancel=cancel)
    assert time.monotonic() - started_at < 5
    answered.set()


@pytest.mark.parametrize("answer", [True, False, None])
def test_a_run_with_a_time_limit_takes_the_answer_of_the_approver(answer: bool | None) -> None:
    config = AgentConfig(policy=REVIEW, approve=lambda _: answer, limits=Limits(max_seconds=30))
    agent, _ = scripted([call("add", a=1, b=2), "done"], config=config)
    result = agent.run("x")
    assert (result.suspended is not None) == (answer is None)
    assert (tool_messages(result) == ["3"]) == (answer is True)


def suspended(script: list[object]) -> SuspendedRun:
    agent, _ = scripted(script, config=AgentConfig(policy=REVIEW))  # type: ignore[arg-type]
    result = agent.run("1 + 2?", context={"user": "anna"})
    assert (result.stop_reason, result.content) == ("approval", "")
    assert result.suspended is not None
    return result.suspended


def test_without_an_approver_the_run_is_suspended_and_nothing_is_executed() -> None:
    pending_run = suspended([[call("add", "c1", a=1, b=2), call("fail", "c2")]])
    assert [(call_.call.id, call_.reason) for call_ in pending_run.pending] == [("c1", "add needs approval")]
    assert [message.role for message in pending_run.messages] == [Role.USER, Role.ASSISTANT]


def test_observers_receive_the_pending_calls_of_a_suspended_run() -> None:
    agent, _ = scripted([call("add", a=1, b=2)], config=AgentConfig(policy=REVIEW))
    events = list(agent.stream("x"))
    assert [type(event) for event in events if isinstance(event, PolicyDecided | ApprovalNeeded)] == [
        PolicyDecided,
        ApprovalNeeded,
    ]
    assert names(events)[-2:] == ["IterationEnded", "RunEnded"]


def test_a_suspended_run_resumes_from_json_with_its_whole_state() -> None:
    pending_run = suspended([[call("add", "c1", a=1, b=2), call("fail", "c2", reason="oops")]])
    saved = pending_run.approve("c1").to_json()
    agent, provider = scripted(["three"], config=AgentConfig(policy=REVIEW))
    result = agent.run(SuspendedRun.from_json(saved))
    assert (result.content, result.iterations, result.run_id) == ("three", 2, pending_run.run_id)
    assert tool_messages(result) == ["3", "Error executing fail: oops"]
    assert result.context == {"user": "anna"}
    assert result.usage.prompt_tokens > pending_run.usage.prompt_tokens > 0
    assert len(provider.requests) == 1


def test_the_model_gets_a_rejection() -> None:
    agent, _ = scripted(["all right"], config=AgentConfig(policy=REVIEW))
    result = agent.run(suspended([call("add", a=1, b=2)]).deny())
    assert tool_messages(result) == ["Error: add was refused by a person: add needs approval"]
    assert result.content == "all right"


def test_a_run_with_undecided_calls_is_suspended_again_and_keeps_the_decisions() -> None:
    pending_run = suspended([[call("add", "c1", a=1, b=2), call("add", "c2", a=3, b=4)]])
    agent, _ = scripted(["done"], config=AgentConfig(policy=REVIEW))
    still_pending = agent.run(pending_run.approve("c1")).suspended
    assert still_pending is not None
    assert [call_.call.id for call_ in still_pending.pending] == ["c2"]
    assert tool_messages(agent.run(still_pending.approve())) == ["3", "7"]


def test_memory_stores_a_suspended_run_only_when_it_ends() -> None:
    memory = ConversationMemory()
    agent, _ = scripted([call("add", a=1, b=2), "three"], config=AgentConfig(policy=REVIEW))
    pending_run = agent.run("1 + 2?", memory=memory).suspended
    assert (len(memory), pending_run is not None) == (0, True)
    assert pending_run is not None
    agent.run(pending_run.approve(), memory=memory)
    assert [message.role.value for message in memory] == ["user", "assistant", "tool", "assistant"]


def test_only_pending_calls_can_be_decided() -> None:
    with pytest.raises(InvalidOption, match="the id of a call must be one of c1"):
        suspended([call("add", "c1", a=1, b=2)]).approve("nope")


def test_an_invalid_suspended_run_is_rejected() -> None:
    for text in ("{", "{}", "[]", json.dumps({"run_id": "x"})):
        with pytest.raises(InvalidOption, match="a suspended run must be the JSON of"):
            SuspendedRun.from_json(text)


RESUME = """
import sys
from ragkit.agent.runtime.cancellation import Cancellation
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.policy import ToolPolicy
from ragkit.agent.result import SuspendedRun
from ragkit.usage.limits import Limits
from tests.agent.parts import scripted

agent, _ = scripted(["three"], config=AgentConfig(policy=ToolPolicy(review=["add"])))
result = agent.run(SuspendedRun.from_json(sys.stdin.read()).approve())
print(result.content, [one.content for one in result.tool_calls], result.run_id)
"""


def test_another_process_can_resume_a_suspended_run() -> None:
    pending_run = suspended([call("add", a=1, b=2)])
    done = subprocess.run(
        [sys.executable, "-c", RESUME],
        input=pending_run.to_json(),
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.split(maxsplit=1)[0] == "three"
    assert done.stdout.strip() == f"three ['3'] {pending_run.run_id}"


def test_calls_without_review_run_together_with_approved_calls() -> None:
    agent, _ = scripted(
        [[call("add", "c1", a=1, b=2), call("fail", "c2")], "done"],
        [add, fail],
        AgentConfig(policy=REVIEW, approve=lambda _: True),
    )
    assert tool_messages(agent.run("x")) == ["3", "Error executing fail: no reason"]

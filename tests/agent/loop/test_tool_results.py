"""Results of tools: kept ones, those of fallbacks, and long ones in pages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.guardrails import Guardrails, PIIGuardrail, ToolOutputScreening
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.loop.paged_results import MAX_PAGED_CHARS, PagedResults, PageNotFound
from ragkit.agent.policy import ToolPolicy
from ragkit.agent.providers.scripted import ScriptedProvider, ScriptedTurn
from ragkit.agent.result import AgentResult
from ragkit.agent.tools.base import Tool, ToolCache, ToolContext, tool
from ragkit.agent.tracing.trace import StepType
from ragkit.errors import InvalidOption
from tests.agent.loop.test_faults import RunAgent, every_entry_point
from tests.agent.parts import call, scripted, tool_messages


def tool_spans(result: AgentResult) -> list[dict[str, object]]:
    return [dict(span.attributes) for span in result.trace.steps if span.type is StepType.TOOL]


# --- kept results ---


@every_entry_point
def test_an_equal_call_of_a_cached_tool_gets_the_kept_result(run: RunAgent) -> None:
    executed: list[str] = []

    @tool(cache=True)
    def weather(city: str) -> str:
        """The weather."""
        executed.append(city)
        return f"{city}: rain"

    script: list[ScriptedTurn] = [
        call("weather", city="Oslo"),
        call("weather", "c2", city="Oslo"),
        call("weather", "c3", city="Bergen"),
        "ok",
    ]
    result = run(scripted(script, [weather])[0])
    assert executed == ["Oslo", "Bergen"]
    assert tool_messages(result) == ["Oslo: rain", "Oslo: rain", "Bergen: rain"]
    assert [(done.cached, done.attempts) for done in result.tool_calls] == [(False, 1), (True, 0), (False, 1)]
    assert [span.get("cached") for span in tool_spans(result)] == [None, True, None]
    assert result.usage.by_tool["weather"].calls == 2


@pytest.mark.parametrize(("per_run", "executions"), [(False, 1), (True, 2)])
def test_results_are_kept_for_all_runs_or_for_one(per_run: bool, executions: int) -> None:
    executed: list[int] = []

    @tool(cache=ToolCache(per_run=per_run))
    def now() -> str:
        """The time."""
        executed.append(1)
        return "noon"

    for _ in range(2):
        scripted([call("now"), call("now", "c2"), "ok"], [now])[0].run("go")
    assert len(executed) == executions


def test_a_failed_call_is_executed_again() -> None:
    outcomes: Iterator[str | ValueError] = iter([ValueError("not yet"), "done"])

    @tool(cache=True)
    def flaky() -> str:
        """Fail once."""
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    result = scripted([call("flaky"), call("flaky", "c2"), call("flaky", "c3"), "ok"], [flaky])[0].run("go")
    assert tool_messages(result) == ["Error executing flaky: not yet", "done", "done"]
    assert [done.cached for done in result.tool_calls] == [False, False, True]


def test_kept_results_expire_and_the_oldest_are_dropped() -> None:
    executed: list[int] = []

    @tool(cache=ToolCache(ttl_s=0.02, max_entries=2))
    def square(number: int) -> str:
        """Square a number."""
        executed.append(number)
        return str(number**2)

    def ask(*numbers: int) -> None:
        scripted([call("square", number=number) for number in numbers] + ["ok"], [replace(square)])[0].run("go")

    agent, _ = scripted([*[call("square", number=number) for number in (1, 2, 3, 1)], "ok"], [square])
    agent.run("go")
    assert executed == [1, 2, 3, 1]
    time.sleep(0.03)
    scripted([call("square", number=1), "ok"], [square])[0].run("go")
    assert executed == [1, 2, 3, 1, 1]
    ask(1)  # a copy of the tool has results of its own
    assert executed[-2:] == [1, 1]


def test_the_callers_data_is_part_of_the_key_of_a_tool_that_takes_it() -> None:
    @tool(cache=True)
    def balance(context: ToolContext) -> str:
        """The balance of the user."""
        return f"balance of {context.context['user']}"

    agent = Agent(ScriptedProvider([call("balance"), "ok"] * 3), [balance])
    results = [agent.run("go", context={"user": user}) for user in ("ada", "bob", "ada")]
    assert [tool_messages(result) for result in results] == [["balance of ada"], ["balance of bob"], ["balance of ada"]]
    assert [result.tool_calls[0].cached for result in results] == [False, False, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"max_entries": 0}, r"max_entries must be >= 1 \(got 0\)"), ({"ttl_s": 0.0}, r"ttl_s must be > 0 or None")],
)
def test_invalid_options_of_a_tool_cache_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        ToolCache(**options)


# --- fallbacks ---


def stored_weather(city: str) -> str:
    """Yesterday's weather."""
    return f"{city}: as yesterday"


@every_entry_point
def test_a_fallback_answers_for_a_tool_that_fails_or_times_out(run: RunAgent) -> None:
    @tool(fallback=stored_weather, retries=1)
    def weather(city: str) -> str:
        """The weather."""
        raise ConnectionError("no network")

    @tool(fallback=stored_weather, timeout_s=0.05)
    def slow_weather(city: str) -> str:
        """The weather, slowly."""
        time.sleep(0.3)
        return city

    script: list[ScriptedTurn] = [[call("weather", city="Oslo"), call("slow_weather", "c2", city="Bergen")], "ok"]
    result = run(scripted(script, [weather, slow_weather])[0])
    assert tool_messages(result) == ["Oslo: as yesterday", "Bergen: as yesterday"]
    assert [(done.name, done.fallback, done.error) for done in result.tool_calls] == [
        ("weather", "stored_weather", None),
        ("slow_weather", "stored_weather", None),
    ]
    assert result.tool_calls[0].attempts == 3
    assert [span["fallback"] for span in tool_spans(result)] == ["stored_weather"] * 2


@pytest.mark.parametrize("policy", [None, ToolPolicy(deny=["broken"])])
def test_the_first_error_stays_if_the_fallback_fails_or_is_not_allowed(policy: ToolPolicy | None) -> None:
    @tool
    def broken() -> str:
        """Fail too."""
        if policy is not None:
            raise AssertionError("the policy does not allow it")
        raise ValueError("second")

    @tool(fallback=broken)
    def failing() -> str:
        """Fail."""
        raise ValueError("first")

    result = scripted([call("failing"), "ok"], [failing], AgentConfig(policy=policy))[0].run("go")
    assert tool_messages(result) == ["Error executing failing: first"]
    assert result.tool_calls[0].fallback == ""


# --- pages ---

PAGED = AgentConfig(max_tool_output_chars=10, screening=ToolOutputScreening(mark_as_data=False))


@tool
def alphabet() -> str:
    """The alphabet."""
    return "abcdefghijklmnopqrstuvwxyz"


@every_entry_point
def test_a_long_result_is_read_page_by_page(run: RunAgent) -> None:
    script: list[ScriptedTurn] = [
        call("alphabet"),
        call("read_tool_result", "c2", result_id="result_1", page=3),
        call("read_tool_result", "c3", result_id="result_1", page=4),
        "done",
    ]
    agent, provider = scripted(script, [alphabet], PAGED)
    result = run(agent)
    note = "26 characters; for other pages call read_tool_result with result_id 'result_1']"
    assert tool_messages(result) == [
        f"abcdefghij\n[page 1 of 3, {note}",
        f"uvwxyz\n[page 3 of 3, {note}",
        "Error executing read_tool_result: page must be between 1 and 3 (got 4)",
    ]
    offered = [[item.name for item in request.tools] for request in provider.requests]
    assert offered == [["alphabet"], *[["alphabet", "read_tool_result"]] * 3]


def test_a_result_that_fits_offers_no_tool_for_pages() -> None:
    agent, provider = scripted([call("alphabet"), "done"], [alphabet])
    assert tool_messages(agent.run("go")) == ["abcdefghijklmnopqrstuvwxyz"]
    assert [item.name for item in provider.requests[-1].tools] == ["alphabet"]


def test_guardrails_see_the_whole_result_before_it_is_paged() -> None:
    @tool
    def contact() -> str:
        """A contact."""
        return "12345678 ada@example.org and more text"

    config = replace(PAGED, guardrails=Guardrails(tool_results=[PIIGuardrail()]))
    result = scripted([call("contact"), "ok"], [contact], config)[0].run("go")
    assert "@" not in tool_messages(result)[0]


def test_a_policy_that_allows_a_tool_allows_its_pages() -> None:
    script: list[ScriptedTurn] = [call("alphabet"), call("read_tool_result", "c2", result_id="result_1", page=2), "ok"]
    config = replace(PAGED, policy=ToolPolicy(allow=["alphabet"], default="deny"))
    assert tool_messages(scripted(script, [alphabet], config)[0].run("go"))[1].startswith("klmnopqrst\n[page 2 of 3")


def test_a_tool_of_the_user_with_the_same_name_is_kept() -> None:
    own = Tool.from_function(lambda: "mine", "Read.", name="read_tool_result")
    agent, provider = scripted([call("alphabet"), call("read_tool_result"), "ok"], [alphabet, own], PAGED)
    assert tool_messages(agent.run("go")) == ["abcdefghij\n[cut off: 26 characters, the first 10 are shown]", "mine"]
    assert [item.name for item in provider.requests[-1].tools] == ["alphabet", "read_tool_result"]


def test_the_memory_of_pages_is_bounded() -> None:
    pages = PagedResults(MAX_PAGED_CHARS // 2)
    for _ in range(3):
        pages.add("x" * (MAX_PAGED_CHARS // 2 + 1), MAX_PAGED_CHARS // 2 + 1)
    with pytest.raises(PageNotFound, match=r"unknown result 'result_2' \(known: result_3\): call its tool again"):
        pages.read_tool_result("result_2", 1)
    assert pages.read_tool_result("result_3", 2).startswith("x\n[page 2 of 2")


def test_a_page_has_at_least_one_character() -> None:
    with pytest.raises(InvalidOption, match=r"max_tool_output_chars must be >= 1 \(got 0\)"):
        AgentConfig(max_tool_output_chars=0)

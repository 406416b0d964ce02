"""Tools as classes, and tools with a context of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragkit import Agent, ScriptedProvider, Tool, ToolCall, ToolContext, ToolRegistry, tool
from ragkit.compat import ToolWrapper
from ragkit.errors import InvalidOption


class WeatherTool(Tool):
    """The weather of a city."""

    retries = 1

    def perform(self, tool_context: ToolContext, city: str, days: int = 1) -> str:
        key = tool_context.context["key"]
        return f"{city} for {days} ({key}, attempt {tool_context.attempt} of {tool_context.max_attempts})"


def test_a_class_with_perform_is_a_tool() -> None:
    weather = WeatherTool()  # type: ignore[call-arg]  # a type checker sees the constructor of Tool
    assert (weather.name, weather.description, weather.retries) == ("weather", "The weather of a city.", 1)
    assert weather.parameters == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
        "required": ["city"],
        "additionalProperties": False,
    }
    provider = ScriptedProvider([ToolCall("weather", {"city": "Oslo"}), "ok"])
    result = Agent(provider, [weather]).run("go", context={"key": "k"})
    assert result.tool_calls[0].content == "Oslo for 1 (k, attempt 1 of 2)"


def test_a_class_may_have_a_constructor_and_subclasses() -> None:
    class Greeter(Tool):
        def __init__(self, greeting: str) -> None:
            self.greeting = greeting

        def perform(self, tool_context: ToolContext, name: str) -> str:
            """Greet somebody."""
            return f"{self.greeting} {name}"

    class Shouter(Greeter):
        name = "shout"

        def perform(self, tool_context: ToolContext, name: str) -> str:
            """Shout."""
            return super().perform(tool_context, name).upper()

    greeter, shouter = Greeter("Hello"), Shouter("Hi")
    assert (greeter.name, greeter.description, shouter.name) == ("greeter", "Greet somebody.", "shout")
    assert (greeter.execute(name="Ada"), shouter.execute(name="Ada")) == ("Hello Ada", "HI ADA")
    registry = ToolRegistry()
    registry.register_function(greeter, "Say hello")
    assert (registry.get("greeter").description, registry.get("greeter").execute(name="Bob")) == (
        "Say hello",
        "Hello Bob",
    )
    assert replace(shouter, timeout_s=3.0).timeout_s == 3.0


def test_perform_needs_a_parameter_for_the_context() -> None:
    class Empty(Tool):
        def perform(self) -> str:
            return ""

    with pytest.raises(InvalidOption, match=r"perform of Empty must be perform\(self, tool_context, ...\)"):
        Empty()  # type: ignore[call-arg]


def test_a_wrapped_tool_has_a_context_of_its_own() -> None:
    @tool
    def who(tool_context: ToolContext) -> str:
        """Who is it?"""
        return str(tool_context.context["user"])

    wrapped = [ToolWrapper(who, {"user": "ada"}), ToolWrapper(who, ToolContext({"user": "bob"}))]
    results = [
        Agent(ScriptedProvider([ToolCall("who"), "ok"]), [item]).run("go", context={"user": "eve"}) for item in wrapped
    ]
    assert [result.tool_calls[0].content for result in results] == ["ada", "bob"]
    assert wrapped[0].parameters == who.parameters

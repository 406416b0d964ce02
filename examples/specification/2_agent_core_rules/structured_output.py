"""Defensive Patterns: the parser does not intercept structured output"""

# --- Head: names that the snippet leaves out ---
from pydantic import BaseModel

from ragkit import Agent, AgentConfig, ScriptedProvider, tool


class Call(BaseModel):
    tool_name: str
    parameters: dict[str, int]


@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    raise AssertionError("the answer is no tool call")


provider = ScriptedProvider(['{"tool_name": "add", "parameters": {"a": 1, "b": 2}}'])

# --- The snippet ---
result = Agent(tools=[add], provider=provider, config=AgentConfig(response_format=Call)).run("Describe a call.")

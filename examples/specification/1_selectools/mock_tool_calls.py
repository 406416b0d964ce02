"""Fixtures: deterministic tool calls for LocalProvider"""

# --- Head: names that the snippet leaves out ---
import json
import os

from ragkit import Agent, LocalProvider, tool

@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)

# --- The snippet ---
os.environ["RAGKIT_BBOX_MOCK_JSON"] = json.dumps([{"tool_name": "add", "parameters": {"a": 1, "b": 2}}])
result = Agent(tools=[add], provider=LocalProvider()).run("What is 1 + 2?")

# --- Tail: a use of the snippet ---
if not result.tool_calls:
    raise AssertionError("no tool is called")

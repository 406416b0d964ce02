"""Execution Flow (in order)"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, AgentConfig, ScriptedProvider, ToolCall, tool

@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


provider = ScriptedProvider([ToolCall("add", {"a": 1, "b": 2}), "It is 3."])

# --- The snippet ---
result = Agent(tools=[add], provider=provider).run("What is 1 + 2?")
turns = [
    [step.type.value for step in turn.children] for turn in result.trace.root.children if turn.type == "iteration"
]

"""Defensive Patterns: routing_only fires on_iteration_end"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, AgentConfig, ScriptedProvider, ToolCall, tool

@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


ended = []
provider = ScriptedProvider([ToolCall("add", {"a": 1, "b": 2})])

# --- The snippet ---
config = AgentConfig(routing_only=True, hooks={"on_iteration_end": lambda *args: ended.append(args)})
result = Agent(tools=[add], provider=provider, config=config).run("What is 1 + 2?")

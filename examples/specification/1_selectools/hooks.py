"""Observability: every hook"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, AgentConfig, ScriptedProvider, ToolCall, ToolContext, tool

@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@tool
def fail(context: ToolContext) -> str:
    """Fail after a chunk of output."""
    context.emit("chunk")
    raise ValueError("no reason")


calls = [ToolCall("add", {"a": 1, "b": 2}), ToolCall("fail", {})]
provider = ScriptedProvider([calls, "It is 3.", ValueError("the model is gone")])
seen = []

# --- The snippet ---
names = [
    "on_agent_start",
    "on_agent_end",
    "on_iteration_start",
    "on_iteration_end",
    "on_tool_start",
    "on_tool_end",
    "on_tool_error",
    "on_tool_chunk",
    "on_llm_start",
    "on_llm_end",
    "on_error",
]
hooks = {name: lambda *args, name=name: seen.append(name) for name in names}
agent = Agent(tools=[add, fail], provider=provider, config=AgentConfig(hooks=hooks))

# --- Tail: a use of the snippet ---
agent.run("What is 1 + 2?")
try:
    agent.run("And now?")
except ValueError:
    pass

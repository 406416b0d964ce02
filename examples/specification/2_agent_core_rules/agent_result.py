"""AgentResult Always Contains"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, AgentConfig, ScriptedProvider, ToolCall, tool

@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


provider = ScriptedProvider([ToolCall("add", {"a": 1, "b": 2}), "It is 3."])
result = Agent(tools=[add], provider=provider).run("What is 1 + 2?")

# --- The snippet ---
content = result.content
trace = result.trace
reasoning = result.reasoning
usage = result.usage

"""Custom Hooks"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, AgentConfig, ScriptedProvider, ToolCall, tool

@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


tools = [add]
provider = ScriptedProvider([ToolCall("add", {"a": 1, "b": 2}), "It is 3."])

# --- The snippet ---
def my_hook(tool_name, args):
    print(f"Tool: {tool_name}, Args: {args}")

config = AgentConfig(hooks={"on_tool_start": my_hook})
agent = Agent(tools=tools, provider=provider, config=config)

# --- Tail: a use of the snippet ---
result = agent.run("What is 1 + 2?")

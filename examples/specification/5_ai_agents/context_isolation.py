"""Context Isolation Pattern, done by the agent"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, ScriptedProvider, ToolCall, ToolContext, tool

context = {"visits": [1]}


@tool
def visit(tool_context: ToolContext) -> str:
    """Visit."""
    tool_context.context["visits"].append(2)
    return "done"


provider = ScriptedProvider([ToolCall("visit", {}), "done"])

# --- The snippet ---
result = Agent(provider, [visit]).run("input", context=context)

"""Tool Wrapper Pattern: runtime wrapping"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, ScriptedProvider, ToolCall, ToolContext, tool
from ragkit.compat import ToolWrapper


@tool
def weather_tool(tool_context: ToolContext, city: str) -> str:
    """The weather of a city."""
    return f"{city}: 12 degrees ({tool_context.context['weather_api_key']})"


context_wrapper = ToolContext({"weather_api_key": "key"})

# --- The snippet ---
# Runtime Wrapping (Context Injection)
wrapped_tool = ToolWrapper(weather_tool, context_wrapper)

# --- Tail: a use of the snippet ---
provider = ScriptedProvider([ToolCall("weather_tool", {"city": "Oslo"}), "12 degrees."])
result = Agent(provider, [wrapped_tool]).run("How warm is Oslo?")

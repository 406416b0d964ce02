"""Tool Wrapper Pattern, with a function"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, ScriptedProvider, ToolCall, ToolContext, tool


class WeatherAPI:
    @staticmethod
    def get(city, api_key):
        return f"{city}: 12 degrees ({api_key})"

# --- The snippet ---
@tool
def weather(tool_context: ToolContext, city: str) -> str:
    """The weather of a city."""
    api_key = tool_context.context["weather_api_key"]
    return WeatherAPI.get(city, api_key)

# --- Tail: a use of the snippet ---
provider = ScriptedProvider([ToolCall("weather", {"city": "Oslo"}), "12 degrees."])
result = Agent(provider, [weather]).run("How warm is Oslo?", context={"weather_api_key": "key"})

"""Tool Wrapper Pattern"""

# --- Head: names that the snippet leaves out ---
from ragkit import Tool


class WeatherAPI:
    @staticmethod
    def get(city, api_key):
        return f"{city}: 12 degrees"

# --- The snippet ---
# Tool Definition (Stateless)
class WeatherTool(Tool):
    def perform(self, tool_context, city):
        api_key = tool_context.context["weather_api_key"]
        return WeatherAPI.get(city, api_key)

weather_tool = WeatherTool()

# --- Tail: a use of the snippet ---
from ragkit import Agent, ScriptedProvider, ToolCall

provider = ScriptedProvider([ToolCall("weather", {"city": "Oslo"}), "12 degrees."])
result = Agent(provider, [weather_tool]).run("How warm is Oslo?", context={"weather_api_key": "key"})

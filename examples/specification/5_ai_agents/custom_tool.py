"""Extension Points: custom tools"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, ScriptedProvider, Tool, ToolCall


class BusinessLogic:
    @staticmethod
    def process(input, user_id):
        return f"{input} for {user_id}"

# --- The snippet ---
class CustomTool(Tool):
    name = "custom_action"
    description = "Perform custom business logic"
    parameters = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}

    def perform(self, tool_context, input):
        # Access context for state
        user_id = tool_context.context["user_id"]

        # Perform custom logic
        result = BusinessLogic.process(input, user_id)

        # Update shared state
        tool_context.state["last_action"] = result

        return result

# --- Tail: a use of the snippet ---
provider = ScriptedProvider([ToolCall("custom_action", {"input": "pay"}), "done"])
result = Agent(provider, [CustomTool()]).run("pay", context={"user_id": 7})

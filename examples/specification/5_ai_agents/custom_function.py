"""Extension Points: custom tools, with a function"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, ScriptedProvider, ToolCall, ToolContext, tool


class BusinessLogic:
    @staticmethod
    def process(input, user_id):
        return f"{input} for {user_id}"

# --- The snippet ---
@tool(name="custom_action", description="Perform custom business logic")
def perform(tool_context: ToolContext, input: str) -> str:
    # Access context for state
    user_id = tool_context.context["user_id"]

    # Perform custom logic
    result = BusinessLogic.process(input, user_id)

    # Update shared state
    tool_context.state["last_action"] = result

    return result

# --- Tail: a use of the snippet ---
provider = ScriptedProvider([ToolCall("custom_action", {"input": "pay"}), "done"])
result = Agent(provider, [perform]).run("pay", context={"user_id": 7})

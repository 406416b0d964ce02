"""Tool Execution"""

# --- Head: names that the snippet leaves out ---
from ragkit.compat import ToolExecutor
from ragkit.agent.tools.builtin import create_default_registry

executor = ToolExecutor(create_default_registry())

# --- The snippet ---
def execute_tool(tool_name: str, arguments: dict) -> str:
    """Execute a tool and return results."""
    return executor.execute({"function": {"name": tool_name, "arguments": arguments}})  # the body that is left out

# --- Tail: a use of the snippet ---
result = execute_tool("calculator", {"expression": "25*47"})

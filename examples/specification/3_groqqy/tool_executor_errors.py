"""ToolExecutor: error handling philosophy"""

# --- Head: names that the snippet leaves out ---
import json

from ragkit import ToolCall, ToolRegistry, tool
from ragkit.compat import ToolExecutor

@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


registry = ToolRegistry([add])
tool_call = {"id": "c1", "function": {"name": "add", "arguments": json.dumps({"a": 1, "b": 2})}}
tool_calls = [tool_call, ToolCall("add", {"a": 3, "b": 4}, "c2")]

name = "add"

# --- The snippet ---
def execute(self, tool_call):
    try:
        tool = registry.get(name)
        args = json.loads(tool_call['function']['arguments'])
        result = tool.execute(**args)
        return result
    except Exception as e:
        return f"Error executing {name}: {str(e)}"

# --- Tail: a use of the snippet ---
result = execute(None, tool_call)
error = execute(None, {"function": {"name": "add", "arguments": "no JSON"}})
same = ToolExecutor(registry).execute({"function": {"name": "add", "arguments": "no JSON"}})

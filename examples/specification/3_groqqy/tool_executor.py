"""ToolExecutor"""

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

# --- The snippet ---
executor = ToolExecutor(registry)

# Execute single tool
result = executor.execute(tool_call)  # Returns string (success or error)

# Execute multiple
results = executor.execute_all(tool_calls)  # Returns List[Tuple[id, result]]

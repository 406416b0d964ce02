"""Adding a New Tool"""

# --- The snippet ---
from ragkit import tool

@tool(description="Your tool description")
def my_tool(param1: str, param2: int = 10) -> str:
    """Tool implementation."""
    return f"Result: {param1}, {param2}"

# --- Tail: a use of the snippet ---
result = my_tool("a")
print(result)

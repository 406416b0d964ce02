"""Decorator for convenience"""

# --- Head: names that the snippet leaves out ---
from ragkit import ToolRegistry, tool

registry = ToolRegistry()

# --- The snippet ---
@tool("Analyze code for issues")
def analyze_code(file_path: str) -> str:
    # Implementation
    pass

# Later:
registry.register_function(analyze_code)

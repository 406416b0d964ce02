"""ToolRegistry"""

# --- Head: names that the snippet leaves out ---
from ragkit import Tool, ToolRegistry


def read_file(path: str) -> str:
    """Read a file."""
    return path


def func(pattern: str) -> str:
    """Search."""
    return pattern


tool, description = Tool.from_function(read_file), "Find files"

# --- The snippet ---
registry = ToolRegistry()

# Register
registry.register(tool)                              # Tool object
registry.register_function(func, description)        # From function

# Retrieve
tool = registry.get("read_file")                     # Get by name
tools = registry.list_all()                          # All tools
names = registry.list_names()                        # Just names
schemas = registry.to_schemas()                      # OpenAI format

# Utilities
len(registry)                    # Count
"read_file" in registry          # Check existence

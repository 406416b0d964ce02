"""Tool Class"""

# --- Head: names that the snippet leaves out ---
from collections.abc import Callable
from dataclasses import dataclass
from typing import Dict

from ragkit.agent.tools.base import build_tool_schema

# --- The snippet ---
@dataclass
class Tool:
    name: str
    description: str
    function: Callable
    parameters: Dict  # JSON schema

    @classmethod
    def from_function(cls, func, description=None):
        """Auto-create tool from function introspection."""
        schema = build_tool_schema(func)  # Inspect type hints
        return cls(
            name=func.__name__,
            description=description or func.__doc__,
            function=func,
            parameters=schema['function']['parameters']
        )

    def execute(self, **kwargs):
        """Call the underlying function."""
        return self.function(**kwargs)

# --- Tail: a use of the snippet ---
import ragkit


def add(a: int, b: int = 2) -> str:
    """Add two numbers."""
    return str(a + b)


tools = [Tool.from_function(add), ragkit.Tool.from_function(add)]
results = [tool.execute(a=1) for tool in tools]

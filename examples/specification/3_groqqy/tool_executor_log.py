"""ToolExecutor: logging"""

# --- Head: names that the snippet leaves out ---
from ragkit import ToolRegistry
from ragkit.compat import ToolExecutor

self = ToolExecutor(ToolRegistry())
name, args, e = "add", {"a": 1}, ValueError("no reason")

# --- The snippet ---
self.log.info("Executing tool", name=name, args=args)
self.log.error("Tool failed", name=name, error=str(e))

"""ToolExecutor: logging"""

# --- Head: names that the snippet leaves out ---
import logging
from types import SimpleNamespace

self = SimpleNamespace(log=logging.getLogger("ragkit.agent"))
name, args, e = "add", {"a": 1}, ValueError("no reason")

# --- The snippet ---
self.log.info("Executing tool", name=name, args=args)
self.log.error("Tool failed", name=name, error=str(e))

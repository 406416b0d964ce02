"""Future Extensions: planning module"""

# --- Head: names that the snippet leaves out ---
from __future__ import annotations

# --- The snippet ---
class Planner:
    def create_plan(self, goal):
        """Break goal into steps."""
        return ["step1", "step2", ...]

# --- Tail: a use of the snippet ---
from ragkit.compat import Planner# the library's own class in place of the sketch

plan = Planner().create_plan("a trip")

"""Future Extensions: multi-agent system"""

# --- Head: names that the snippet leaves out ---
from __future__ import annotations

# --- The snippet ---
class AgentTeam:
    def __init__(self, agents: List[Agent]):
        self.agents = agents

    def collaborate(self, task):
        """Agents work together."""
        pass

# --- Tail: a use of the snippet ---
from ragkit.compat import AgentTeam# the library's own class in place of the sketch

from ragkit import Agent, ScriptedProvider

result = AgentTeam([Agent(ScriptedProvider(["done"]))]).collaborate("a trip")

"""Integration Points: an observer that raises does not crash the agent"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, AgentConfig, ScriptedProvider, ToolCall, tool

@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


from ragkit.agent.observers import AgentObserver

# --- The snippet ---
class Failing(AgentObserver):
    def handle(self, event):
        raise RuntimeError("observer")

result = Agent(ScriptedProvider(["hello"]), config=AgentConfig(observers=[Failing()])).run("hi")

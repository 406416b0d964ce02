"""Integration Points: the helper _notify_observers()"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, AgentConfig, ScriptedProvider, ToolCall, tool

@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


agent, run_id = Agent(ScriptedProvider([])), "run_1"

# --- The snippet ---
if run_id:
    agent._notify_observers("on_agent_start", run_id)

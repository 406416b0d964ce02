"""Handoff Architecture: the first call wins"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, AgentRunner, ScriptedProvider, ToolCall

names = ("handoff_to_support", "handoff_to_billing", "handoff_to_support")
calls = [ToolCall(name, {}, f"c{number}") for number, name in enumerate(names, 1)]

# --- The snippet ---
support = Agent(ScriptedProvider(["How can I help?"]), name="support")
billing = Agent(ScriptedProvider([]), name="billing")
triage = Agent(ScriptedProvider([calls]), name="triage", handoffs=[support, billing])
result = AgentRunner([triage, support, billing]).run("My invoice is wrong")

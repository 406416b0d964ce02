"""Context Serialization, with ConversationState"""

# --- Head: names that the snippet leaves out ---
import json

from ragkit import Agent, AgentRunner, ConversationState
from ragkit.agent.providers.scripted import EchoProvider

runner = AgentRunner([Agent(EchoProvider(), name="Billing")])
result = runner.run("hello", context={"user_id": 7})

# --- The snippet ---
# Serialize context for persistence
context_json = ConversationState.from_result(result).to_json()

# Restore and continue conversation
restored_context = json.loads(context_json)
next_result = runner.run("Continue conversation", context=restored_context)

"""Conversation Continuity"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, AgentRunner, ConversationState, Message, Role
from ragkit.agent.providers.scripted import EchoProvider

runner = AgentRunner([Agent(EchoProvider(), name="Triage"), Agent(EchoProvider(), name="Billing")])

# --- The snippet ---
# Messages include agent attribution
message = Message(
    role=Role.ASSISTANT,
    content="I can help with billing",
    agent_name="Billing",  # Enables conversation continuity
)

# --- Tail: a use of the snippet ---
result = runner.run("My invoice is wrong", context=ConversationState((Message.user("hello"), message)))

"""Defensive Patterns: on_memory_trim observers fire"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, AgentConfig, ConversationMemory
from ragkit.agent.observers import AgentObserver
from ragkit.agent.providers.scripted import EchoProvider

dropped = []

# --- The snippet ---
class Trimmed(AgentObserver):
    def on_memory_trim(self, event):
        dropped.append(event)

agent = Agent(EchoProvider(), config=AgentConfig(observers=[Trimmed()]), memory=ConversationMemory(max_messages=2))
for number in range(3):
    agent.run(f"message {number}")

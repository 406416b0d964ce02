"""Extension Points: custom providers, with a request"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, Message, Provider
from ragkit.agent.providers.base import Completion

# --- The snippet ---
# Custom provider integration
class CustomProvider(Provider):
    def complete(self, request):
        # Custom LLM integration
        return Completion(Message.assistant(f"heard: {request.messages[-1].content}"))

# Use with agents
agent = Agent(CustomProvider(), name="Assistant")

# --- Tail: a use of the snippet ---
result = agent.run("hello")

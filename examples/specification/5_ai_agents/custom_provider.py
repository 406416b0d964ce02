"""Extension Points: custom providers"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, Message, Provider
from ragkit.agent.providers.base import Completion

# --- The snippet ---
# Custom provider integration
class CustomProvider(Provider):
    def complete(self, messages, **options):
        # Custom LLM integration
        return Completion(Message.assistant("hello"))

# Use with agents
agent = Agent(
    name="Assistant",
    model=CustomProvider().model("custom-model"),
)

# --- Tail: a use of the snippet ---
result = agent.run("hi")

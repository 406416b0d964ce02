"""Layer 1: Public API (Bot), the design"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, GroqProvider
from ragkit.agent.tools.builtin import create_default_registry

# --- The snippet ---
class Groqqy:
    def __init__(self, model, tools, system_instruction, max_iterations):
        # Create provider
        self.provider = GroqProvider(model, system_instruction)

        # Create or convert tools
        self.tools = tools or create_default_registry()

        # Create agent (does the real work)
        self.agent = Agent(self.provider, self.tools, max_iterations)

    def chat(self, user_message: str) -> tuple[str, float]:
        """Simple chat interface."""
        result = self.agent.run(user_message)
        return result.response, result.total_cost

    def reset(self):
        """Reset conversation."""
        self.agent.reset()

# --- Tail: a use of the snippet ---
bot = Groqqy("llama-3.3-70b-versatile", None, "You are a helpful assistant.", 10)
response, cost = bot.chat("What is 1 + 2?")  # requests to Groq: needs GROQ_API_KEY
bot.reset()

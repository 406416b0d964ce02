"""Extension Points: custom provider"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, Provider

tools = []

# --- The snippet ---
class AnthropicProvider(Provider):
    def chat(self, messages, tools=None):
        # Call Anthropic API
        response = anthropic.messages.create(...)
        return ChatResponse(...)

    def get_cost(self, usage):
        # Anthropic pricing
        return usage.input_tokens * 0.003 / 1000

agent = Agent(AnthropicProvider(), tools, max_iterations=10)

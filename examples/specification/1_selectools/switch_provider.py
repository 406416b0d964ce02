"""Provider-Agnostic: switch the provider with one line"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, AgentConfig, Message, Role, tool

@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


tools = [add]

# --- The snippet ---
from ragkit import AnthropicProvider, GeminiProvider, OllamaProvider, OpenAIProvider

providers = [OpenAIProvider(), AnthropicProvider(), GeminiProvider(), OllamaProvider()]
agents = [Agent(tools=tools, provider=provider, config=AgentConfig()) for provider in providers]

# --- Tail: a use of the snippet ---
question = Message(role=Role.USER, content="What is 1 + 2?")
results = [agent.run([question]) for agent in agents]  # one request to each service

"""Layer 5: Provider Interface, the implementation for Groq"""

# --- Head: names that the snippet leaves out ---
import groq

from ragkit import Agent, Provider


def Groq(api_key):
    """A client with the key in GROQ_API_KEY, which `...` stands for."""
    return groq.Groq()


rate_in, rate_out = 0.05 / 1e6, 0.08 / 1e6

from dataclasses import dataclass, field


@dataclass
class ChatResponse:
    text: str
    tool_calls: list = field(default_factory=list)
    usage: object = None


@dataclass
class Usage:
    prompt_tokens: int
    completion_tokens: int


system_instruction = "You are a helpful assistant."
text, tool_calls, usage = "It is 3.", [], Usage(1000, 100)  # of the response: the snippet leaves out how it is read

# --- The snippet ---
class GroqProvider(Provider):
    def __init__(self, model, system_instruction):
        self.client = Groq(api_key=...)
        self.model = model
        self.system_instruction = system_instruction

    def chat(self, messages, tools=None):
        # Add system instruction
        messages = [{"role": "system", "content": system_instruction}] + messages

        # Call Groq API
        response = self.client.chat.completions.create(
            model=self.model,
            messages=messages,
            tools=tools
        )

        return ChatResponse(text, tool_calls, usage)

    def get_cost(self, usage):
        # Calculate based on Groq pricing
        return (usage.prompt_tokens * rate_in) + (usage.completion_tokens * rate_out)

# --- Tail: a use of the snippet ---
provider = GroqProvider("llama-3.3-70b-versatile", "You are a helpful assistant.")
result = Agent(provider).run("hello")  # a request to Groq: needs GROQ_API_KEY
provider.client.close()

"""Layer 5: Provider Interface"""

# --- Head: names that the snippet leaves out ---
from abc import ABC, abstractmethod

from ragkit import Agent

from dataclasses import dataclass, field


@dataclass
class ChatResponse:
    text: str
    tool_calls: list = field(default_factory=list)
    usage: object = None

# --- The snippet ---
class Provider(ABC):
    @abstractmethod
    def chat(self, messages, tools=None):
        """Send messages, get response."""
        pass

    @abstractmethod
    def get_cost(self, usage):
        """Calculate cost from usage."""
        pass

# --- Tail: a use of the snippet ---
class Echo(Provider):
    def chat(self, messages, tools=None):
        return ChatResponse(messages[-1]["content"])

    def get_cost(self, usage):
        return 0.0


result = Agent(Echo(), []).run("hello")

"""Defensive Patterns: providers can return None content"""

# --- Head: names that the snippet leaves out ---
from ragkit import Agent, Message, Provider
from ragkit.agent.providers.base import Completion


class NoContent(Provider):
    def complete(self, request):
        return Completion(response_msg)


response_msg = Message.assistant(None)

# --- The snippet ---
content = response_msg.content or ""

# --- Tail: a use of the snippet ---
result = Agent(NoContent()).run("hello")

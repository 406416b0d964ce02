"""Future Extensions: streaming responses, with the method of the bot"""

# --- Head: names that the snippet leaves out ---
from ragkit import ScriptedProvider
from ragkit.compat import Groqqy

agent = Groqqy(provider=ScriptedProvider(["one two"]))

# --- The snippet ---
def chat_stream(self, message):
    """Yield response tokens as they arrive."""
    for chunk in agent.chat_stream(message):
        yield chunk

# --- Tail: a use of the snippet ---
chunks = list(chat_stream(agent, "hi"))

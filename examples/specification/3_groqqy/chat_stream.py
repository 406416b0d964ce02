"""Future Extensions: streaming responses"""

# --- Head: names that the snippet leaves out ---
from ragkit import ScriptedProvider
from ragkit.compat import Groqqy

bot = Groqqy(provider=ScriptedProvider(["one two"]))
agent = bot.agent

# --- The snippet ---
def chat_stream(self, message):
    """Yield response tokens as they arrive."""
    for chunk in agent.run_stream(message):
        yield chunk

# --- Tail: a use of the snippet ---
chunks = list(chat_stream(bot, "hi"))

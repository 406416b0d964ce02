"""Layer 1: Public API (Bot), the contract"""

# --- Head: names that the snippet leaves out ---
from ragkit import ToolRegistry
from ragkit.compat import Groqqy

custom_registry = ToolRegistry()

# --- The snippet ---
# User facing
bot = Groqqy()                           # Create bot
response, cost = bot.chat("message")     # Chat
bot.reset()                              # Reset

# Advanced (new in v0.3.0)
bot = Groqqy(
    model="llama-3.3-70b",               # Custom model
    tools=custom_registry,               # Custom tools
    max_iterations=20,                   # More reasoning steps
    system_instruction="..."             # Custom behavior
)

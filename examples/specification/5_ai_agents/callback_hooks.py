"""Debug Hooks: custom callbacks, as hooks"""

# --- Head: names that the snippet leaves out ---
from ragkit import AgentConfig, Bot, ScriptedProvider

# --- The snippet ---
# Custom callbacks
hooks = {
    "new_message": lambda *_: print("Sending to LLM..."),
    "end_message": lambda response, *_: print(f"Received: {response.content}"),
}
chat = Bot(provider=ScriptedProvider(["hello"]), config=AgentConfig(hooks=hooks))

# --- Tail: a use of the snippet ---
chat.chat("hi")

"""Debug Hooks: custom callbacks"""

# --- Head: names that the snippet leaves out ---
from ragkit import Bot, ScriptedProvider

chat = Bot(provider=ScriptedProvider(["hello"]))

# --- The snippet ---
# Custom callbacks
chat.on("new_message", lambda *_: print("Sending to LLM..."))
chat.on("end_message", lambda response, *_: print(f"Received: {response.content}"))

# --- Tail: a use of the snippet ---
chat.chat("hi")

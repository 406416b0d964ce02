"""Standard Tool-Calling Flow: step 5"""

# --- Head: names that the snippet leaves out ---
from ragkit import ConversationMemory, InMemoryCache, Message, PromptBuilder, Role, ToolCallParser, UsageStats, tool

@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


tools = [add]
model, temperature = "some-model", 0.7
Memory, Cache = ConversationMemory(), InMemoryCache()

from ragkit import ScriptedProvider

Provider = ScriptedProvider(["It is 3."])
messages = [Message(Role.USER, "What is 1 + 2?")]
prompt = PromptBuilder().build(tools)

# --- The snippet ---
response = Provider.complete(model, prompt, messages)

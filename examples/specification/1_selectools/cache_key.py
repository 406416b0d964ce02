"""Standard Tool-Calling Flow: step 4"""

# --- Head: names that the snippet leaves out ---
from ragkit import ConversationMemory, InMemoryCache, Message, PromptBuilder, Role, ToolCallParser, UsageStats, tool

@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


tools = [add]
model, temperature = "some-model", 0.7
Memory, Cache = ConversationMemory(), InMemoryCache()

from ragkit import CacheKeyBuilder

messages = [Message(Role.USER, "What is 1 + 2?")]
prompt = PromptBuilder().build(tools)

# --- The snippet ---
key = CacheKeyBuilder.build(model, prompt, messages, tools, temperature)
cached = Cache.get(key)

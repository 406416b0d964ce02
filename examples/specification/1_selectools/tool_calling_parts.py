"""Standard Tool-Calling Flow: steps 2, 3, 6, 7 and 9, one component after the other"""

# --- Head: names that the snippet leaves out ---
from ragkit import ConversationMemory, InMemoryCache, Message, PromptBuilder, Role, ToolCallParser, UsageStats, tool

@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


tools = [add]
model, temperature = "some-model", 0.7
Memory, Cache = ConversationMemory(), InMemoryCache()

# --- The snippet ---
messages = [*Memory.get_history(), Message(Role.USER, "What is 1 + 2?")]
prompt = PromptBuilder().build(tools)
call = ToolCallParser().parse('TOOL_CALL {"tool_name": "add", "parameters": {"a": 1, "b": 2}}')
checked = add.validate(call.arguments)
result = add.execute(call.arguments, {})
Memory.add(Message(Role.ASSISTANT, "It is 3."))

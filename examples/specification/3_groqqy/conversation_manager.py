"""ConversationManager"""

# --- Head: names that the snippet leaves out ---
from ragkit import ToolCall
from ragkit.compat import ConversationManager

text, call_id, result = "adding", "c1", "3"
tool_calls = [ToolCall("add", {"a": 1, "b": 2}, call_id)]

# --- The snippet ---
manager = ConversationManager()

# Add messages
manager.add_user("Hello")
manager.add_assistant("Hi there!")
manager.add_tool_calls(text, tool_calls)
manager.add_tool_result(call_id, result)

# Retrieve
history = manager.get_history()  # List[Dict]

# Utilities
len(manager)        # Message count
manager.reset()     # Clear history

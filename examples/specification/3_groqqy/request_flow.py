"""Typical Request Flow"""

# --- Head: names that the snippet leaves out ---
from pathlib import Path

from ragkit import ScriptedProvider, ToolCall
from ragkit.compat import Groqqy
from ragkit.agent.tools.builtin import FolderTools

for name in ("app.py", "test.py", "notes.txt"):
    Path(name).write_text("# a file\n")
search = ToolCall("search_files", {"pattern": "*.py"})
bot = Groqqy(tools=FolderTools(".").tools(), provider=ScriptedProvider([search, "I found 2 Python files..."]))

# --- The snippet ---
response, cost = bot.chat("Find Python files")

# --- Tail: a use of the snippet ---
result = bot.last_result
if result.tool_calls[0].content != "app.py\ntest.py":
    raise AssertionError(result.tool_calls[0].content)

"""Future Extensions: memory component"""

# --- Head: names that the snippet leaves out ---
from __future__ import annotations

# --- The snippet ---
class MemoryManager:
    def store(self, key, value):
        """Persist across conversations."""
        pass

    def recall(self, query):
        """Retrieve relevant memories."""
        pass

# --- Tail: a use of the snippet ---
from ragkit.compat import MemoryManager# the library's own class in place of the sketch

memory = MemoryManager()
memory.store("name", "Ada")
recalled = memory.recall("Who is the user?")

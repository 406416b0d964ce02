"""Tool Wrapper Pattern: runtime wrapping"""

# --- Head: names that the snippet leaves out ---
from ragkit import ToolContext, ToolWrapper

# --- The snippet ---
# Runtime Wrapping (Context Injection)
wrapped_tool = ToolWrapper(weather_tool, context_wrapper)

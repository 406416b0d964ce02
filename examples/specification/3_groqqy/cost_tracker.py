"""CostTracker"""

# --- Head: names that the snippet leaves out ---
from ragkit.compat import CostTracker

# --- The snippet ---
tracker = CostTracker()

# Add costs
tracker.add(0.000042, metadata={"iteration": 1, "model": "llama-3.1"})
tracker.add(0.000038, metadata={"iteration": 2})

# Retrieve
total = tracker.get_total()             # Float
entries = tracker.get_entries()         # List with metadata
tracker.reset()                         # Clear

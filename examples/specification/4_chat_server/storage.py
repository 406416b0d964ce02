"""Session Storage"""

# --- The snippet ---
# In-memory storage
traces = []
sessions = {}

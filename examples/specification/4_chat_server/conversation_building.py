"""Conversation Building"""

# --- Head: names that the snippet leaves out ---
session_id = "sess_xxx"
earlier = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good morning."}]
sessions = {session_id: {"messages": earlier}}

data = {"messages": [{"role": "user", "content": "When is the hedge cut?"}]}

# --- The snippet ---
if session_id and session_id in sessions:
    messages = sessions[session_id]["messages"] + [data.get("messages", [{}])[-1]]
else:
    messages = data.get("messages", [])

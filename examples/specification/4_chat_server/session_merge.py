"""Session Merge"""

# --- Head: names that the snippet leaves out ---
session_id = "sess_xxx"
earlier = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good morning."}]
sessions = {session_id: {"messages": earlier}}

messages = [{"role": "user", "content": "When is the hedge cut?"}]
data = {"messages": messages}

# --- The snippet ---
if session_id in sessions:
    conversation_messages = sessions[session_id]["messages"].copy()
    conversation_messages.extend(messages)
else:
    conversation_messages = messages

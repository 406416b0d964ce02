"""System Message Handling"""

# --- Head: names that the snippet leaves out ---
data = {
    "messages": [{"role": "system", "content": "Answer in Latin."}, {"role": "user", "content": "Hello"}],
    "system_prompt": "Answer in Greek.",
}
messages = data["messages"]
config = {"system_prompt": data["system_prompt"]}

# --- The snippet ---
if messages and messages[0].get("role") == "system":
    config["system_prompt"] = messages[0]["content"]
    messages = messages[1:]  # Remove for processing

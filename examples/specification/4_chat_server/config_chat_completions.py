"""Configuration Extraction: /v1/chat/completions"""

# --- Head: names that the snippet leaves out ---
data = {"messages": [{"role": "user", "content": "Hello"}]}

# --- The snippet ---
config = {
    "system_prompt": data.get("system_prompt", "You are a helpful assistant..."),
    "max_tokens": data.get("max_tokens", 1000),
    "temperature": data.get("temperature", 0.7),
    "top_p": data.get("top_p", 1.0)
}

"""Configuration Extraction: /chat"""

# --- Head: names that the snippet leaves out ---
data = {"messages": [{"role": "user", "content": "Hello"}]}

# --- The snippet ---
config = {
    "temperature": data.get("temperature", 0.7),
    "top_p": data.get("top_p", 1.0),
    "max_tokens": data.get("max_tokens", 2048),  # Higher default
    "system_prompt": "You are a helpful assistant with access to web search and calculator tools."
}

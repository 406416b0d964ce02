"""A general tool-calling agent. It knows nothing of documents or retrieval.

Where to begin reading: `messages` (what is said), `tools` and `providers` (whom the agent talks to), `loop` with
`ask` and `act` (what it does), `drive` (who does it), `agent` (how it is used).
"""

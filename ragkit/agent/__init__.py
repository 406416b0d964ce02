"""A general tool-calling agent. It knows nothing of documents or retrieval.

Reading order: `messages`, `tools` and `providers` (the data and the interfaces), `loop` with `model_step` and
`tool_step` (the logic), `sync_driver` and `async_driver` (the I/O), `agent` (the public interface).
"""

"""The HTTP server of a knowledge base: OpenAI-compatible API, sessions, traces, web UI. Knows no pipelines."""

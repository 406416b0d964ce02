"""A knowledge base over HTTP: OpenAI's API, sessions, traces, a page. Knows no pipeline: it is handed what to serve."""

"""Models in GGUF files, which run inside this process: what a file says, where files are, and the engine."""

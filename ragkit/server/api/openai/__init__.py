"""The OpenAI-compatible API: chat completions, completions, responses, models, embeddings, reranking."""

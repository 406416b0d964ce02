"""Estimated tokens of a request to a model."""

from __future__ import annotations

from ragkit.agent.memory.memory import estimate_message_tokens
from ragkit.agent.messages import canonical_json
from ragkit.agent.providers.base import ModelRequest
from ragkit.usage.tokens import estimate_tokens


def count_request_tokens(request: ModelRequest, *, native_tools: bool) -> int:
    """Estimated tokens of a request: messages, tools and schema of the answer."""
    tokens = sum(map(estimate_message_tokens, request.messages))
    if native_tools:  # otherwise the system prompt describes them
        tokens += sum(estimate_tokens(canonical_json(tool.to_schema())) for tool in request.tools)
    schema = request.settings.response_schema
    return tokens + (estimate_tokens(canonical_json(dict(schema))) if schema is not None else 0)

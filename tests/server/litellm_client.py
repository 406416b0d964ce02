"""A program that uses litellm with the given URL and prints the results as JSON.

It runs in its own environment: litellm requires an older `openai` than ragkit.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import litellm

QUESTION = [{"role": "user", "content": "When is the hedge cut?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a town.",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}},
    },
}


def main(url: str) -> dict[str, Any]:
    """Request answers with and without streaming, with a tool, embeddings, and invalid requests."""
    given = {"api_base": f"{url}/v1", "api_key": "unused"}
    model = "openai/ragkit"
    whole = litellm.completion(model=model, messages=QUESTION, **given)
    stream = litellm.completion(
        model=model, messages=QUESTION, stream=True, stream_options={"include_usage": True}, **given
    )
    chunks = list(stream)
    called = litellm.completion(model=model, messages=QUESTION, tools=[WEATHER], **given)
    [call] = called.choices[0].message.tool_calls
    talk = [
        *QUESTION,
        called.choices[0].message.model_dump(),
        {"role": "tool", "tool_call_id": call.id, "content": "rain"},
    ]
    after = litellm.completion(model=model, messages=talk, tools=[WEATHER], **given)
    vectors = litellm.embedding(model=model, input=["hedge", "boiler"], **given)
    try:
        litellm.completion(model="openai/gpt-4o", messages=QUESTION, max_retries=0, **given)
        refused = ""
    except litellm.NotFoundError as error:
        refused = str(error)
    return {
        "whole": whole.choices[0].message.content,
        "tokens": whole.usage.completion_tokens,
        "streamed": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        "streamed_tokens": [chunk.usage.completion_tokens for chunk in chunks if getattr(chunk, "usage", None)][-1:],
        "finish": called.choices[0].finish_reason,
        "call": [call.function.name, json.loads(call.function.arguments)],
        "after": after.choices[0].message.content,
        "dimensions": [len(item["embedding"]) for item in vectors.data],
        "refused": refused,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1])))

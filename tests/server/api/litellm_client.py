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
    connection = {"api_base": f"{url}/v1", "api_key": "unused"}
    model = "openai/ragkit"
    complete = litellm.completion(model=model, messages=QUESTION, **connection)
    stream = litellm.completion(
        model=model, messages=QUESTION, stream=True, stream_options={"include_usage": True}, **connection
    )
    chunks = list(stream)
    tool_answer = litellm.completion(model=model, messages=QUESTION, tools=[WEATHER], **connection)
    [call] = tool_answer.choices[0].message.tool_calls
    conversation = [
        *QUESTION,
        tool_answer.choices[0].message.model_dump(),
        {"role": "tool", "tool_call_id": call.id, "content": "rain"},
    ]
    final_answer = litellm.completion(model=model, messages=conversation, tools=[WEATHER], **connection)
    vectors = litellm.embedding(model=model, input=["hedge", "boiler"], **connection)
    try:
        litellm.completion(model="openai/gpt-4o", messages=QUESTION, max_retries=0, **connection)
        error_message = ""
    except litellm.NotFoundError as error:
        error_message = str(error)
    return {
        "complete": complete.choices[0].message.content,
        "tokens": complete.usage.completion_tokens,
        "streamed": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        "streamed_tokens": [chunk.usage.completion_tokens for chunk in chunks if getattr(chunk, "usage", None)][-1:],
        "finish": tool_answer.choices[0].finish_reason,
        "call": [call.function.name, json.loads(call.function.arguments)],
        "final": final_answer.choices[0].message.content,
        "dimensions": [len(item["embedding"]) for item in vectors.data],
        "error_message": error_message,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1])))

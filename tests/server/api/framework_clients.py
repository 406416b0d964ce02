"""A program that uses LangChain, LlamaIndex and the `openai` that they install with the given URLs.

It prints the results as JSON. It runs in its own environment: the frameworks require an older `openai` than ragkit.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import llama_index.core
import openai
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from llama_index.core.llms import ChatMessage
from llama_index.embeddings.openai import OpenAIEmbedding
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike

QUESTION = "When is the hedge cut?"
WEATHER = {
    "title": "get_weather",
    "description": "The weather of a town.",
    "type": "object",
    "properties": {"town": {"type": "string"}},
    "required": ["town"],
}
OPTIONS: dict[str, Any] = {"api_key": "unused", "max_retries": 0}
# LangChain counts tokens with a vocabulary that it would download; LlamaIndex brings it along
os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(llama_index.core.__file__).parent / "_static" / "tiktoken_cache")


def use_langchain(url: str) -> dict[str, Any]:
    """A conversation, a stream, a forced tool, a schema, the Responses API, and embeddings."""
    model = ChatOpenAI(model="ragkit", base_url=url, **OPTIONS)
    conversation = [SystemMessage("Be brief."), HumanMessage("Hello"), AIMessage("Hello."), HumanMessage(QUESTION)]
    chunks = list(model.bind(stop=["[1]"]).stream(conversation))
    forced = model.bind_tools([WEATHER], tool_choice="get_weather").invoke("The weather of Oslo?")
    structured = model.with_structured_output(WEATHER, method="json_schema").invoke("The weather of Rome?")
    called = model.with_structured_output(WEATHER, method="function_calling").invoke("The weather of Rome?")
    responses = ChatOpenAI(model="ragkit", base_url=url, use_responses_api=True, **OPTIONS)
    first = responses.invoke(QUESTION)
    streamed = "".join(chunk.text for chunk in responses.stream(QUESTION))
    embeddings = OpenAIEmbeddings(model="ragkit", base_url=url, check_embedding_ctx_length=False, **OPTIONS)
    as_tokens = OpenAIEmbeddings(model="ragkit", base_url=url, **OPTIONS).embed_query("hedge")
    try:
        client = openai.OpenAI(base_url=url, **OPTIONS)
        client.embeddings.create(model="ragkit", input=[[200_000]])
        refused = ""
    except openai.BadRequestError as error:
        refused = str(error)
    return {
        "answer": model.invoke(conversation).content,
        "streamed": "".join(str(chunk.content) for chunk in chunks),
        "forced": [[call["name"], call["args"]] for call in forced.tool_calls],
        "structured": structured,
        "called": called,
        "responses": first.text,
        "responses_streamed": streamed,
        "dimensions": [len(row) for row in embeddings.embed_documents(["hedge", "boiler"])],
        "query": len(embeddings.embed_query("hedge")),
        "as_tokens": as_tokens == embeddings.embed_query("hedge"),
        "refused": refused,
    }


def use_llama_index(url: str) -> dict[str, Any]:
    """A question in the older API, a chat, a stream, and embeddings."""
    options: dict[str, Any] = {"api_base": url, "api_key": "unused", "max_retries": 0}
    model = OpenAILike(model="ragkit", is_chat_model=True, **options)
    messages = [ChatMessage(role="system", content="Be brief."), ChatMessage(role="user", content=QUESTION)]
    embeddings = OpenAILikeEmbedding(model_name="ragkit", **options)
    named = OpenAIEmbedding(model_name="ragkit", **options)
    return {
        "completed": OpenAILike(model="ragkit", **options).complete(QUESTION).text,
        "answer": model.chat(messages).message.content,
        "streamed": "".join(chunk.delta or "" for chunk in model.stream_chat(messages)),
        "dimensions": [len(row) for row in embeddings.get_text_embedding_batch(["hedge", "boiler"])],
        "named": len(named.get_query_embedding("hedge")),
    }


def main(langchain: str, llama_index: str) -> dict[str, Any]:
    """The results of both, each with an address of its own."""
    return {
        "openai": openai.__version__,
        "langchain": use_langchain(f"{langchain}/v1"),
        "llama_index": use_llama_index(f"{llama_index}/v1"),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))

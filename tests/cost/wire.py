"""A server with OpenAI's embeddings and chat completions API that counts every token.

Its model calls the first tool once, unless it is shown results, and then answers. It uses the standard library only.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

DIMENSION = 16
ANSWER = "It takes eleven minutes [1]."


@dataclass(frozen=True)
class CountedRequest:
    """One answered request."""

    path: str
    prompt_tokens: int
    completion_tokens: int = 0
    texts: int = 0


@dataclass
class Wire:
    """The counts of the server and its counting factor."""

    url: str = ""
    token_factor: float = 1.0
    """Charged tokens per estimated token: services count more than the estimate."""
    answer: str = ANSWER
    write: Callable[[dict[str, Any]], str] | None = None
    """Writes the answer to the JSON of a request without tools, instead of `answer`; may wait."""
    status: int = 200
    """The status of chat completions; others than 200 are errors."""
    requests: list[CountedRequest] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def tokens(self, text: str) -> int:
        """A quarter of the characters, rounded up, times `token_factor`."""
        return int(-(-len(text) // 4) * self.token_factor)

    def count(self, request: CountedRequest) -> None:
        """Record a request."""
        with self._lock:
            self.requests.append(request)

    def total(self, path: str) -> tuple[int, int, int]:
        """(requests, prompt tokens, completion tokens) of the requests whose path ends in `path`."""
        with self._lock:
            requests = [request for request in self.requests if request.path.endswith(path)]
        return (
            len(requests),
            sum(request.prompt_tokens for request in requests),
            sum(request.completion_tokens for request in requests),
        )


@contextmanager
def serving() -> Iterator[Wire]:
    """Run a server on the loopback interface during a `with` block."""
    wire = Wire()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            embedding = self.path.endswith("/embeddings")
            status = 200 if embedding else wire.status
            reply = _embed(wire, body) if embedding else _chat(wire, body) if status == 200 else {"error": {}}
            streamed = bool(body.get("stream")) and status == 200
            raw = _events(reply) if streamed else json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/event-stream" if streamed else "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        request_queue_size = 256
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    wire.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield wire
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def row_of(text: str) -> list[float]:
    """A row that counts words: each word in one column."""
    row = [0.0] * DIMENSION
    for word in text.lower().split():
        row[sum(map(ord, word.strip(".,?!"))) % DIMENSION] += 1.0
    length = sum(value * value for value in row) ** 0.5 or 1.0
    return [value / length for value in row]


def _embed(wire: Wire, body: dict[str, Any]) -> dict[str, Any]:
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    tokens = sum(map(wire.tokens, texts))
    wire.count(CountedRequest("/embeddings", tokens, texts=len(texts)))
    packed = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _packed(row_of(text)) if packed else row_of(text)}
        for index, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": body["model"], "data": data, "usage": usage}


def _packed(row: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode()


def _chat(wire: Wire, body: dict[str, Any]) -> dict[str, Any]:
    messages, tools = body["messages"], body.get("tools") or []
    prompt_tokens = sum(wire.tokens(json.dumps(message)) for message in messages) + wire.tokens(json.dumps(tools))
    calls = []
    if tools and messages[-1]["role"] != "tool" and "<data tool=" not in messages[-1]["content"]:
        function = tools[0]["function"]
        name = next(iter(function["parameters"]["properties"]))
        arguments = json.dumps({name: str(messages[-1]["content"])[:80]})
        calls = [{"id": "call_1", "type": "function", "function": {"name": function["name"], "arguments": arguments}}]
    answer = wire.write(body) if wire.write and not calls else wire.answer
    message = {"role": "assistant", "content": None if calls else answer}
    completion_tokens = wire.tokens(json.dumps(calls) if calls else answer)
    wire.count(CountedRequest("/chat/completions", prompt_tokens, completion_tokens))
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": {**message, "tool_calls": calls} if calls else message,
                "finish_reason": "tool_calls" if calls else "stop",
            }
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def _events(reply: dict[str, Any]) -> bytes:
    """An answer as server-sent events: one for the message, one for its end, one for the usage."""
    choice = reply["choices"][0]
    calls = [{"index": index, **call} for index, call in enumerate(choice["message"].get("tool_calls", []))]
    delta = {**choice["message"], **({"tool_calls": calls} if calls else {})}
    head = {"id": reply["id"], "object": "chat.completion.chunk", "created": 1, "model": reply["model"]}
    chunks: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {**head, "choices": [], "usage": reply["usage"]},
    ]
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + b"data: [DONE]\n\n"

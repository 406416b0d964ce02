"""The wire formats of the five services, and the requests that they reject, as far as providers use them.

Sources: the API references of OpenAI (Chat Completions), Anthropic (Messages), Google (generateContent), Ollama
(/api/chat) and Groq, and the observed traffic of their SDKs.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.wire.server import Dialect, Fault, RecordedRequest, ToolCallTurn, Turn, events, split_in_half


class OpenAIWire:
    """POST /v1/chat/completions."""

    path = "/v1/chat/completions"
    stream_type = "text/event-stream"
    model = "gpt-4o-mini-2024-07-18"

    def streams(self, seen: RecordedRequest) -> bool:
        return bool(seen.body.get("stream"))

    def wrong(self, seen: RecordedRequest) -> str:
        if seen.path != self.path:
            return f"the path {seen.path}"
        if seen.headers.get("authorization") != "Bearer test-key":
            return f"authorization is {seen.headers.get('authorization')!r}"
        waiting: list[str] = []
        for message in seen.body["messages"]:
            if message["role"] == "tool":
                if message["tool_call_id"] not in waiting:
                    return f"a result of no call: {message}"
                waiting.remove(message["tool_call_id"])
                continue
            if waiting:
                return f"calls without results: {waiting}"
            waiting = [call["id"] for call in message.get("tool_calls", [])]
            for call in message.get("tool_calls", []):
                json.loads(call["function"]["arguments"])
        return f"calls without results: {waiting}" if waiting else ""

    def whole(self, turn: Turn) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": "".join(turn.text) or None, "refusal": None}
        if turn.thought:
            message["reasoning_content"] = turn.thought
        if turn.calls:
            message["tool_calls"] = [
                {"id": item.id, "type": "function", "function": {"name": item.name, "arguments": call_json(item, turn)}}
                for item in turn.calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": self.stop(turn), "logprobs": None}
        return {**self.frame("chat.completion"), "choices": [choice], "usage": self.usage(turn)}

    def pieces(self, turn: Turn) -> list[bytes]:
        result: list[dict[str, Any]] = [{"role": "assistant", "content": "" if turn.text else None, "refusal": None}]
        result += [{"reasoning_content": piece} for piece in split_in_half(turn.thought) if piece]
        result += [{"content": piece} for piece in turn.text]
        for index, call in enumerate(turn.calls):
            start = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
            result.append({"tool_calls": [{"index": index, **start}]})
            for piece in split_in_half(call_json(call, turn)):
                result.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        chunks = [self.chunk([{"index": 0, "delta": item, "finish_reason": None}]) for item in result]
        chunks.append(self.chunk([{"index": 0, "delta": {}, "finish_reason": self.stop(turn)}]))
        return events([("", item) for item in (*self.ended(chunks, turn), "[DONE]")])

    def ended(self, chunks: list[dict[str, Any]], turn: Turn) -> list[dict[str, Any]]:
        """The chunks, with the usage in the place of the service."""
        return [*chunks, {**self.chunk([]), "usage": self.usage(turn)}]

    def chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """One chunk."""
        return {**self.frame("chat.completion.chunk"), "choices": choices, "usage": None}

    def frame(self, kind: str) -> dict[str, Any]:
        """The fields of every response."""
        return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": self.model}

    def usage(self, turn: Turn) -> dict[str, Any]:
        """The token usage."""
        return {
            "prompt_tokens": turn.prompt_tokens,
            "completion_tokens": turn.completion_tokens,
            "total_tokens": turn.prompt_tokens + turn.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": turn.cached_tokens},
        }

    def stop(self, turn: Turn) -> str:
        """The stop reason."""
        return turn.stop or ("tool_calls" if turn.calls else "stop")

    def refusal(self, fault: Fault) -> Any:
        return {"error": {"message": fault.message, "type": "test", "param": None, "code": fault.code or None}}


class GroqWire(OpenAIWire):
    """POST /openai/v1/chat/completions; the usage of a stream is in `x_groq` of its last chunk."""

    path = "/openai/v1/chat/completions"
    model = "llama-3.3-70b-versatile"

    def wrong(self, seen: RecordedRequest) -> str:
        return "groq knows no stream_options" if "stream_options" in seen.body else super().wrong(seen)

    def ended(self, chunks: list[dict[str, Any]], turn: Turn) -> list[dict[str, Any]]:
        return [*chunks[:-1], {**chunks[-1], "x_groq": {"id": "req_1", "usage": self.usage(turn)}}]


class AnthropicWire:
    """POST /v1/messages."""

    stream_type = "text/event-stream"

    def streams(self, seen: RecordedRequest) -> bool:
        return bool(seen.body.get("stream"))

    def wrong(self, seen: RecordedRequest) -> str:
        if seen.path != "/v1/messages":
            return f"the path {seen.path}"
        if "test-key" not in (seen.headers.get("x-api-key"), seen.headers.get("authorization", "")[7:]):
            return "no API key"
        if "anthropic-version" not in seen.headers or "max_tokens" not in seen.body:
            return "no version, or no max_tokens"
        before, waiting = "assistant", list[str]()
        for message in seen.body["messages"]:
            if message["role"] not in ("user", "assistant") or message["role"] == before or not message["content"]:
                return f"not user and assistant in turn, or empty: {message}"
            answered = [item["tool_use_id"] for item in message["content"] if item["type"] == "tool_result"]
            if answered != waiting or any(item == {"type": "text", "text": ""} for item in message["content"]):
                return f"results {answered} for calls {waiting}, or an empty text"
            waiting = [item["id"] for item in message["content"] if item["type"] == "tool_use"]
            before = message["role"]
        return f"the last message is from {before}" if before != "user" else ""

    def whole(self, turn: Turn) -> Any:
        content: list[dict[str, Any]] = []
        if turn.thought:
            content.append({"type": "thinking", "thinking": turn.thought, "signature": "signed"})
        if turn.text:
            content.append({"type": "text", "text": "".join(turn.text), "citations": None})
        content += [
            {"type": "tool_use", "id": item.id, "name": item.name, "input": dict(item.arguments)} for item in turn.calls
        ]
        return {**self.frame(turn), "content": content, "stop_reason": self.stop(turn), "usage": self.usage(turn)}

    def pieces(self, turn: Turn) -> list[bytes]:
        start = {**self.usage(turn), "output_tokens": 1}
        results: list[tuple[str, Any]] = [
            ("message_start", {"message": {**self.frame(turn), "content": [], "stop_reason": None, "usage": start}}),
            ("ping", {}),
        ]
        index = 0
        if turn.thought:
            results += self.block(
                index,
                {"type": "thinking", "thinking": "", "signature": ""},
                [{"type": "thinking_delta", "thinking": item} for item in split_in_half(turn.thought)]
                + [{"type": "signature_delta", "signature": "signed"}],
            )
            index += 1
        if turn.text:
            deltas = [{"type": "text_delta", "text": item} for item in turn.text]
            results += self.block(index, {"type": "text", "text": ""}, deltas)
            index += 1
        for call in turn.calls:
            block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            json_pieces = ["", *split_in_half(call_json(call, turn))]
            deltas = [{"type": "input_json_delta", "partial_json": item} for item in json_pieces]
            results += self.block(index, block, deltas)
            index += 1
        end = {
            "delta": {"stop_reason": self.stop(turn), "stop_sequence": None},
            "usage": {"output_tokens": turn.completion_tokens},
        }
        results += [("message_delta", end), ("message_stop", {})]
        return events([(name, {"type": name, **data}) for name, data in results])

    def block(self, index: int, block: dict[str, Any], deltas: list[dict[str, Any]]) -> list[tuple[str, Any]]:
        """A block of the content."""
        return [
            ("content_block_start", {"index": index, "content_block": block}),
            *[("content_block_delta", {"index": index, "delta": item}) for item in deltas],
            ("content_block_stop", {"index": index}),
        ]

    def frame(self, turn: Turn) -> dict[str, Any]:
        """The fields of every response."""
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-haiku-4-5-20251001",
            "stop_sequence": None,
        }

    def usage(self, turn: Turn) -> dict[str, Any]:
        """The token usage: tokens from the cache are not among `input_tokens`."""
        return {
            "input_tokens": turn.prompt_tokens - turn.cached_tokens,
            "cache_read_input_tokens": turn.cached_tokens,
            "cache_creation_input_tokens": 0,
            "output_tokens": turn.completion_tokens,
        }

    def stop(self, turn: Turn) -> str:
        """The stop reason."""
        return turn.stop or ("tool_use" if turn.calls else "end_turn")

    def refusal(self, fault: Fault) -> Any:
        error = {"type": fault.code or "invalid_request_error", "message": fault.message}
        return {"type": "error", "error": error, "request_id": "req_1"}


class GeminiWire:
    """POST /v1/models/{model}:generateContent and :streamGenerateContent?alt=sse."""

    stream_type = "text/event-stream"

    def streams(self, seen: RecordedRequest) -> bool:
        return seen.path.endswith(":streamGenerateContent?alt=sse")

    def wrong(self, seen: RecordedRequest) -> str:
        if not (self.streams(seen) or seen.path.endswith(":generateContent")):
            return f"the path {seen.path}"
        if seen.headers.get("x-goog-api-key") != "test-key":
            return "no API key"
        waiting: list[tuple[str, str]] = []
        before = ""
        for content in seen.body["contents"]:
            if content["role"] not in ("user", "model") or content["role"] == before:
                return f"not user and model in turn: {content}"
            parts = content["parts"]
            results = [item["functionResponse"] for item in parts if "functionResponse" in item]
            if [(item.get("id", ""), item["name"]) for item in results] != waiting:
                return f"results {results} for calls {waiting}"
            calls = [item["functionCall"] for item in parts if "functionCall" in item]
            waiting = [(item.get("id", ""), item["name"]) for item in calls]
            before = content["role"]
        return "" if before == "user" else f"the last content is from {before}"

    def whole(self, turn: Turn) -> Any:
        parts: list[dict[str, Any]] = [{"text": turn.thought, "thought": True}] if turn.thought else []
        parts += [{"text": "".join(turn.text)}] if turn.text else []
        return self.answer([*parts, *self.calls(turn)], turn, end=True)

    def pieces(self, turn: Turn) -> list[bytes]:
        parts: list[list[dict[str, Any]]] = [
            [{"text": item, "thought": True}] for item in split_in_half(turn.thought) if item
        ]
        parts += [[{"text": item}] for item in turn.text]
        parts += [[item] for item in self.calls(turn)]
        last = len(parts) - 1
        results = [self.answer(item, turn, end=number == last) for number, item in enumerate(parts)]
        return events([("", item) for item in results or [self.answer([], turn, end=True)]])

    def calls(self, turn: Turn) -> list[dict[str, Any]]:
        """The calls; the first one has a signature of the thinking."""
        results = [
            {"functionCall": {"id": item.id, "name": item.name, "args": dict(item.arguments)}} for item in turn.calls
        ]
        if results and turn.thought:
            results[0]["thoughtSignature"] = base64.b64encode(b"signed").decode()  # type: ignore[assignment]
        return results

    def answer(self, parts: list[dict[str, Any]], turn: Turn, *, end: bool) -> dict[str, Any]:
        """One chunk; the usage of the last one counts."""
        candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
        if end:
            candidate["finishReason"] = turn.stop or "STOP"
        usage: dict[str, Any] = {
            "promptTokenCount": turn.prompt_tokens,
            "candidatesTokenCount": turn.completion_tokens if end else 1,
            "cachedContentTokenCount": turn.cached_tokens,
        }
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash"}

    def refusal(self, fault: Fault) -> Any:
        error: dict[str, Any] = {"code": fault.status, "message": fault.message, "status": fault.code or "UNKNOWN"}
        delay = fault.headers.get("retry-after")
        if delay is not None:  # this service has the delay in the body
            kind = "type.googleapis.com/google.rpc.RetryInfo"
            error["details"] = [{"@type": kind, "retryDelay": f"{delay}s"}]
        return {"error": error}


class OllamaWire:
    """POST /api/chat: a stream is one JSON object a line; calls have no id and are not split."""

    stream_type = "application/x-ndjson"

    def streams(self, seen: RecordedRequest) -> bool:
        return bool(seen.body["stream"])

    def wrong(self, seen: RecordedRequest) -> str:
        if seen.path != "/api/chat":
            return f"the path {seen.path}"
        waiting: list[str] = []
        for message in seen.body["messages"]:
            if message["role"] == "tool":
                if message["tool_name"] not in waiting:
                    return f"a result of no call: {message}"
                waiting.remove(message["tool_name"])
                continue
            if waiting:
                return f"calls without results: {waiting}"
            waiting = [call["function"]["name"] for call in message.get("tool_calls", [])]
        return f"calls without results: {waiting}" if waiting else ""

    def whole(self, turn: Turn) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": "".join(turn.text)}
        if turn.thought:
            message["thinking"] = turn.thought
        if turn.calls:
            message["tool_calls"] = [self.call(item) for item in turn.calls]
        return self.line(message, turn)

    def pieces(self, turn: Turn) -> list[bytes]:
        result: list[dict[str, Any]] = [
            {"content": "", "thinking": item} for item in split_in_half(turn.thought) if item
        ]
        result += [{"content": item} for item in turn.text]
        result += [{"content": "", "tool_calls": [self.call(item)]} for item in turn.calls]
        lines = [self.line({"role": "assistant", **item}) for item in result]
        lines.append(self.line({"role": "assistant", "content": ""}, turn))
        return [json.dumps(item).encode() + b"\n" for item in lines]

    def call(self, called: ToolCallTurn) -> dict[str, Any]:
        """A tool call."""
        return {"function": {"name": called.name, "arguments": dict(called.arguments)}}

    def line(self, message: dict[str, Any], end: Turn | None = None) -> dict[str, Any]:
        """One chunk."""
        results = {
            "model": "llama3.2",
            "created_at": "2026-01-01T00:00:00Z",
            "message": message,
            "done": end is not None,
        }
        if end is None:
            return results
        counts = {"prompt_eval_count": end.prompt_tokens, "eval_count": end.completion_tokens}
        return {**results, "done_reason": end.stop or "stop", **counts}

    def refusal(self, fault: Fault) -> Any:
        return {"error": fault.message}


def call_json(call: ToolCallTurn, turn: Turn) -> str:
    """The arguments of a call as JSON text."""
    return turn.arguments or json.dumps(dict(call.arguments))


DIALECTS: dict[str, Dialect] = {
    "openai": OpenAIWire(),
    "anthropic": AnthropicWire(),
    "gemini": GeminiWire(),
    "ollama": OllamaWire(),
    "groq": GroqWire(),
}

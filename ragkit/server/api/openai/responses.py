"""The route of OpenAI's Responses API, which the conversations of its clients are kept with.

A stored response is the answer of a session: its id is that of the answer, and only who may read the session can
continue it.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import TypeAdapter, ValidationError

from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.parser import parse_arguments
from ragkit.records import JSON
from ragkit.server.answering.request_options import RequestOptions
from ragkit.server.answering.streams import EventStream, run_while_connected
from ragkit.server.api.chat import parse_filter_param
from ragkit.server.api.dependencies import DEFAULT_MODEL, AppContext, ContextDep, JsonObject
from ragkit.server.api.openai.replies import Reply, ReplyStream, call_arguments
from ragkit.server.api.openai.requests import (
    Conversation,
    ParsedRequest,
    build_request,
    create_tools,
    parse_content,
    read_response_schema,
)
from ragkit.server.api.openai.response_schemas import ResponseBody, ResponseItem, ResponseSchema, ResponseTool
from ragkit.server.api.openai.schemas import JsonSchema, ResponseFormat, ToolFunction
from ragkit.server.api.openai.tool_choice import parse_tool_choice
from ragkit.server.api.schemas.requests import EVENT_STREAM_RESPONSE
from ragkit.server.http_errors import ErrorResponse, invalid_request
from ragkit.server.state.database import new_id

router = APIRouter(prefix="/v1")
_ID_PREFIX, _ANSWER_PREFIX = "resp_", "msg_"
_INCOMPLETE_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}
_TOOL_FUNCTION = TypeAdapter(ToolFunction)


@router.post(
    "/responses", responses={200: {"model": ResponseSchema, **EVENT_STREAM_RESPONSE}}, response_class=JSONResponse
)
async def create_response(request: Request, context: ContextDep, body: ResponseBody) -> Response:
    """Answer a question or a conversation from the documents. With `stream`, OpenAI's named server-sent events.

    The conversation is kept as a session, unless `store` is false; `previous_response_id` continues it.
    """
    context, model = context.select(body.model)
    parsed = await _parse_request(body, context, context.resolve_model(model))
    stream = await ReplyStream.start(request, context, parsed)
    writer = _ResponseWriter(body, stream.answer_id)
    if body.stream:
        return EventStream(writer.frames(stream), stream.abandon)
    reply = await run_while_connected(request, stream.complete())
    return JSONResponse(writer.response(reply))


async def _parse_request(body: ResponseBody, context: AppContext, model: str | None) -> ParsedRequest:
    """What a response is asked for. Raises RequestRejected."""
    previous = body.previous_response_id
    store = body.store is not False
    if previous is not None and not store:
        raise invalid_request("previous_response_id needs `store`: the conversation is kept", "previous_response_id")
    session = None
    if previous is not None:
        answer = previous.replace(_ID_PREFIX, _ANSWER_PREFIX, 1)
        session = await context.sessions.find_session(answer)
    if isinstance(body.input, str):
        messages = [Message.user(body.input)]
    else:
        messages = _parse_items(body.input, continues=session is not None)
    if body.instructions:
        messages.insert(0, Message.system(body.instructions))
    tools = create_tools([_parse_tool(tool, f"tools.{index}") for index, tool in enumerate(body.tools or ())])
    options = RequestOptions(
        model,
        parse_filter_param(body.where),
        body.top_k,
        body.temperature,
        body.top_p,
        body.max_output_tokens,
        tools=() if body.tool_choice == "none" else tools,
        response_schema=read_response_schema(_text_format(body), "text.format"),
        strict=body.strict,
    )
    forced = parse_tool_choice(body.tool_choice, tools)
    conversation = Conversation(messages, session, in_session=store, is_new=True, param="input")
    return await build_request(context, conversation, options, forced, streamed=bool(body.stream))


def _parse_items(items: Sequence[ResponseItem], *, continues: bool) -> list[Message]:
    """The messages of the items; `continues`: calls may be those of an earlier response. Raises RequestRejected."""
    messages: list[Message] = []
    names: dict[str, str] = {}
    for index, item in enumerate(items):
        param = f"input.{index}"
        if item.type == "message":
            role = Role.SYSTEM if item.role == "developer" else Role(item.role)
            text, images = parse_content(item.content, f"{param}.content")
            messages.append(Message(role, text, images=images))
        elif item.type == "function_call":
            names[item.call_id] = item.name
            call = parse_arguments(item.name, item.arguments or "{}", item.call_id)
            if messages and messages[-1].role is Role.ASSISTANT:
                messages[-1] = replace(messages[-1], tool_calls=(*messages[-1].tool_calls, call))
            else:
                messages.append(Message(Role.ASSISTANT, "", (call,)))
        elif item.type == "function_call_output":
            if item.call_id not in names and not continues:
                raise invalid_request("call_id matches no earlier function call", f"{param}.call_id")
            text, _ = parse_content(item.output, f"{param}.output")
            messages.append(Message(Role.TOOL, text, (), item.call_id, names.get(item.call_id, "")))
        elif item.type == "item_reference":
            raise invalid_request("item references are not supported: use previous_response_id", f"{param}.type")
    return messages


def _parse_tool(tool: ResponseTool, param: str) -> ToolFunction:
    if tool.type != "function":
        message = f"tools of type {tool.type[:40]!r} are not supported: this server searches its documents itself"
        raise invalid_request(message, f"{param}.type", "unsupported_value")
    try:
        values = {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters}
        return _TOOL_FUNCTION.validate_python(values)
    except ValidationError as error:
        raise invalid_request(f"{param}.name: {error.errors()[0]['msg']}", f"{param}.name") from error


def _text_format(body: ResponseBody) -> ResponseFormat | None:
    chosen = body.text.format if body.text is not None else None
    if chosen is None:
        return None
    schema = JsonSchema(name=chosen.name, schema=chosen.schema_)
    return ResponseFormat(type=chosen.type, json_schema=schema)


class _ResponseWriter:
    """Writes a reply as a response."""

    def __init__(self, body: ResponseBody, answer_id: str) -> None:
        suffix = (answer_id or new_id("msg")).removeprefix(_ANSWER_PREFIX)
        self._message_id = f"{_ANSWER_PREFIX}{suffix}"
        self._sequence = 0
        self._head: JsonObject = {
            "id": f"{_ID_PREFIX}{suffix}",
            "object": "response",
            "created_at": int(time.time()),
            "model": body.model or DEFAULT_MODEL,
            "error": None,
            "incomplete_details": None,
            "instructions": body.instructions,
            "previous_response_id": body.previous_response_id,
            "parallel_tool_calls": True,
            "tool_choice": body.tool_choice or "auto",
            "tools": [tool.model_dump() for tool in body.tools or ()],
            "temperature": body.temperature,
            "top_p": body.top_p,
            "max_output_tokens": body.max_output_tokens,
            "store": bool(answer_id),
            "metadata": {},
            "text": body.text.model_dump(by_alias=True) if body.text is not None else {"format": {"type": "text"}},
        }

    def response(self, reply: Reply) -> JsonObject:
        """The finished response."""
        reason = _INCOMPLETE_REASONS.get(reply.finish_reason)
        usage: JsonObject = {
            "input_tokens": reply.usage["prompt_tokens"],
            "input_tokens_details": {**_details(reply), "cache_write_tokens": 0},
            "output_tokens": reply.usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": reply.usage["total_tokens"],
            "ragkit": reply.usage["ragkit"],
        }
        return {
            **self._head,
            "status": "incomplete" if reason else "completed",
            "incomplete_details": {"reason": reason} if reason else None,
            "output": self._items(reply),
            "usage": usage,
            **reply.extra,
        }

    async def frames(self, stream: ReplyStream) -> AsyncIterator[bytes]:
        """The response as server-sent events."""
        begun: JsonObject = {**self._head, "status": "in_progress", "output": [], "usage": None}
        yield self._event("response.created", response=begun) + self._event("response.in_progress", response=begun)
        has_text = False
        async for pieces in stream.batches():
            frames = b"" if pieces else b": keep-alive\n\n"
            for piece in pieces:
                if isinstance(piece, str):
                    frames += b"" if has_text else b"".join(self._begin_text())
                    has_text = True
                    frames += self._text_event("response.output_text.delta", delta=piece, logprobs=[])
                elif isinstance(piece, ErrorResponse):
                    error: JsonObject = {"code": piece.code, "message": piece.message}
                    failed = {**begun, "status": "failed", "error": error}
                    frames += self._event("response.failed", response=failed)
                else:
                    frames += b"".join(self._end(piece, has_text=has_text))
            yield frames

    def _begin_text(self) -> Iterator[bytes]:
        item: JsonObject = {**self._message("", []), "status": "in_progress", "content": []}
        yield self._event("response.output_item.added", output_index=0, item=item)
        yield self._text_event("response.content_part.added", part=_text_part("", []))

    def _end(self, reply: Reply, *, has_text: bool) -> Iterator[bytes]:
        items = self._items(reply)
        if items and items[0]["type"] == "message":
            if not has_text:
                yield from self._begin_text()
            part = _text_part(reply.text, _citations(reply))
            for index, citation in enumerate(_citations(reply)):
                name = "response.output_text.annotation.added"
                yield self._text_event(name, annotation=citation, annotation_index=index)
            yield self._text_event("response.output_text.done", text=reply.text, logprobs=[])
            yield self._text_event("response.content_part.done", part=part)
            yield self._event("response.output_item.done", output_index=0, item=items[0])
        for index, item in enumerate(items):
            if item["type"] == "function_call":
                yield from self._call_events(index, item)
        response = self.response(reply)
        yield self._event(f"response.{response['status']}", response=response)

    def _call_events(self, index: int, item: JsonObject) -> Iterator[bytes]:
        place: JsonObject = {"output_index": index, "item_id": item["id"]}
        begun = {**item, "status": "in_progress", "arguments": ""}
        yield self._event("response.output_item.added", output_index=index, item=begun)
        yield self._event("response.function_call_arguments.delta", **place, delta=item["arguments"])
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield self._event("response.function_call_arguments.done", **place, **done)
        yield self._event("response.output_item.done", output_index=index, item=item)

    def _items(self, reply: Reply) -> list[JsonObject]:
        items = [_call_item(call) for call in reply.calls]
        return items if reply.calls and not reply.text else [self._message(reply.text, _citations(reply)), *items]

    def _message(self, text: str, annotations: list[JSON]) -> JsonObject:
        part = _text_part(text, annotations)
        return {
            "id": self._message_id,
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }

    def _text_event(self, name: str, /, **values: JSON) -> bytes:
        return self._event(name, item_id=self._message_id, output_index=0, content_index=0, **values)

    def _event(self, name: str, /, **values: JSON) -> bytes:
        data = {"type": name, "sequence_number": self._sequence, **values}
        self._sequence += 1
        return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False, default=dict)}\n\n".encode()


def _text_part(text: str, annotations: list[JSON]) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def _citations(reply: Reply) -> list[JSON]:
    return [{"type": "url_citation", **citation} for citation in reply.citations]


def _call_item(call: ToolCall) -> JsonObject:
    return {
        "id": f"fc_{call.id}",
        "type": "function_call",
        "status": "completed",
        "call_id": call.id,
        "name": call.name,
        "arguments": call_arguments(call),
    }


def _details(reply: Reply) -> JsonObject:
    details = reply.usage["prompt_tokens_details"]
    return dict(details) if isinstance(details, dict) else {}

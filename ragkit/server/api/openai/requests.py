"""Parses requests of OpenAI's APIs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragkit.agent.messages import Image, Message, Role
from ragkit.agent.providers.parser import parse_arguments
from ragkit.agent.result import SuspendedRun
from ragkit.agent.tools.base import Tool
from ragkit.agent.tools.schema_validator import check_schema
from ragkit.answer.passages import TOOL_NAME
from ragkit.records import JSON
from ragkit.server.answering.answer_tasks import AnswerRequest
from ragkit.server.answering.client_tasks import ClientTask, find_client_task
from ragkit.server.answering.pending_tool_calls import find_run_id, resume_run
from ragkit.server.answering.request_options import RequestOptions, last_user_message
from ragkit.server.api.chat import parse_filter_param
from ragkit.server.api.dependencies import AppContext
from ragkit.server.api.openai.schemas import (
    CompletionBody,
    ContentPart,
    MessageBody,
    ResponseFormat,
    TextCompletionBody,
    ToolFunction,
)
from ragkit.server.api.openai.tool_choice import ForcedCall, parse_tool_choice
from ragkit.server.http_errors import invalid_request

MAX_STOP_SEQUENCES = 16
_DATA_URL = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/=\s]+)")
_NO_PARAMETERS: Mapping[str, JSON] = {"type": "object", "properties": {}}
_TEXT_PARTS = {"text", "input_text", "output_text", "refusal"}
_IMAGE_PARTS = {"image_url", "input_image"}


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """What a request asks for."""

    answer: AnswerRequest
    task: ClientTask | None = None
    """The task of a chat program that it is; then nothing is searched and stored."""
    forced: ForcedCall | None = None
    """The call of a tool that the answer must be."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of a request, and where they belong."""

    messages: Sequence[Message]
    session_id: str | None = None
    in_session: bool = False
    """Whether the turn is stored, in `session_id` or in a new session."""
    is_new: bool = False
    """Whether the messages before the last one are stored, too."""
    param: str = "messages"
    """The key of the request, for errors."""


async def parse_completion_request(body: CompletionBody, context: AppContext, model: str | None) -> ParsedRequest:
    """What a chat completion asks for. Raises RequestRejected for unsupported or invalid parameters."""
    check_one_choice(body.n)
    if body.logprobs:
        raise invalid_request("`logprobs` is not supported", "logprobs", "unsupported_value")
    tools = create_tools([tool.function for tool in body.tools or ()])
    messages = parse_messages(body.messages)
    if body.system_prompt and not any(message.role is Role.SYSTEM for message in messages):
        messages.insert(0, Message.system(body.system_prompt))
    options = RequestOptions(
        model,
        parse_filter_param(body.where),
        body.top_k,
        body.temperature,
        body.top_p,
        body.max_completion_tokens or body.max_tokens,
        tools=() if body.tool_choice == "none" else tools,
        response_schema=read_response_schema(body.response_format, "response_format"),
        strict=body.strict,
        stop=parse_stop(body.stop),
    )
    forced = parse_tool_choice(body.tool_choice, tools)
    conversation = Conversation(messages, body.session_id, body.session_id is not None)
    return await build_request(context, conversation, options, forced, streamed=bool(body.stream))


async def parse_text_completion_request(
    body: TextCompletionBody, context: AppContext, model: str | None
) -> ParsedRequest:
    """What a completion of the older API asks for. Raises RequestRejected."""
    check_one_choice(body.n)
    prompts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
    if len(prompts) != 1 or not isinstance(prompts[0], str):
        raise invalid_request("prompt must be one text: lists and token ids are not supported", "prompt")
    options = RequestOptions(
        model,
        parse_filter_param(body.where),
        body.top_k,
        body.temperature,
        body.top_p,
        body.max_tokens,
        stop=parse_stop(body.stop),
    )
    conversation = Conversation([Message.user(prompts[0])], param="prompt")
    return await build_request(context, conversation, options, None, streamed=bool(body.stream))


async def build_request(
    context: AppContext,
    conversation: Conversation,
    options: RequestOptions,
    forced: ForcedCall | None,
    *,
    streamed: bool,
) -> ParsedRequest:
    """The request for an answer to a conversation. Raises RequestRejected.

    The history may be of any length: the agent shows the model as much of it as its context window holds.
    """
    messages = tuple(message for message in conversation.messages if message.role is not Role.SYSTEM)
    if not messages or messages[-1].role not in (Role.USER, Role.TOOL):
        message = "the last message must have the role `user` or `tool`"
        raise invalid_request(message, conversation.param, "no_question")
    question = last_user_message(messages)
    system = "\n".join(message.content for message in conversation.messages if message.role is Role.SYSTEM)
    options = replace(options, instructions=system)
    agent_input: tuple[Message, ...] | SuspendedRun = messages
    task, in_session = None, conversation.in_session
    sent: tuple[Message, ...] = ()
    if messages[-1].role is Role.TOOL:
        suspended = await find_suspended_run(messages, context)
        in_session = in_session and conversation.session_id is not None
        if suspended is not None:
            question, agent_input, forced = "", suspended, None
    else:
        task = None if conversation.session_id else find_client_task(conversation.messages)
        in_session = in_session and task is None
        if task is None:
            context.check_question(question, conversation.param)
        if in_session:
            agent_input, sent = messages[-1:], messages[:-1] if conversation.is_new else ()
    if forced is not None:
        instructions = f"{system}\n{forced.instructions}".strip()
        options = replace(options, tools=(), response_schema=forced.schema, instructions=instructions)
    options = replace(options, needs_model=_find_need_of_model(options, forced, messages))
    # events of OpenAI's cannot take text back
    answer = AnswerRequest(
        question, agent_input, conversation.session_id, in_session, sent, options=options, can_reset_text=not streamed
    )
    return ParsedRequest(answer, task, forced)


def parse_messages(bodies: Sequence[MessageBody]) -> list[Message]:
    """Convert messages to those of the agent. Raises RequestRejected for a tool result without a tool call."""
    names: dict[str, str] = {}
    messages = []
    for index, body in enumerate(bodies):
        role = Role.SYSTEM if body.role == "developer" else Role(body.role)
        calls = [
            parse_arguments(call.function.name, call.function.arguments or "{}", call.id)
            for call in body.tool_calls or ()
        ]
        names |= {call.id: call.name for call in calls}
        if role is Role.TOOL and (body.tool_call_id is None or body.tool_call_id not in names):
            raise invalid_request("tool_call_id matches no earlier tool call", f"messages.{index}.tool_call_id")
        text, images = parse_content(body.content, f"messages.{index}.content")
        call_id = body.tool_call_id or ""
        messages.append(Message(role, text, tuple(calls), call_id, names.get(call_id, ""), images=images))
    return messages


def parse_content(content: str | Sequence[ContentPart] | None, param: str) -> tuple[str, tuple[Image, ...]]:
    """The text and images of a message. Raises RequestRejected for files and sounds, and for images by their URL."""
    if content is None or isinstance(content, str):
        return content or "", ()
    images, texts = [], []
    for part in content:
        if part.type in _IMAGE_PARTS:
            url = part.image_url if isinstance(part.image_url, str) else part.image_url.url if part.image_url else ""
            match = _DATA_URL.fullmatch(url)
            if match is None:
                raise invalid_request("images must be data: URLs of type png, jpeg, gif or webp", param)
            images.append(Image("".join(match[2].split()), match[1]))
        elif part.type in _TEXT_PARTS:
            texts.append(part.text)
        else:
            message = f"content of type {part.type[:40]!r} is not supported: send texts and images"
            raise invalid_request(message, param, "unsupported_value")
    return "\n".join(filter(None, texts)), tuple(images)


def create_tools(functions: Sequence[ToolFunction]) -> tuple[Tool, ...]:
    """Tools of the caller. Raises RequestRejected."""
    names = [function.name for function in functions]
    if len(set(names)) < len(names):
        raise invalid_request("tool names must be unique", "tools")
    if TOOL_NAME in names:
        raise invalid_request(f"{TOOL_NAME} is a tool of this server: rename yours", "tools")
    return tuple(
        Tool(
            function.name,
            function.description or function.name,
            _client_tool_placeholder,
            function.parameters or dict(_NO_PARAMETERS),
        )
        for function in functions
    )


def _client_tool_placeholder(**arguments: object) -> str:
    """The caller runs its own tools: the policy suspends the run before this is called."""
    raise AssertionError("a tool of the caller was executed on the server")


def read_response_schema(response_format: ResponseFormat | None, param: str) -> Mapping[str, JSON] | None:
    """The JSON Schema that the answer must have; None: it is text. Raises RequestRejected, InvalidOption."""
    if response_format is None or response_format.type == "text":
        return None
    if response_format.type == "json_object":
        return {"type": "object"}
    if response_format.json_schema is None or response_format.json_schema.schema_ is None:
        raise invalid_request("schema is required", f"{param}.json_schema")
    check_schema(response_format.json_schema.schema_, f"{param}.json_schema.schema")
    return response_format.json_schema.schema_


def parse_stop(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    """The stop sequences that are not empty. Raises RequestRejected if they are too many."""
    sequences = [stop] if isinstance(stop, str) else stop or ()
    if len(sequences) > MAX_STOP_SEQUENCES:
        raise invalid_request(f"stop must have at most {MAX_STOP_SEQUENCES} texts (got {len(sequences)})", "stop")
    return tuple(filter(None, sequences))


def check_one_choice(n: int | None) -> None:
    """Raises RequestRejected if more than one answer is asked for."""
    if n not in (None, 1):
        raise invalid_request(f"n must be 1 (got {n})", "n", "unsupported_value")


def _find_need_of_model(options: RequestOptions, forced: ForcedCall | None, messages: Sequence[Message]) -> str:
    """What in a request only a model can do; '' for nothing."""
    if forced is not None:
        return "tool_choice"
    if options.response_schema is not None:
        return "response_format"
    return "an image" if messages[-1].images else ""


async def find_suspended_run(messages: Sequence[Message], context: AppContext) -> SuspendedRun | None:
    """The suspended run that the last tool results resume; None if it is unknown or expired."""
    results: dict[str, str] = {}
    for message in reversed(messages):
        if message.role is not Role.TOOL:
            break
        results[message.tool_call_id] = message.content
    run_id = find_run_id(results)
    serialized = await context.traces.load_suspended_run(run_id) if run_id else None
    return None if serialized is None else await resume_run(serialized, results, context.kb)

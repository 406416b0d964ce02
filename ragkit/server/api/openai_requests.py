"""Parses requests of OpenAI's chat completions API."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ragkit.agent.messages import Image, Message, Role
from ragkit.agent.providers.parser import parse_arguments
from ragkit.agent.result import SuspendedRun
from ragkit.agent.tools.base import Tool
from ragkit.agent.tools.schema_validator import check_schema
from ragkit.answer.passages import TOOL_NAME
from ragkit.records import JSON
from ragkit.server.answering.answer_tasks import AnswerRequest
from ragkit.server.answering.pending_tool_calls import find_run_id, resume_run
from ragkit.server.answering.request_options import RequestOptions, last_user_message
from ragkit.server.api.chat import parse_filter_param
from ragkit.server.api.dependencies import AppContext
from ragkit.server.api.openai_schemas import CompletionBody, ContentPart, MessageBody, ResponseFormat, ToolBody
from ragkit.server.http_errors import invalid_request

_DATA_URL = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/=\s]+)")
_NO_PARAMETERS: Mapping[str, JSON] = {"type": "object", "properties": {}}


async def parse_completion_request(body: CompletionBody, context: AppContext, model: str | None) -> AnswerRequest:
    """The answer request of a chat completion. Raises RequestRejected for unsupported or invalid parameters."""
    _check_supported(body)
    messages = parse_messages(body.messages)
    system = "\n".join(m.content for m in messages if m.role is Role.SYSTEM) or body.system_prompt or ""
    conversation = tuple(message for message in messages if message.role is not Role.SYSTEM)
    if not conversation or conversation[-1].role not in (Role.USER, Role.TOOL):
        raise invalid_request("the last message must have the role `user` or `tool`", "messages", "no_question")
    context.check_question(system + "".join(message.content for message in conversation), "messages")
    question = last_user_message(conversation)
    options = RequestOptions(
        model,
        parse_filter_param(body.where),
        body.top_k,
        body.temperature,
        body.top_p,
        body.max_completion_tokens or body.max_tokens,
        system,
        () if body.tool_choice == "none" else tuple(_create_tool(tool) for tool in body.tools or ()),
        _response_schema(body.response_format),
        body.strict,
    )
    in_session = body.session_id is not None
    agent_input: tuple[Message, ...] | SuspendedRun = conversation
    if conversation[-1].role is Role.TOOL:
        suspended = await _find_suspended_run(conversation, context)
        if suspended is not None:
            question, agent_input = "", suspended
    else:
        context.check_question(question, "messages")
        if in_session:
            agent_input = conversation[-1:]
    can_reset_text = not body.stream  # OpenAI's events cannot take text back
    return AnswerRequest(
        question, agent_input, body.session_id, in_session, options=options, can_reset_text=can_reset_text
    )


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
        text, images = _parse_content(body.content, f"messages.{index}.content")
        call_id = body.tool_call_id or ""
        messages.append(Message(role, text, tuple(calls), call_id, names.get(call_id, ""), images=images))
    return messages


def _parse_content(content: str | list[ContentPart] | None, param: str) -> tuple[str, tuple[Image, ...]]:
    if not isinstance(content, list):
        return content or "", ()
    images = []
    for part in content:
        if part.image_url is not None:
            match = _DATA_URL.fullmatch(part.image_url.url)
            if match is None:
                raise invalid_request("images must be data: URLs of type png, jpeg, gif or webp", param)
            images.append(Image("".join(match[2].split()), match[1]))
    return "\n".join(part.text for part in content if part.text), tuple(images)


def _create_tool(body: ToolBody) -> Tool:
    name = body.function.name
    if name == TOOL_NAME:
        raise invalid_request(f"{name} is a tool of this server: rename yours", "tools")
    parameters = body.function.parameters or dict(_NO_PARAMETERS)
    return Tool(name, body.function.description or name, _client_tool_placeholder, parameters)


def _client_tool_placeholder(**arguments: object) -> str:
    """The caller runs its own tools: the policy suspends the run before this is called."""
    raise AssertionError("a tool of the caller was executed on the server")


def _response_schema(response_format: ResponseFormat | None) -> Mapping[str, JSON] | None:
    if response_format is None or response_format.type == "text":
        return None
    if response_format.type == "json_object":
        return {"type": "object"}
    if response_format.json_schema is None or response_format.json_schema.schema_ is None:
        raise invalid_request("schema is required", "response_format.json_schema")
    check_schema(response_format.json_schema.schema_, "response_format.json_schema.schema")
    return response_format.json_schema.schema_


def _check_supported(body: CompletionBody) -> None:
    if body.n not in (None, 1):
        raise invalid_request(f"n must be 1 (got {body.n})", "n", "unsupported_value")
    if body.stop:
        raise invalid_request("`stop` is not supported", "stop", "unsupported_value")
    if body.logprobs:
        raise invalid_request("`logprobs` is not supported", "logprobs", "unsupported_value")
    if body.tool_choice not in (None, "auto", "none"):
        raise invalid_request("tool_choice must be `auto` or `none`", "tool_choice", "unsupported_value")
    names = [tool.function.name for tool in body.tools or ()]
    if len(set(names)) < len(names):
        raise invalid_request("tool names must be unique", "tools")


async def _find_suspended_run(messages: Sequence[Message], context: AppContext) -> SuspendedRun | None:
    """The suspended run that the last tool results resume; None if it is unknown or expired."""
    results: dict[str, str] = {}
    for message in reversed(messages):
        if message.role is not Role.TOOL:
            break
        results[message.tool_call_id] = message.content
    run_id = find_run_id(results)
    serialized = await context.traces.load_suspended_run(run_id) if run_id else None
    return None if serialized is None else await resume_run(serialized, results, context.kb)

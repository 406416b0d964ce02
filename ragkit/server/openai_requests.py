"""From a request of OpenAI's chat completions to what is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ragkit.agent.messages import Image, Message, Role, ToolCall
from ragkit.agent.parser import parse_arguments
from ragkit.agent.result import SuspendedRun
from ragkit.agent.tools.base import Tool
from ragkit.answer.tool import TOOL_NAME
from ragkit.records import JSON
from ragkit.server.answer_tasks import AnswerRequest
from ragkit.server.chat_api import parse_filter_param
from ragkit.server.dependencies import AppContext
from ragkit.server.http_errors import invalid_request
from ragkit.server.openai_schemas import CompletionBody, ContentPart, MessageBody, ResponseFormat, ToolBody
from ragkit.server.pending_tool_calls import find_run_id, resume_run
from ragkit.server.request_options import RequestOptions, last_user_message

_DATA_URL = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/=\s]+)")
_NO_PARAMETERS: Mapping[str, JSON] = {"type": "object", "properties": {}}


async def parse_completion_request(body: CompletionBody, service: AppContext) -> AnswerRequest:
    """What a request asks. Raises RequestRejected for what cannot be done here."""
    _check_supported(body)
    said = parse_messages(body.messages)
    system = "\n".join(one.content for one in said if one.role is Role.SYSTEM) or body.system_prompt or ""
    talk = tuple(one for one in said if one.role is not Role.SYSTEM)
    if not talk or talk[-1].role not in (Role.USER, Role.TOOL):
        raise invalid_request("the last message must be the user's, or the result of a tool", "messages", "no_question")
    service.check_question(system + "".join(one.content for one in talk), "messages")
    question = last_user_message(talk)
    wishes = RequestOptions(
        service.resolve_model(body.model),
        parse_filter_param(body.where),
        body.top_k,
        body.temperature,
        body.top_p,
        body.max_completion_tokens or body.max_tokens,
        system,
        () if body.tool_choice == "none" else tuple(_create_tool(one) for one in body.tools or ()),
        _response_schema(body.response_format),
    )
    kept = body.session_id is not None
    if talk[-1].role is Role.TOOL:
        suspended = await _find_suspended_run(talk, service)
        return AnswerRequest("" if suspended else question, suspended or talk, body.session_id, kept, options=wishes)
    service.check_question(question, "messages")
    return AnswerRequest(question, talk[-1:] if kept else talk, body.session_id, kept, options=wishes)


def parse_messages(bodies: Sequence[MessageBody]) -> list[Message]:
    """The messages in our words. Raises RequestRejected."""
    names: dict[str, str] = {}
    found = []
    for at, body in enumerate(bodies):
        role = Role.SYSTEM if body.role == "developer" else Role(body.role)
        calls = [_parse_tool_call(one.id, one.function.name, one.function.arguments) for one in body.tool_calls or ()]
        names |= {call.id: call.name for call in calls}
        if role is Role.TOOL and (body.tool_call_id is None or body.tool_call_id not in names):
            raise invalid_request("it answers no tool call that stands before it", f"messages.{at}.tool_call_id")
        text, images = _parse_content(body.content, f"messages.{at}.content")
        call_id = body.tool_call_id or ""
        found.append(Message(role, text, tuple(calls), call_id, names.get(call_id, ""), images=images))
    return found


def _parse_tool_call(identity: str, name: str, arguments: str) -> ToolCall:
    return parse_arguments(name, arguments or "{}", identity)


def _parse_content(content: str | list[ContentPart] | None, param: str) -> tuple[str, tuple[Image, ...]]:
    if not isinstance(content, list):
        return content or "", ()
    images = []
    for part in content:
        if part.image_url is not None:
            match = _DATA_URL.fullmatch(part.image_url.url)
            if match is None:
                raise invalid_request("a picture is taken as a data: URL of type png, jpeg, gif or webp only", param)
            images.append(Image("".join(match[2].split()), match[1]))
    return "\n".join(part.text for part in content if part.text), tuple(images)


def _create_tool(body: ToolBody) -> Tool:
    name = body.function.name
    if name == TOOL_NAME:
        raise invalid_request(f"{name} is the name of this server's own tool: choose another one", "tools")
    return Tool(
        name, body.function.description, _client_tool_placeholder, body.function.parameters or dict(_NO_PARAMETERS)
    )


def _client_tool_placeholder(**arguments: object) -> str:
    """A caller's tool runs at the caller's: the policy suspends the run before this is reached."""
    raise AssertionError("a caller's tool was executed here")


def _response_schema(wanted: ResponseFormat | None) -> Mapping[str, JSON] | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return {"type": "object"}
    if wanted.json_schema is None or wanted.json_schema.schema_ is None:
        raise invalid_request("a schema is wanted", "response_format.json_schema")
    return wanted.json_schema.schema_


def _check_supported(body: CompletionBody) -> None:
    if body.n not in (None, 1):
        raise invalid_request("one answer is given to a request", "n", "unsupported_value")
    if body.stop:
        raise invalid_request("answers are not cut at words", "stop", "unsupported_value")
    if body.logprobs:
        raise invalid_request("probabilities are not known here", "logprobs", "unsupported_value")
    if body.tool_choice not in (None, "auto", "none"):
        raise invalid_request(
            "the model chooses its tools itself: `auto` or `none`", "tool_choice", "unsupported_value"
        )
    names = [tool.function.name for tool in body.tools or ()]
    if len(set(names)) < len(names):
        raise invalid_request("two tools have the same name", "tools")


async def _find_suspended_run(talk: Sequence[Message], service: AppContext) -> SuspendedRun | None:
    """The run that waits for these results of tools; None when it is not known (any more)."""
    results: dict[str, str] = {}
    for message in reversed(talk):
        if message.role is not Role.TOOL:
            break
        results[message.tool_call_id] = message.content
    run = find_run_id(results)
    kept = await service.traces.load_suspended_run(run) if run else None
    return None if kept is None else await resume_run(kept, results, service.kb)

"""From a request of OpenAI's chat completions to what is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ragkit.agent.messages import Image, Message, Role, ToolCall
from ragkit.agent.parser import read_arguments
from ragkit.agent.result import SuspendedRun
from ragkit.agent.tools.base import Tool
from ragkit.answer.tool import TOOL_NAME
from ragkit.records import JSON
from ragkit.server.answers import Ask
from ragkit.server.conversations import where_of
from ragkit.server.faults import refuse
from ragkit.server.openai_shapes import CompletionBody, MessageBody, Part, ResponseFormat, ToolBody
from ragkit.server.service import Service
from ragkit.server.suspension import revive, run_of
from ragkit.server.wishes import Wishes, question_of

_DATA_URL = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/=\s]+)")
_NO_PARAMETERS: Mapping[str, JSON] = {"type": "object", "properties": {}}


async def read(body: CompletionBody, service: Service) -> Ask:
    """What a request asks. Raises Refused for what cannot be done here."""
    _check(body)
    said = messages_of(body.messages)
    system = "\n".join(one.content for one in said if one.role is Role.SYSTEM) or body.system_prompt or ""
    talk = tuple(one for one in said if one.role is not Role.SYSTEM)
    if not talk or talk[-1].role not in (Role.USER, Role.TOOL):
        raise refuse("the last message must be the user's, or the result of a tool", "messages", "no_question")
    service.check_question(system + "".join(one.content for one in talk), "messages")
    question = question_of(talk)
    wishes = Wishes(
        service.model(body.model),
        where_of(body.where),
        body.top_k,
        body.temperature,
        body.top_p,
        body.max_completion_tokens or body.max_tokens,
        system,
        () if body.tool_choice == "none" else tuple(_tool(one) for one in body.tools or ()),
        _form(body.response_format),
    )
    kept = body.session_id is not None
    if talk[-1].role is Role.TOOL:
        suspended = await _suspended(talk, service)
        return Ask("" if suspended else question, suspended or talk, body.session_id, kept, wishes=wishes)
    service.check_question(question, "messages")
    return Ask(question, talk[-1:] if kept else talk, body.session_id, kept, wishes=wishes)


def messages_of(bodies: Sequence[MessageBody]) -> list[Message]:
    """The messages in our words. Raises Refused."""
    names: dict[str, str] = {}
    found = []
    for at, body in enumerate(bodies):
        role = Role.SYSTEM if body.role == "developer" else Role(body.role)
        calls = [_call(one.id, one.function.name, one.function.arguments) for one in body.tool_calls or ()]
        names |= {call.id: call.name for call in calls}
        if role is Role.TOOL and (body.tool_call_id is None or body.tool_call_id not in names):
            raise refuse("it answers no tool call that stands before it", f"messages.{at}.tool_call_id")
        text, images = _content(body.content, f"messages.{at}.content")
        call_id = body.tool_call_id or ""
        found.append(Message(role, text, tuple(calls), call_id, names.get(call_id, ""), images=images))
    return found


def _call(identity: str, name: str, arguments: str) -> ToolCall:
    return read_arguments(name, arguments or "{}", identity)


def _content(content: str | list[Part] | None, param: str) -> tuple[str, tuple[Image, ...]]:
    if not isinstance(content, list):
        return content or "", ()
    images = []
    for part in content:
        if part.image_url is not None:
            match = _DATA_URL.fullmatch(part.image_url.url)
            if match is None:
                raise refuse("a picture is taken as a data: URL of type png, jpeg, gif or webp only", param)
            images.append(Image("".join(match[2].split()), match[1]))
    return "\n".join(part.text for part in content if part.text), tuple(images)


def _tool(body: ToolBody) -> Tool:
    name = body.function.name
    if name == TOOL_NAME:
        raise refuse(f"{name} is the name of this server's own tool: choose another one", "tools")
    return Tool(name, body.function.description, _never, body.function.parameters or dict(_NO_PARAMETERS))


def _never(**arguments: object) -> str:
    """A caller's tool runs at the caller's: the policy suspends the run before this is reached."""
    raise AssertionError("a caller's tool was executed here")


def _form(wanted: ResponseFormat | None) -> Mapping[str, JSON] | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return {"type": "object"}
    if wanted.json_schema is None or wanted.json_schema.schema_ is None:
        raise refuse("a schema is wanted", "response_format.json_schema")
    return wanted.json_schema.schema_


def _check(body: CompletionBody) -> None:
    if body.n not in (None, 1):
        raise refuse("one answer is given to a request", "n", "unsupported_value")
    if body.stop:
        raise refuse("answers are not cut at words", "stop", "unsupported_value")
    if body.logprobs:
        raise refuse("probabilities are not known here", "logprobs", "unsupported_value")
    if body.tool_choice not in (None, "auto", "none"):
        raise refuse("the model chooses its tools itself: `auto` or `none`", "tool_choice", "unsupported_value")
    names = [tool.function.name for tool in body.tools or ()]
    if len(set(names)) < len(names):
        raise refuse("two tools have the same name", "tools")


async def _suspended(talk: Sequence[Message], service: Service) -> SuspendedRun | None:
    """The run that waits for these results of tools; None when it is not known (any more)."""
    results: dict[str, str] = {}
    for message in reversed(talk):
        if message.role is not Role.TOOL:
            break
        results[message.tool_call_id] = message.content
    run = run_of(results)
    kept = await service.traces.resume(run) if run else None
    return None if kept is None else await revive(kept, results, service.kb)

"""Conversations for people: Markdown and HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape

from ragkit.agent.messages import Message, Role, canonical_json

_BACKTICKS = re.compile(r"`+")


def to_markdown(messages: Sequence[Message]) -> str:
    """A heading for each message; tool calls and results stand in code blocks."""
    parts = _parts(messages)
    return "\n\n".join(f"## {title}\n\n{_fence(text) if is_code else text}" for title, text, is_code in parts)


def to_html(messages: Sequence[Message]) -> str:
    """A page with a section for each message."""
    sections = [
        f"<section><h2>{escape(title)}</h2><{tag}>{escape(text)}</{tag}></section>"
        for title, text, is_code in _parts(messages)
        for tag in ("pre" if is_code else "p",)
    ]
    style = "p, pre { white-space: pre-wrap }"
    head = f'<!doctype html>\n<meta charset="utf-8">\n<title>Conversation</title>\n<style>{style}</style>\n'
    return head + "\n".join(sections) + "\n"


def _parts(messages: Sequence[Message]) -> Iterator[tuple[str, str, bool]]:
    """(title, text, whether it is code) of each text and each tool call."""
    for message in messages:
        title = message.role.value.capitalize()
        name = message.name if message.role is Role.TOOL else message.agent_name
        title = f"{title} ({name})" if name else title
        if message.content:
            yield title, message.content, message.role is Role.TOOL
        for call in message.tool_calls:
            yield f"{title}: calls {call.name}", call.malformed or canonical_json(dict(call.arguments)), True


def _fence(text: str) -> str:
    """A code block, with a fence that is longer than those in the text."""
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    return f"{fence}\n{text}\n{fence}"

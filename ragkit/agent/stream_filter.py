"""Separate a model's answer from its reasoning and from tool calls that it writes as text, also while it streams."""

from __future__ import annotations

import re
from collections.abc import Collection

from ragkit.agent.parser import ToolCallParser

_OPENING = re.compile(r"\s*<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_OPENING_TAGS = ("<think>", "<thinking>", "<thought>", "<reasoning>")
_CLOSING = re.compile(r"</(?:think|thinking|thought|reasoning)>\s*", re.IGNORECASE)
_MARKER = "TOOL_CALL"
_FENCE = "```"
_BRACKET_AT_LINE_START = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)


def split_reasoning(text: str) -> tuple[str, str]:
    """The answer, and the reasoning in `<think>` tags before it.

    Tags are reasoning at the start of an answer only; later ones are text. A block without its closing tag lasts to the
    end. Some chat templates write the opening tag themselves: then the text up to a lone closing tag is reasoning.
    """
    blocks: list[str] = []
    while (opening := _OPENING.match(text)) is not None:
        closing = _CLOSING.search(text, opening.end())
        blocks.append(text[opening.end() : closing.start() if closing else None].strip())
        text = text[closing.end() :] if closing else ""
    lone = _CLOSING.search(text) if not blocks else None
    if lone is not None and "<" not in text[: lone.start()]:
        return text[lone.end() :], text[: lone.start()].strip()
    return text, "\n\n".join(block for block in blocks if block)


class StreamFilter:
    """Holds back the parts of a streamed answer that are no text for the user.

    Args:
        tool_names: the tools that the model may call in its text; empty: its text is never parsed for calls.
        accept_bare_json: whether JSON without the marker TOOL_CALL may be a call.
    """

    def __init__(self, tool_names: Collection[str] = (), *, accept_bare_json: bool = False) -> None:
        self._tool_names = tool_names
        self._parser = ToolCallParser(accept_bare_json=accept_bare_json)
        self._held = ""
        self._at_start = True
        self._had_reasoning = False
        self._is_thinking = False
        self._is_line_start = True

    def feed(self, text: str) -> str:
        """The text to show now; may be empty."""
        self._held += text
        if self._at_start and not self._skip_reasoning():
            return ""
        return self._release_text() if self._tool_names else self._release(len(self._held))

    def flush(self) -> str:
        """The held text at the end of an answer without tool calls."""
        return "" if self._is_thinking else self._release(len(self._held))

    def _skip_reasoning(self) -> bool:
        """Drop reasoning blocks at the start. Whether the answer has begun."""
        while True:
            if self._is_thinking:
                closing = _CLOSING.search(self._held)
                if closing is None:
                    return False
                self._held, self._is_thinking = self._held[closing.end() :], False
            opening = _OPENING.match(self._held)
            if opening is None:
                break
            self._held, self._is_thinking, self._had_reasoning = self._held[opening.end() :], True, True
        self._held = self._held.lstrip() if self._had_reasoning else self._held
        start = self._held.lstrip().lower()
        self._at_start = not start or any(tag.startswith(start) for tag in _OPENING_TAGS)
        return not self._at_start

    def _release_text(self) -> str:
        """Release the text before anything that may be a tool call, and code blocks that are none."""
        released = ""
        while self._held:
            position = self._find_possible_call()
            released += self._release(position)
            end = self._end_of_harmless_block()
            if end == 0:
                break
            released += self._release(end)
        return released

    def _find_possible_call(self) -> int:
        """The position from which the held text may be a tool call; its length if there is none."""
        positions = [position for position in (self._held.find(_MARKER), self._held.find(_FENCE)) if position >= 0]
        if self._parser.accept_bare_json:
            bracket = _BRACKET_AT_LINE_START.search(self._held, 0 if self._is_line_start else self._next_line())
            positions += [bracket.start()] if bracket else []
        markers = (_MARKER, _FENCE)
        tails = (
            n for n in range(len(_MARKER) - 1, 0, -1) if any(m[:n] == self._held[-n:] for m in markers if n < len(m))
        )
        positions += [len(self._held) - n for n in tails]
        return min(positions, default=len(self._held))

    def _next_line(self) -> int:
        return self._held.find("\n") + 1 or len(self._held)

    def _end_of_harmless_block(self) -> int:
        """The end of a closed code block at the start of the held text, if it is no call; else 0."""
        if not self._held.startswith(_FENCE):
            return 0
        closing = self._held.find(f"\n{_FENCE}", len(_FENCE))
        end = closing + 1 + len(_FENCE)
        if closing < 0 or self._parser.find_calls(self._held[:end], self._tool_names):
            return 0
        return end

    def _release(self, end: int) -> str:
        text, self._held = self._held[:end], self._held[end:]
        if text:
            self._is_line_start = text.endswith("\n")
        return text

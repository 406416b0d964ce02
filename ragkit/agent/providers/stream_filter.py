"""Separate a model's answer from its reasoning and from tool calls that it writes as text, also while it streams."""

from __future__ import annotations

import re
from collections.abc import Collection

from ragkit.agent.providers.parser import ToolCallParser

_OPENING = re.compile(r"\s*<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_OPENING_TAGS = ("<think>", "<thinking>", "<thought>", "<reasoning>")
_CLOSING_TAGS = tuple(tag.replace("<", "</") for tag in _OPENING_TAGS)
_CLOSING = re.compile(r"</(?:think|thinking|thought|reasoning)>\s*", re.IGNORECASE)
_MARKER = "TOOL_CALL"
_FENCE = "```"
_CALL_TAG = "<tool_call>"
_BRACKET_AT_LINE_START = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)


def split_reasoning(text: str, *, starts_with_reasoning: bool = False) -> tuple[str, str]:
    """The answer, and the reasoning in `<think>` tags before it.

    Tags are reasoning at the start of an answer only; later ones are text. A block without its closing tag lasts to the
    end. Some chat templates write the opening tag themselves: then the text up to a lone closing tag is reasoning, if
    it has no other tags, or with `starts_with_reasoning`.
    """
    blocks: list[str] = []
    while (opening := _OPENING.match(text)) is not None:
        closing = _CLOSING.search(text, opening.end())
        blocks.append(text[opening.end() : closing.start() if closing else None].strip())
        text = text[closing.end() :] if closing else ""
    lone = _CLOSING.search(text) if not blocks else None
    if lone is not None and (starts_with_reasoning or "<" not in text[: lone.start()]):
        return text[lone.end() :], text[: lone.start()].strip()
    return text, "\n\n".join(block for block in blocks if block)


class StreamFilter:
    """Holds back the parts of a streamed answer that are no text for the user.

    Args:
        tool_names: the tools that the model may call in its text; empty: its text is never parsed for calls.
        accept_bare_json: whether JSON without the marker TOOL_CALL may be a call.
        starts_with_reasoning: whether the answer starts inside a block of reasoning, without an opening tag.
    """

    def __init__(
        self, tool_names: Collection[str] = (), *, accept_bare_json: bool = False, starts_with_reasoning: bool = False
    ) -> None:
        self._tool_names = tool_names
        self._parser = ToolCallParser(accept_bare_json=accept_bare_json)
        self._markers = (_MARKER, _FENCE, _CALL_TAG) if accept_bare_json else (_MARKER, _FENCE)
        self._held = ""
        self._at_start = True
        self._had_reasoning = False
        self._is_thinking = self._is_undecided = starts_with_reasoning
        """Undecided: only a closing tag tells whether the text so far is reasoning."""
        self._is_line_start = True
        self._reasoning = ""

    def feed(self, text: str) -> str:
        """The text to show now; may be empty."""
        self._held += text
        if self._at_start and not self._skip_reasoning():
            return ""
        return self._release_text() if self._tool_names else self._release(len(self._held))

    def take_reasoning(self) -> str:
        """The reasoning that arrived since the last call."""
        taken, self._reasoning = self._reasoning, ""
        return taken

    def flush(self) -> str:
        """The held text at the end of an answer without tool calls."""
        if self._is_thinking and not self._is_undecided:
            self._reasoning += self._release(len(self._held))
        return self._release(len(self._held))

    def _skip_reasoning(self) -> bool:
        """Move reasoning blocks at the start out of the text. Whether the answer has begun."""
        while True:
            opening = _OPENING.match(self._held)
            if opening is not None and (self._is_undecided or not self._is_thinking):
                self._held, self._is_thinking, self._is_undecided = self._held[opening.end() :], True, False
            if not self._is_thinking:
                break
            closing = _CLOSING.search(self._held)
            if closing is None:
                if not self._is_undecided:
                    self._reasoning += self._release(_before_partial_tag(self._held))
                return False
            self._reasoning += self._held[: closing.start()]
            self._held = self._held[closing.end() :]
            self._is_thinking = self._is_undecided = False
            self._had_reasoning = True
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
        positions = [position for position in map(self._held.find, self._markers) if position >= 0]
        if self._parser.accept_bare_json:
            bracket = _BRACKET_AT_LINE_START.search(self._held, 0 if self._is_line_start else self._next_line())
            positions += [bracket.start()] if bracket else []
        longest = max(map(len, self._markers))
        tails = (
            n for n in range(longest - 1, 0, -1) if any(m[:n] == self._held[-n:] for m in self._markers if n < len(m))
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


def _before_partial_tag(text: str) -> int:
    """The length of a text without the beginning of a closing tag at its end."""
    position = text.rfind("<")
    tail = text[position:].lower() if position >= 0 else ""
    return position if tail and any(tag.startswith(tail) for tag in _CLOSING_TAGS) else len(text)

"""Keeps the prompts of a conversation within the context window of the model.

A prompt is a view of the messages: the messages themselves, with the data of their tool results, stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ragkit.agent.loop.request_tokens import count_request_tokens
from ragkit.agent.memory.memory import estimate_message_tokens
from ragkit.agent.messages import Message, Role
from ragkit.agent.providers.base import ModelRequest, ModelSettings, Provider
from ragkit.argument_types import check_types
from ragkit.errors import ContextTooLong, InvalidOption, shorten
from ragkit.usage.model_info import MIN_CONTEXT_WINDOW
from ragkit.usage.pricing import PriceBook

MessageView: TypeAlias = Callable[[Sequence[Message], Collection[int]], Sequence[Message]]
"""The messages as the model sees them: (messages, indices of tool results to leave out) -> messages, one for one."""

LEFT_OUT_RESULT = "[This result is left out to save room. Call the tool again if you need it.]"
CUT_OFF = "\n[cut off: there is no room for the rest]"
_ANSWER_SHARE = 0.25
"""Share of the window that is kept for the answer, at most."""
_SAFETY = 0.85
"""Share of the room that a prompt may take, since its tokens are estimated."""
_OBSERVED_SAFETY = 0.92
"""The same after the service has counted a prompt, of which the next one differs a little."""
_MIN_SCALE = 0.3
_UNKNOWN_SHARE = 0.7
"""Share of a prompt that was too long that the next one may have, if the service does not say its window."""
_NOTE_SHARE = 0.1
"""Share of the room that the note about earlier turns may take."""
_MARK_TOKENS = 24
"""Tokens of the marks around a tool result."""
_EARLIER_TURNS = "Earlier in this conversation (left out to save room):"


def leave_out_results(messages: Sequence[Message], left_out: Collection[int]) -> list[Message]:
    """The messages, with a line in place of the tool results to leave out."""
    return [
        with_content(message, LEFT_OUT_RESULT) if index in left_out else message
        for index, message in enumerate(messages)
    ]


@check_types()
@dataclass(frozen=True)
class ContextWindow:
    """The limit of the prompts of an agent, and how its messages are shortened to stay within it.

    First tool results of earlier turns are left out, the oldest first; then earlier turns, in place of which a note
    says what they were about; then older results of the present turn; last, its newest result is cut.
    """

    tokens: int | None = None
    """Tokens of prompt and answer together; None: the window of the provider or model, where it is known. A service
    that finds a prompt too long is asked again with a shorter one in any case."""
    view: MessageView = leave_out_results
    """How the messages are shown to the model."""
    _learned: dict[tuple[str, str], int | None] = field(default_factory=dict, repr=False, compare=False)
    """The window by provider and model."""
    _scales: dict[tuple[str, str], float] = field(default_factory=dict, repr=False, compare=False)
    """Estimated tokens per real token, as far as services have told."""

    def __post_init__(self) -> None:
        if self.tokens is not None and self.tokens < MIN_CONTEXT_WINDOW:
            raise InvalidOption("tokens", self.tokens, f">= {MIN_CONTEXT_WINDOW} or None")

    def find_tokens(self, provider: Provider, model: str, prices: PriceBook) -> int | None:
        """The window in tokens; None if it is unknown."""
        key = provider.name, model
        if key not in self._learned:
            known = self.tokens or provider.context_window
            if known is None and provider.remote:
                info = prices.model_info(provider.name, model)
                known = info.context_window if info is not None else None
            self._learned[key] = known
        return self._learned[key]

    def fit(
        self, fixed: ModelRequest, messages: Sequence[Message], provider: Provider, prices: PriceBook
    ) -> tuple[Sequence[Message], ModelSettings]:
        """The messages as `view` shows them, shortened if they exceed the window, and the settings.

        Args:
            fixed: the request without the conversation: system prompt, tools and settings.
            messages: the conversation.
            provider: answers the request.
            prices: knows the windows of models.
        """
        tokens, settings = self.find_tokens(provider, fixed.model, prices), fixed.settings
        if tokens is None:
            return self.view(messages, ()), settings
        answer = min(settings.max_tokens, int(tokens * _ANSWER_SHARE))
        if answer < settings.max_tokens:
            settings = replace(settings, max_tokens=answer)
        scale = self._scales.get((provider.name, fixed.model), _SAFETY)
        room = int((tokens - answer) * scale) - count_request_tokens(fixed, native_tools=provider.native_tools)
        return fit_messages(messages, max(0, room), self.view), settings

    def observe(self, request: ModelRequest, provider: Provider, prompt_tokens: int) -> None:
        """Correct the estimate by the tokens that the service has counted; 0: it has not told."""
        if prompt_tokens > 0:
            estimated = count_request_tokens(request, native_tools=provider.native_tools)
            scale = _OBSERVED_SAFETY * estimated / prompt_tokens
            self._scales[provider.name, request.model] = min(1.0, max(_MIN_SCALE, scale))

    def learn(self, request: ModelRequest, provider: Provider, error: ContextTooLong) -> None:
        """Remember that the service found a request too long."""
        key = provider.name, request.model
        sent = count_request_tokens(request, native_tools=provider.native_tools) + request.settings.max_tokens
        known = self._learned.get(key)
        if error.limit is not None and (known is None or error.limit < known):
            self._learned[key] = max(MIN_CONTEXT_WINDOW, error.limit)
        elif error.limit is None and (known is None or sent < known):
            self._learned[key] = max(MIN_CONTEXT_WINDOW, int(sent * _UNKNOWN_SHARE))
        else:  # the service counts more tokens than were estimated
            self._scales[key] = self._scales.get(key, _SAFETY) * _UNKNOWN_SHARE


def fit_messages(messages: Sequence[Message], room: int, view: MessageView) -> list[Message]:
    """The messages as `view` shows them, shortened to `room` tokens, as far as possible."""
    last = max((i for i, message in enumerate(messages) if message.role is Role.USER), default=0)
    results = [i for i, message in enumerate(messages) if message.role is Role.TOOL]
    earlier, present = [i for i in results if i < last], [i for i in results if i > last]
    starts = [i for i, message in enumerate(messages[: last + 1]) if message.role is Role.USER]
    note_chars = int(room * _NOTE_SHARE) * 4
    # the steps in order; each one leaves out what those before it do
    steps = [(0, count) for count in range(len(earlier) + 1)]
    steps += [(start, len(earlier)) for start in starts[1:]]
    steps += [(last, len(earlier) + count) for count in range(1, len(present))]

    def build(step: int) -> list[Message]:
        start, count = steps[step]
        left_out = {*results[:count]}
        kept = [i for i in range(len(messages)) if i >= start or messages[i].pinned]
        shown = list(view([messages[i] for i in kept], {n for n, i in enumerate(kept) if i in left_out}))
        note = _describe_turns(messages[:start], note_chars)
        first = kept.index(start)
        if note:
            shown[first] = with_content(shown[first], f"{note}\n\n{shown[first].content}")
        return shown

    low, high = 0, len(steps) - 1
    shown = build(low)
    if _count_tokens(shown) <= room:
        return shown
    while low < high:
        middle = (low + high) // 2
        if _count_tokens(build(middle)) <= room:
            high = middle
        else:
            low = middle + 1
    shown = build(low)
    return _cut_results(shown, _count_tokens(shown) - room)


def _cut_results(messages: list[Message], excess: int) -> list[Message]:
    """The messages, where the results of the last turn are cut by `excess` tokens, the longest one first."""
    while excess > 0:
        index = max(
            (i for i, message in enumerate(messages) if message.role is Role.TOOL),
            key=lambda i: len(messages[i].content),
            default=None,
        )
        if index is None or len(messages[index].content) <= 2 * len(CUT_OFF):
            return messages
        text = messages[index].content
        size = len(text.encode("utf-8", "surrogatepass"))
        kept = max(0, len(text) - (excess * 4 * len(text)) // size - len(CUT_OFF) - 4)
        messages[index] = with_content(messages[index], text[:kept] + CUT_OFF)
        excess -= (size - len(text[:kept].encode("utf-8", "surrogatepass"))) // 4
    return messages


def _describe_turns(messages: Sequence[Message], max_chars: int) -> str:
    """A note of what earlier turns were about, the newest ones if there is no room for all; '' if there are none."""
    lines: list[str] = []
    answer, size = "", len(_EARLIER_TURNS)
    for message in reversed(messages):
        if message.role is Role.ASSISTANT and message.content and not message.tool_calls:
            answer = answer or message.content
        elif message.role is Role.USER and not message.pinned:
            line = f"- {shorten(_one_line(message.content), 120)}"
            line += f" -> {shorten(_one_line(answer), 160)}" if answer else ""
            size += len(line) + 1
            if size > max_chars:
                break
            lines.append(line)
            answer = ""
    return "\n".join([_EARLIER_TURNS, *reversed(lines)]) if lines else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _count_tokens(messages: Sequence[Message]) -> int:
    marks = sum(_MARK_TOKENS for message in messages if message.role is Role.TOOL)
    return sum(map(estimate_message_tokens, messages)) + marks


def with_content(message: Message, content: str) -> Message:
    """The message with another content."""
    return replace(message, content=content)

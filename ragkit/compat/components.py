"""Components for use without an agent: a message list in OpenAI's format, a tool executor, a cost tracker."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ragkit.agent.bot import Bot
from ragkit.agent.loop.tool_execution import collect_output, to_tool_result
from ragkit.agent.memory.memory import FifoLock
from ragkit.agent.messages import Message, Role, ToolCall, json_objects
from ragkit.agent.providers.base import Completion, ModelRequest, Provider
from ragkit.agent.providers.credentials import find_key
from ragkit.agent.providers.lookup import detect_provider, get_provider
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.agent.tools.builtin import create_default_registry
from ragkit.agent.tools.registry import ToolRegistry
from ragkit.argument_types import check_types
from ragkit.compat.openai_calls import call_id, to_openai_call, to_tool_call
from ragkit.errors import AuthenticationFailed, InvalidType, ProviderError, shorten
from ragkit.records import JSON

LOG = logging.getLogger("ragkit.agent")


class Groqqy(Bot):
    """A Bot that uses Groq: a missing key is an error of the first message, not a switch to the local provider.

    With a `provider`, with RAGKIT_MOCK_JSON, or with the key of another service and no `model`, it uses that one. The
    arguments are those of `Bot`; its default tools also read the files of the working directory.
    """

    @staticmethod
    def _choose_provider(model: str) -> Provider:
        return _select_provider(model)

    @staticmethod
    def _default_tools() -> ToolRegistry:
        return create_default_registry()


class KeyMissing(Provider):
    """Fails at each request with the reason why there is no provider."""

    def __init__(self, error: ProviderError) -> None:
        self.error = error

    def complete(self, request: ModelRequest) -> Completion:
        """Raises the error."""
        raise self.error


def _select_provider(model: str) -> Provider:
    """Groq, if it has a key; else the script of RAGKIT_MOCK_JSON or, without a `model`, another service with a key."""
    if ScriptedProvider.from_environment() is None and find_key("groq", required=False):
        return get_provider("groq")
    found = ScriptedProvider.from_environment() if model else detect_provider()
    try:
        return found or get_provider("groq")
    except AuthenticationFailed as error:
        return KeyMissing(error)


class StructuredLog:
    """A logger that takes fields: `log.info("Executing tool", name="add")` logs `Executing tool name='add'`."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, message: str, **fields: object) -> None:
        """Log at level DEBUG."""
        self._logger.debug(_join_fields(message, fields))

    def info(self, message: str, **fields: object) -> None:
        """Log at level INFO."""
        self._logger.info(_join_fields(message, fields))

    def warning(self, message: str, **fields: object) -> None:
        """Log at level WARNING."""
        self._logger.warning(_join_fields(message, fields))

    def error(self, message: str, **fields: object) -> None:
        """Log at level ERROR."""
        self._logger.error(_join_fields(message, fields))


def _join_fields(message: str, fields: Mapping[str, object]) -> str:
    return " ".join([message, *(f"{name}={value!r}" for name, value in fields.items())])


@check_types()
class ConversationManager:
    """The messages of a conversation in the format of OpenAI's chat API.

    It can be the memory of an agent: `agent.conversation = ConversationManager()`. Subclasses may keep the messages
    elsewhere by overriding `get_history` and the methods that add messages; they need not call `__init__`. What a
    subclass does not store, since it overrides `get_history` and not all of the others, stays in memory.
    """

    @cached_property
    def _messages(self) -> list[dict[str, JSON]]:
        return []

    @cached_property
    def _unstored(self) -> list[tuple[int, Message]]:
        """Messages of turns that a subclass has not stored, each with its place in the conversation."""
        return []

    def add_user(self, text: str) -> None:
        """Add a user message."""
        self._messages.append({"role": "user", "content": text})

    def add_assistant(self, text: str) -> None:
        """Add an assistant message."""
        self._messages.append({"role": "assistant", "content": text})

    def add_tool_calls(self, text: str, tool_calls: Sequence[ToolCall | Mapping[str, JSON]]) -> None:
        """Add an assistant message with tool calls."""
        calls: list[JSON] = [to_openai_call(call) if isinstance(call, ToolCall) else call for call in tool_calls]
        self._messages.append({"role": "assistant", "content": text, "tool_calls": calls})

    def add_tool_result(self, call_id: str, result: str) -> None:
        """Add the result of a call."""
        self._messages.append({"role": "tool", "tool_call_id": call_id, "content": result})

    def get_history(self) -> list[dict[str, JSON]]:
        """Every message, the oldest first."""
        return [dict(message) for message in self._messages]

    def reset(self) -> None:
        """Remove all entries."""
        self._messages.clear()

    def __len__(self) -> int:
        return len(self._messages)

    def __bool__(self) -> bool:
        return True

    # the memory of an agent

    @cached_property
    def run_lock(self) -> FifoLock:
        """See `RunMemory`."""
        return FifoLock()

    @property
    def is_persistent(self) -> bool:
        """True for subclasses, which may write to a database."""
        return type(self) is not ConversationManager

    @property
    def tool_state(self) -> Mapping[str, JSON]:
        """Empty: the state of tools is not kept."""
        return {}

    def load_messages(self) -> list[Message]:
        """The history as messages, with those that a subclass has not stored, in their order."""
        history = [_to_message(entry) for entry in self.get_history()]
        for index, message in self._unstored:
            history.insert(index, message)
        return history

    def record_turn(self, messages: Sequence[Message], tool_state: Mapping[str, JSON]) -> list[Message]:
        """Add the messages of a turn; none are dropped."""
        stores_elsewhere = type(self).get_history is not ConversationManager.get_history
        for message in messages:
            self._add(message)
            if stores_elsewhere and message.role is not Role.SYSTEM and not self._ends_with(message):
                self._unstored.append((len(self.load_messages()), message))
        return []

    def _ends_with(self, message: Message) -> bool:
        history = self.get_history()
        last = _to_message(history[-1]) if history else None
        return last is not None and (last.role, last.content) == (message.role, message.content)

    def _add(self, message: Message) -> None:
        if message.role is Role.USER:
            self.add_user(message.content)
        elif message.role is Role.TOOL:
            self.add_tool_result(message.tool_call_id, message.content)
        elif message.tool_calls:
            self.add_tool_calls(message.content, message.tool_calls)
        elif message.role is Role.ASSISTANT:
            self.add_assistant(message.content)

    def clear(self) -> None:
        """Remove all entries."""
        self.reset()
        self._unstored.clear()


@check_types(skip=("execute", "execute_all"))
class ToolExecutor:
    """Executes tool calls with the tools of a registry. A failure is returned as text for the model, never raised."""

    def __init__(self, registry: ToolRegistry) -> None:
        self.registry = registry
        self.log = StructuredLog(LOG)
        """Logs calls and failures to `ragkit.agent`."""

    def execute(self, tool_call: ToolCall | Mapping[str, JSON]) -> str:
        """The result of a ToolCall or of OpenAI's equivalent as text; `Error executing <name>: ...` on failure.

        A call whose arguments cannot be read as JSON fails: the tool is not executed.
        """
        if not isinstance(tool_call, ToolCall | Mapping):
            got = shorten(repr(tool_call), 80)
            return f"Error executing tool: a tool call must be a ToolCall or a mapping (got {got})"
        call = to_tool_call(tool_call)
        if call.malformed:
            self.log.error("Tool failed", name=call.name, error="unreadable arguments")
            return f"Error executing {call.name}: no JSON object can be read from {shorten(repr(call.malformed), 200)}"
        self.log.info("Executing tool", name=call.name, args=dict(call.arguments))
        try:
            value = self.registry.get(call.name).execute(call.arguments)
            return to_tool_result(collect_output(value, lambda _: None)).content
        except Exception as error:  # whatever a tool raises goes back to the model
            self.log.error("Tool failed", name=call.name, error=str(error))
            LOG.debug("the failure of %s", call.name, exc_info=True)
            return f"Error executing {call.name}: {error}"

    def execute_all(self, tool_calls: Sequence[ToolCall | Mapping[str, JSON]]) -> list[tuple[str, str]]:
        """(id of the call, result) for each call, in order."""
        if isinstance(tool_calls, str | Mapping) or not isinstance(tool_calls, Iterable):
            raise InvalidType("tool_calls", tool_calls, "a sequence of tool calls")
        return [(call_id(call), self.execute(call)) for call in tool_calls]


@dataclass(frozen=True, slots=True)
class CostEntry:
    """A cost in US dollars, with metadata."""

    cost: float
    metadata: Mapping[str, JSON] = field(default_factory=dict)


@check_types()
class CostTracker:
    """Sums costs."""

    def __init__(self) -> None:
        self._entries: list[CostEntry] = []

    def add(self, cost: float, metadata: Mapping[str, JSON] | None = None) -> None:
        """Add a cost in US dollars."""
        self._entries.append(CostEntry(cost, dict(metadata or {})))

    def get_total(self) -> float:
        """The total in US dollars."""
        return sum(entry.cost for entry in self._entries)

    def get_entries(self) -> list[CostEntry]:
        """Every cost, the oldest first."""
        return list(self._entries)

    def reset(self) -> None:
        """Remove all entries."""
        self._entries.clear()


def _to_message(entry: Mapping[str, JSON]) -> Message:
    calls = entry.get("tool_calls")
    return Message(
        Role(str(entry["role"])),
        str(entry.get("content") or ""),
        tuple(to_tool_call(call) for call in json_objects(calls)),
        tool_call_id=str(entry.get("tool_call_id") or ""),
    )

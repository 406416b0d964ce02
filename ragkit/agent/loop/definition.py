"""The definition of an agent as an immutable record, and handoffs between agents."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from hashlib import blake2b
from typing import TypeAlias, cast

from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.loop.structured_output import to_json_schema
from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.prompt import DEFAULT_INSTRUCTIONS, PromptBuilder
from ragkit.agent.providers.base import ModelSettings, Provider
from ragkit.agent.providers.signatures import adapt_provider
from ragkit.agent.tools.base import Tool, ToolCallable
from ragkit.agent.tools.registry import ToolRegistry
from ragkit.argument_types import check_types
from ragkit.errors import InvalidType
from ragkit.records import JSON
from ragkit.usage.meter import Meter

ToolSource: TypeAlias = ToolRegistry | Sequence[Tool | ToolCallable]
Opening: TypeAlias = Callable[[Sequence[Message]], Sequence[ToolCall]]
"""The calls that an agent makes itself, for a conversation that ends with the user's message. It may block."""

Instructions: TypeAlias = str | Callable[[Mapping[str, JSON]], str]

_HANDOFF_PARAMETERS: dict[str, JSON] = {
    "type": "object",
    "properties": {"reason": {"type": "string", "description": "Why the other agent should take over."}},
    "additionalProperties": False,
}


@check_types(skip=("create_meter", "create_system_message"))
@dataclass(frozen=True, eq=False)
class AgentDefinition:
    """An agent as an immutable record, without conversation state."""

    provider: Provider = cast("Provider", None)  # noqa: RUF009 - `model` may hold it
    """Also one with a documented signature; see `ragkit.agent.providers.adapter`."""
    tools: ToolSource | None = ()
    max_iterations: int | None = None
    """Overrides `config.max_iterations`."""
    config: AgentConfig = field(default_factory=AgentConfig)
    memory: ConversationMemory | None = None
    """The memory of runs without their own; runs that share it are serialized."""
    _: KW_ONLY
    model: InitVar[Provider | str | None] = None
    """The model's name, which overrides `config.model`; or a provider, in place of `provider`."""
    name: str = "agent"
    instructions: Instructions = DEFAULT_INSTRUCTIONS
    """The system prompt, or a function that is called once a run with the caller's data, and returns it."""
    description: str = ""
    """What it is good for: part of the handoff tools of other agents."""
    handoffs: Sequence[AgentDefinition | HandoffTool | str] = ()
    """Handoff targets; the AgentRunner resolves names."""
    prompt_builder: PromptBuilder | None = None
    """Builds the system prompt; None: the default one, with `instructions`."""
    opening: Opening | None = None
    """Tool calls before the first request of a run; the model reads their results with the user's message."""
    registry: ToolRegistry = field(init=False, repr=False)
    """A frozen snapshot of its tools, handoffs included."""
    system_prompt: str = field(init=False, repr=False)
    """Empty with a function as instructions: see `create_system_message`."""
    system_message: tuple[Message, ...] = field(init=False, repr=False)
    """The system prompt as a message; empty without a prompt."""
    available_tools: tuple[Tool, ...] = field(init=False, repr=False)
    """The tools of `registry` that are sent to models, in order."""
    model_settings: ModelSettings = field(init=False, repr=False)

    def __post_init__(self, model: Provider | str | None) -> None:
        provider = adapt_provider(cast("Provider", model) if self.provider is None else self.provider)
        registry = ToolRegistry(self.tools or ())
        for handoff in self.handoffs:
            registry.register(handoff if isinstance(handoff, HandoffTool) else HandoffTool.to(handoff))
        config = self.config
        if self.max_iterations is not None:
            config = replace(config, max_iterations=self.max_iterations)
        if isinstance(model, str):
            config = replace(config, model=model)
        form = config.response_format
        schema = to_json_schema(form) if form is not None else None
        sent = tuple(tool for tool in registry if tool.for_models)
        fields_: dict[str, object] = {
            "provider": provider,
            "registry": registry.snapshot(),
            "config": config,
            "available_tools": sent,
            "model_settings": ModelSettings(
                config.temperature, config.top_p, config.max_tokens, schema, config.request_timeout_s
            ),
        }
        for name, value in fields_.items():
            object.__setattr__(self, name, value)
        prompt = self._build_prompt(self.instructions) if isinstance(self.instructions, str) else ""
        object.__setattr__(self, "system_prompt", prompt)
        object.__setattr__(self, "system_message", (Message(Role.SYSTEM, prompt),) if prompt else ())

    def _build_prompt(self, instructions: str) -> str:
        builder = self.prompt_builder or PromptBuilder(instructions)
        marked = self.config.screening.mark_as_data and bool(len(self.registry))
        return builder.build(self.available_tools, native=self.provider.native_tools, marked=marked)

    def create_system_message(self, context: Mapping[str, JSON]) -> tuple[Message, ...]:
        """The system prompt of a run with the caller's data, as a message; empty without a prompt."""
        if isinstance(self.instructions, str):
            return self.system_message
        instructions = self.instructions(context)
        if not isinstance(instructions, str):
            raise InvalidType(f"what the instructions of {self.name!r} return", instructions, "a str")
        prompt = self._build_prompt(instructions)
        return (Message(Role.SYSTEM, prompt),) if prompt else ()

    def create_meter(self) -> Meter:
        """The meter of a new run."""
        return Meter(self.config.prices, on_call=self.config.on_call)


@check_types()
@dataclass(frozen=True)
class HandoffTool(Tool):
    """A tool whose call hands the conversation over to another agent; the loop performs the handoff."""

    target: AgentDefinition | str = ""
    """The target agent or its name."""

    @staticmethod
    def to(target: AgentDefinition | str, description: str = "") -> HandoffTool:
        """A handoff to an agent, named `handoff_to_<name>`, with letters that services allow: `Büro` gives `buro`."""
        name = target if isinstance(target, str) else target.name
        words = description or f"Hand the conversation over to {name}."
        if not description and isinstance(target, AgentDefinition) and target.description:
            words = f"{words} {target.description}"

        def handoff(reason: str = "") -> str:
            return f"handed over to {name}" + (f": {reason}" if reason else "")

        return HandoffTool(f"handoff_to_{to_identifier(name)}", words, handoff, _HANDOFF_PARAMETERS, target=target)

    @property
    def target_name(self) -> str:
        """The name of the target agent."""
        return self.target if isinstance(self.target, str) else self.target.name


def to_identifier(name: str) -> str:
    """The name of an agent in the letters that services allow in names of tools, at most 53.

    Accents are dropped. If other letters are lost, or the end, a digest of the name tells it from similar ones.
    """
    plain = "".join(char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char))
    identifier = re.sub(r"[^a-z0-9_]+", "_", plain.lower()).strip("_")
    if len(identifier) <= 53 and identifier and not any(char.isalnum() and not char.isascii() for char in plain):
        return identifier
    digest = blake2b(name.encode(), digest_size=3).hexdigest()
    return "_".join(part for part in (identifier[:46].rstrip("_"), digest) if part)

"""The definition of an agent as an immutable record, and handoffs between agents."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
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
from ragkit.records import JSON
from ragkit.usage.meter import Meter

ToolSource: TypeAlias = ToolRegistry | Sequence[Tool | ToolCallable]
Opening: TypeAlias = Callable[[Sequence[Message]], Sequence[ToolCall]]
"""The calls that an agent makes itself, for a conversation that ends with the user's message. It may block."""

_HANDOFF_PARAMETERS: dict[str, JSON] = {
    "type": "object",
    "properties": {"reason": {"type": "string", "description": "Why the other agent should take over."}},
    "additionalProperties": False,
}


@dataclass(frozen=True, eq=False)
class AgentDefinition:
    """An agent as an immutable record, without conversation state."""

    provider: Provider = cast("Provider", None)  # noqa: RUF009 - `model` may hold it
    """Also one with a documented signature; see `ragkit.agent.providers.adapter`."""
    tools: ToolSource = ()
    max_iterations: int | None = None
    """Overrides `config.max_iterations`."""
    config: AgentConfig = field(default_factory=AgentConfig)
    memory: ConversationMemory | None = None
    """The memory of runs without their own; runs that share it are serialized."""
    _: KW_ONLY
    model: InitVar[Provider | str | None] = None
    """The model's name, which overrides `config.model`; or a provider, in place of `provider`."""
    name: str = "agent"
    instructions: str = DEFAULT_INSTRUCTIONS
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
    system_message: tuple[Message, ...] = field(init=False, repr=False)
    """The system prompt as a message; empty without a prompt."""
    available_tools: tuple[Tool, ...] = field(init=False, repr=False)
    """The tools of `registry` that are sent to models, in order."""
    model_settings: ModelSettings = field(init=False, repr=False)

    def __post_init__(self, model: Provider | str | None) -> None:
        provider = adapt_provider(cast("Provider", model) if self.provider is None else self.provider)
        registry = ToolRegistry(self.tools)
        for handoff in self.handoffs:
            registry.register(handoff if isinstance(handoff, HandoffTool) else HandoffTool.to(handoff))
        config = self.config
        if self.max_iterations is not None:
            config = replace(config, max_iterations=self.max_iterations)
        if isinstance(model, str):
            config = replace(config, model=model)
        builder = self.prompt_builder or PromptBuilder(self.instructions)
        native, marked = provider.native_tools, config.screening.mark_as_data
        form = config.response_format
        schema = to_json_schema(form) if form is not None else None
        sent = tuple(tool for tool in registry if tool.for_models)
        prompt = builder.build(sent, native=native, marked=marked and bool(len(registry)))
        fields_: dict[str, object] = {
            "provider": provider,
            "registry": registry.snapshot(),
            "config": config,
            "available_tools": sent,
            "system_prompt": prompt,
            "system_message": (Message(Role.SYSTEM, prompt),) if prompt else (),
            "model_settings": ModelSettings(
                config.temperature, config.top_p, config.max_tokens, schema, config.request_timeout_s
            ),
        }
        for name, value in fields_.items():
            object.__setattr__(self, name, value)

    def create_meter(self) -> Meter:
        """The meter of a new run."""
        return Meter(self.config.prices, on_call=self.config.on_call)


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

        return HandoffTool(f"handoff_to_{_to_identifier(name)}", words, handoff, _HANDOFF_PARAMETERS, target=target)

    @property
    def target_name(self) -> str:
        """The name of the target agent."""
        return self.target if isinstance(self.target, str) else self.target.name


def _to_identifier(name: str) -> str:
    """The name of an agent in the letters that services allow in names of tools, at most 53.

    Accents are dropped. If other letters are lost, or the end, a digest of the name tells it from similar ones.
    """
    plain = "".join(char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char))
    identifier = re.sub(r"[^a-z0-9_]+", "_", plain.lower()).strip("_")
    if len(identifier) <= 53 and identifier and not any(char.isalnum() and not char.isascii() for char in plain):
        return identifier
    digest = blake2b(name.encode(), digest_size=3).hexdigest()
    return "_".join(part for part in (identifier[:46].rstrip("_"), digest) if part)

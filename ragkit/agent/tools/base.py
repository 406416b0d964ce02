"""Tools: a function with a name, a description and a schema of its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from types import MappingProxyType
from typing import overload

from ragkit.agent.tools.function_schema import (
    ToolSchema,
    ToolSignature,
    read_signature,
    unwrap_callable,
    validate_arguments,
    validate_with_schema,
)
from ragkit.agent.tools.schema_validator import check_schema
from ragkit.errors import InvalidOption
from ragkit.records import JSON

ToolCallable = Callable[..., object]
NO_ARGUMENTS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool result with text for the model and an object for the caller."""

    content: str
    """What the model sees."""
    data: object = None
    """Attached to the tool message; saved with the conversation if it is JSON."""


def discard_output(_: str) -> None:
    """The `emit` of a call without a receiver."""


def _not_cancelled() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The context of a tool call. Annotate a parameter with this class to receive it."""

    context: dict[str, JSON] = field(default_factory=dict)
    """The caller's data: a copy for this run, returned with its result."""
    state: dict[str, JSON] = field(default_factory=dict)
    """State of tools between calls and turns; saved with the conversation."""
    agent_name: str = ""
    tool_name: str = ""
    call_id: str = ""
    run_id: str = ""
    attempt: int = 1
    """1 for the first attempt."""
    max_attempts: int = 1
    emit: Callable[[str], None] = discard_output
    """Emits a chunk of output before the tool returns."""
    cancelled: Callable[[], bool] = _not_cancelled
    """Whether the run was cancelled, or no longer waits for this tool."""


@dataclass(frozen=True)
class Tool:
    """A function that a model can call.

    Calling the tool calls the function. The function may be synchronous or asynchronous, or a generator, whose
    chunks are emitted at once and joined for the model.
    """

    name: str
    description: str
    function: ToolCallable
    parameters: ToolSchema
    """JSON Schema of the arguments."""
    _: KW_ONLY
    timeout_s: float | None = None
    """Timeout in seconds; None: `tool_timeout_s` of the agent."""
    retries: int = 0
    """Number of retries if it raises."""
    injected_kwargs: Mapping[str, object] = field(default_factory=dict, repr=False)
    """Arguments for the function that are hidden from the model."""
    signature: ToolSignature | None = field(default=None, repr=False, compare=False)
    """The signature of the function; None for a hand-written schema."""
    takes_context: bool = field(default=False, repr=False)
    """Whether it takes a ToolContext."""
    is_async: bool = field(default=False, repr=False)
    fallback_name: str = field(default="", repr=False, compare=False)
    """The name in a registry where another tool has `name`; empty: a taken name is an error."""
    only_returns: bool = field(default=False, repr=False)
    """Whether it emits nothing: neither a generator nor a function with a ToolContext."""

    def __post_init__(self) -> None:
        if not self.name.replace("_", "").replace("-", "").isalnum() or len(self.name) > 64:
            raise InvalidOption("the name of a tool", self.name, "up to 64 letters, digits, '_' and '-'")
        if self.signature is None:
            check_schema(self.parameters, f"the parameters of {self.name}")
        target = unwrap_callable(self.function)
        pieces = inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target)
        takes_context = self.signature is not None and bool(self.signature.context_parameter)
        is_async = inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target)
        object.__setattr__(self, "takes_context", takes_context)
        object.__setattr__(self, "is_async", is_async)
        object.__setattr__(self, "only_returns", not (takes_context or pieces))

    @classmethod
    def from_function(
        cls,
        func: ToolCallable,
        description: str | None = None,
        *,
        name: str = "",
        injected_kwargs: Mapping[str, object] = NO_ARGUMENTS,
    ) -> Tool:
        """Create a tool from a function: name, description and schema come from its signature and docstring."""
        signature = read_signature(func, context_type=ToolContext, hidden=injected_kwargs)
        return cls(
            name or getattr(func, "__name__", type(func).__name__),
            signature.summary if description is None else description,
            func,
            signature.schema,
            injected_kwargs=MappingProxyType(dict(injected_kwargs)),
            signature=signature,
        )

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the function; the caller's arguments override the injected ones."""
        return self.function(*args, **{**self.injected_kwargs, **kwargs})

    def bind(self, **injected: object) -> Tool:
        """A copy of the tool with these arguments injected and hidden from the model."""
        return replace(
            Tool.from_function(
                self.function, self.description, name=self.name, injected_kwargs={**self.injected_kwargs, **injected}
            ),
            timeout_s=self.timeout_s,
            retries=self.retries,
        )

    def validate(self, parameters: Mapping[str, JSON]) -> dict[str, object]:
        """Validate and convert arguments. Raises InvalidToolArguments."""
        if self.signature is None:
            return validate_with_schema(self.parameters, self.name, parameters)
        return validate_arguments(self.signature, self.name, parameters)

    def execute(
        self,
        parameters: Mapping[str, JSON] | None = None,
        injected_kwargs: Mapping[str, object] | None = None,
        /,
        **arguments: JSON,
    ) -> object:
        """Validate the arguments and call the function: `execute({"city": "Oslo"})` or `execute(city="Oslo")`.

        Returns the return value unchanged, also a coroutine or a generator.
        """
        checked = self.validate({**(parameters or {}), **arguments})
        return self.call_validated(checked, ToolContext(tool_name=self.name), injected_kwargs or NO_ARGUMENTS)

    def call_validated(
        self, checked: Mapping[str, object], context: ToolContext | None, injected: Mapping[str, object] = NO_ARGUMENTS
    ) -> object:
        """Call the function with validated arguments, and with the context if it `takes_context`."""
        kwargs = {**self.injected_kwargs, **injected, **checked}
        if self.signature is not None and self.signature.context_parameter:
            kwargs[self.signature.context_parameter] = context
        return self.function(**kwargs)

    def to_schema(self) -> dict[str, JSON]:
        """The tool in the format of OpenAI's `tools` parameter."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self.parameters},
        }


@overload
def tool(function: ToolCallable, /) -> Tool: ...


@overload
def tool(
    description: str | None = None,
    /,
    *,
    name: str = "",
    injected_kwargs: Mapping[str, object] = NO_ARGUMENTS,
    timeout_s: float | None = None,
    retries: int = 0,
) -> Callable[[ToolCallable], Tool]: ...


@overload
def tool(
    *,
    description: str,
    name: str = "",
    injected_kwargs: Mapping[str, object] = NO_ARGUMENTS,
    timeout_s: float | None = None,
    retries: int = 0,
) -> Callable[[ToolCallable], Tool]: ...


def tool(
    subject: ToolCallable | str | None = None,
    /,
    *,
    description: str | None = None,
    name: str = "",
    injected_kwargs: Mapping[str, object] = NO_ARGUMENTS,
    timeout_s: float | None = None,
    retries: int = 0,
) -> Tool | Callable[[ToolCallable], Tool]:
    """Create a tool from a function: `@tool`, `@tool("what it does")` or `@tool(description=..., name=...)`.

    Args:
        subject: the function, or the description.
        description: for the model; by default the docstring without its parameters.
        name: by default the function's.
        injected_kwargs: arguments for the function that are hidden from the model.
        timeout_s: timeout in seconds; by default `tool_timeout_s` of the agent.
        retries: number of retries if it raises.

    Raises:
        InvalidOption: the signature has a type without a JSON Schema.
    """
    if callable(subject):
        return Tool.from_function(subject)
    words = subject if subject is not None else description

    def make(function: ToolCallable) -> Tool:
        built = Tool.from_function(function, words, name=name, injected_kwargs=injected_kwargs)
        return replace(built, timeout_s=timeout_s, retries=retries)

    return make


def build_tool_schema(func: ToolCallable) -> dict[str, JSON]:
    """The schema of a function in the format of OpenAI's `tools` parameter."""
    return Tool.from_function(func).to_schema()

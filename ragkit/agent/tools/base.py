"""Tools: a function with a name, a description and a schema of its parameters."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, ParamSpec, Protocol, TypeVar, overload

from ragkit.agent.tools.function_schema import (
    ToolSchema,
    ToolSignature,
    check_parameters,
    find_context_parameter,
    read_signature,
    unwrap_callable,
    validate_arguments,
    validate_with_schema,
)
from ragkit.agent.tools.schema_validator import check_schema
from ragkit.agent.tools.tool_class import adapt_class
from ragkit.argument_types import check_fields, check_types
from ragkit.errors import InvalidOption, InvalidType
from ragkit.lru_cache import LruCache
from ragkit.records import JSON

ToolCallable = Callable[..., object]
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
TOOL_NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What services allow."""
NO_ARGUMENTS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool result with text for the model and an object for the caller."""

    content: str
    """What the model sees."""
    data: object = None
    """Attached to the tool message; saved with the conversation if it is JSON."""

    def __post_init__(self) -> None:
        if self.content.__class__ is not str:
            check_fields(self)


@check_types()
@dataclass(frozen=True, slots=True)
class ToolCache:
    """How long and where the results of a tool are kept, by its arguments. A failed call is never kept.

    The key has the arguments as the model writes them: an omitted and a given default value are two entries. If the
    tool takes a ToolContext, the key also has its `context` and `state`: another user's data gives another entry. What
    the tool changes in them is not repeated for a kept result. Copies of a tool, as by `bind`, share nothing.
    """

    ttl_s: float | None = 300.0
    """Seconds until a result expires; None: never."""
    max_entries: int = 256
    """Results per tool, >= 1; the least recently used one is dropped first."""
    per_run: bool = False
    """Whether results are kept for one run only; otherwise all runs of the process share them."""

    def __post_init__(self) -> None:
        if self.max_entries < 1:
            raise InvalidOption("max_entries", self.max_entries, ">= 1")
        if self.ttl_s is not None and self.ttl_s <= 0:
            raise InvalidOption("ttl_s", self.ttl_s, "> 0 or None")


@dataclass(frozen=True, slots=True)
class KeptResult:
    """The result of a call, in a cache."""

    content: str
    data: object
    until: float
    """When it expires, in seconds of the monotonic clock."""


class KeptResults:
    """The kept results of one tool, by key. Thread-safe."""

    def __init__(self, options: ToolCache) -> None:
        self._ttl_s = float("inf") if options.ttl_s is None else options.ttl_s
        self._entries: LruCache[str, KeptResult] = LruCache(options.max_entries)

    def get(self, key: str) -> KeptResult | None:
        """The result under a key, also if it has expired."""
        return self._entries.get(key)

    def add(self, key: str, content: str, data: object) -> None:
        """Keep a result."""
        self._entries.set(key, KeptResult(content, data, time.monotonic() + self._ttl_s))


def discard_output(_: str) -> None:
    """The `emit` of a call without a receiver."""


def _not_cancelled() -> bool:
    return False


@check_types()
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


@check_types(skip=("validate", "call_validated"))
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
    fallback: Tool | ToolCallable | None = None
    """Called with the same arguments if this tool fails or times out, after its retries; its result stands instead."""
    cache: ToolCache | None = None
    """Keeps results by arguments, to answer repeated calls; None: every call is executed."""
    for_models: bool = True
    """Whether it is sent to models; if not, only the agent calls it itself, in `AgentDefinition.opening`."""
    signature: ToolSignature | None = field(default=None, repr=False, compare=False)
    """The signature of the function; None for a hand-written schema."""
    context_parameter: str = field(default="", repr=False)
    """The parameter of the function that takes the ToolContext; by default the one with this annotation."""
    takes_context: bool = field(default=False, repr=False)
    """Whether it takes a ToolContext."""
    kept_results: KeptResults | None = field(default=None, init=False, repr=False, compare=False)
    """The results under `cache`; every copy of a tool has its own."""
    is_async: bool = field(default=False, repr=False)
    fallback_name: str = field(default="", repr=False, compare=False)
    """The name in a registry where another tool has `name`; empty: a taken name is an error."""
    only_returns: bool = field(default=False, repr=False)
    """Whether it emits nothing: neither a generator nor a function with a ToolContext."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if hasattr(cls, "perform"):
            adapt_class(cls, Tool, ToolContext)

    def __post_init__(self) -> None:
        if not TOOL_NAME_PATTERN.fullmatch(self.name):
            expected = "up to 64 letters a-z and A-Z, digits, '_' and '-', as services demand: set another by `name=`"
            raise InvalidOption("the name of a tool", self.name, expected)
        if not self.description.strip():
            expected = "text: a model selects tools by their descriptions"
            raise InvalidOption(f"the description of tool {self.name!r}", self.description, expected)
        context_parameter = self.context_parameter
        if self.signature is None:
            check_schema(self.parameters, f"the parameters of {self.name}")
            context_parameter = context_parameter or find_context_parameter(self.function, ToolContext)
            check_parameters(self.name, self.parameters, self.function, {*self.injected_kwargs, context_parameter})
        else:
            context_parameter = context_parameter or self.signature.context_parameter
        target = unwrap_callable(self.function)
        pieces = inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target)
        is_async = inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target)
        if self.fallback is not None and not isinstance(self.fallback, Tool):
            object.__setattr__(self, "fallback", Tool.from_function(self.fallback))
        object.__setattr__(self, "kept_results", KeptResults(self.cache) if self.cache else None)
        object.__setattr__(self, "context_parameter", context_parameter)
        object.__setattr__(self, "takes_context", bool(context_parameter))
        object.__setattr__(self, "is_async", is_async)
        object.__setattr__(self, "only_returns", not (context_parameter or pieces))

    @classmethod
    def from_function(
        cls,
        func: ToolCallable,
        description: str | None = None,
        *,
        name: str = "",
        injected_kwargs: Mapping[str, object] = NO_ARGUMENTS,
    ) -> Tool:
        """Create a tool from a function: name, description and schema come from its signature and docstring.

        Without a docstring the description is the name in words. Raises InvalidOption if `description` is blank.
        """
        signature = read_signature(func, context_type=ToolContext, hidden=injected_kwargs)
        name = name or getattr(func, "__name__", type(func).__name__)
        return cls(
            name,
            (signature.summary or name.replace("_", " ")) if description is None else description,
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
            fallback=self.fallback,
            cache=self.cache,
        )

    def validate(self, parameters: Mapping[str, JSON]) -> dict[str, object]:
        """Validate and convert arguments. Raises InvalidToolArguments."""
        if parameters.__class__ is not dict and not isinstance(parameters, Mapping):
            raise InvalidType("parameters", parameters, "a mapping")
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
        if self.context_parameter:
            kwargs[self.context_parameter] = context
        return self.function(**kwargs)

    def to_schema(self) -> dict[str, JSON]:
        """The tool in the format of OpenAI's `tools` parameter."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self.parameters},
        }


@dataclass(frozen=True)
class FunctionTool(Tool, Generic[P, R_co]):
    """A tool that `@tool` makes of a function: a type checker sees the parameters and the type of the function."""

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:  # type: ignore[override]
            """Call the function."""


class ToolDecorator(Protocol):
    """Makes a tool of a function."""

    def __call__(self, function: Callable[P, R_co], /) -> FunctionTool[P, R_co]:
        """The tool."""


@overload
def tool(function: Callable[P, R_co], /) -> FunctionTool[P, R_co]: ...


@overload
def tool(
    description: str | None = None,
    /,
    *,
    name: str = "",
    injected_kwargs: Mapping[str, object],
    timeout_s: float | None = None,
    retries: int = 0,
    fallback: Tool | ToolCallable | None = None,
    cache: ToolCache | bool = False,
) -> Callable[[ToolCallable], Tool]: ...


@overload
def tool(
    *,
    description: str,
    name: str = "",
    injected_kwargs: Mapping[str, object],
    timeout_s: float | None = None,
    retries: int = 0,
    fallback: Tool | ToolCallable | None = None,
    cache: ToolCache | bool = False,
) -> Callable[[ToolCallable], Tool]: ...


@overload
def tool(
    description: str | None = None,
    /,
    *,
    name: str = "",
    timeout_s: float | None = None,
    retries: int = 0,
    fallback: Tool | ToolCallable | None = None,
    cache: ToolCache | bool = False,
) -> ToolDecorator: ...


@overload
def tool(
    *,
    description: str,
    name: str = "",
    timeout_s: float | None = None,
    retries: int = 0,
    fallback: Tool | ToolCallable | None = None,
    cache: ToolCache | bool = False,
) -> ToolDecorator: ...


@check_types()
def tool(  # noqa: PLR0913 - keywords of a decorator
    subject: ToolCallable | str | None = None,
    /,
    *,
    description: str | None = None,
    name: str = "",
    injected_kwargs: Mapping[str, object] = NO_ARGUMENTS,
    timeout_s: float | None = None,
    retries: int = 0,
    fallback: Tool | ToolCallable | None = None,
    cache: ToolCache | bool = False,
) -> Tool | Callable[[ToolCallable], Tool]:
    """Create a tool from a function: `@tool`, `@tool("what it does")` or `@tool(description=..., name=...)`.

    Args:
        subject: the function, or the description.
        description: for the model; by default the docstring without its parameters.
        name: by default the function's.
        injected_kwargs: arguments for the function that are hidden from the model.
        timeout_s: timeout in seconds; by default `tool_timeout_s` of the agent.
        retries: number of retries if it raises.
        fallback: a tool or function that is called with the same arguments if this one fails or times out.
        cache: keep results by arguments; True: with the default values of ToolCache.

    Raises:
        InvalidOption: the signature has a type without a JSON Schema, or the description is blank.
    """
    if callable(subject):
        return FunctionTool.from_function(subject)
    words = subject if subject is not None else description
    kept = ToolCache() if cache is True else cache or None

    def make(function: ToolCallable) -> Tool:
        built = FunctionTool.from_function(function, words, name=name, injected_kwargs=injected_kwargs)
        return replace(built, timeout_s=timeout_s, retries=retries, fallback=fallback, cache=kept)

    return make


@check_types()
def build_tool_schema(func: ToolCallable) -> dict[str, JSON]:
    """The schema of a function in the format of OpenAI's `tools` parameter."""
    return Tool.from_function(func).to_schema()

"""Derive the JSON Schema of a function's parameters from its signature, and validate arguments against it.

Uses pydantic for type hints and docstring-parser for docstrings. Error messages are written for the model.
"""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import docstring_parser

from ragkit.agent.tools.schema_validator import find_violations
from ragkit.errors import InvalidOption, InvalidToolArguments, did_you_mean, shorten
from ragkit.records import JSON

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

ToolSchema = Mapping[str, JSON]

_BASIC_TYPES: Mapping[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
"""Types whose JSON Schema needs no pydantic: importing it takes half of the start-up time of an agent."""

_OPEN_KEYWORDS = (
    *("patternProperties", "unevaluatedProperties", "$ref", "$dynamicRef"),
    *("allOf", "anyOf", "oneOf", "if", "dependentSchemas"),
)
"""Keywords that allow or forbid properties beside the declared ones."""
_MAX_INLINED_REFERENCES = 1_000


@dataclass(frozen=True, slots=True)
class ToolParameter:
    """A parameter that the model sees."""

    name: str
    hint: object
    default: object
    """`inspect.Parameter.empty` if it is required."""
    description: str

    @property
    def has_basic_type(self) -> bool:
        """Whether its JSON Schema needs no pydantic."""
        if not isinstance(self.hint, type) or self.hint not in _BASIC_TYPES:
            return False
        if self.default is inspect.Parameter.empty:
            return True
        return type(self.default) is self.hint and (not isinstance(self.default, float) or math.isfinite(self.default))

    def matches(self, value: object) -> bool:
        """Whether a value needs no conversion: False for values that pydantic has to judge."""
        return (
            type(value) is self.hint and type(value) in _BASIC_TYPES and (not isinstance(value, str) or _is_text(value))
        )


@dataclass(frozen=True)
class ToolSignature:
    """The parameters of a function: those that the model sees, and the context."""

    name: str
    """The name of the function."""
    parameters: tuple[ToolParameter, ...]
    """The parameters that the model sees, in order."""
    context_parameter: str = ""
    """The parameter that takes the ToolContext; empty if there is none."""
    summary: str = ""
    """The docstring without its parameters."""

    @cached_property
    def schema(self) -> ToolSchema:
        """JSON Schema of the parameters that the model sees. Raises InvalidOption for a type without one."""
        if not all(parameter.has_basic_type for parameter in self.parameters):
            return _build_schema(self)
        schema: dict[str, JSON] = {"additionalProperties": False}
        schema["properties"] = {parameter.name: _build_basic_schema(parameter) for parameter in self.parameters}
        required: list[JSON] = [item.name for item in self.parameters if item.default is inspect.Parameter.empty]
        return {**schema, **({"required": required} if required else {}), "type": "object"}

    @cached_property
    def model(self) -> type[BaseModel]:
        """Validates and converts the arguments; field i, `p<i>`, is parameter i."""
        return _build_model(self)


def read_signature(
    function: Callable[..., object], *, context_type: type, hidden: typing.Collection[str] = ()
) -> ToolSignature:
    """Read the signature of `function`.

    Args:
        function: a callable with named parameters.
        context_type: the loop passes the context to a parameter with this annotation.
        hidden: names of parameters to hide from the model.

    Raises:
        InvalidOption: a type hint cannot be resolved, or has no JSON Schema.
    """
    name = getattr(function, "__name__", type(function).__name__)
    hints = _get_type_hints(function, name)
    doc = docstring_parser.parse(inspect.getdoc(function) or "")
    descriptions = {item.arg_name: item.description or "" for item in doc.params}
    parameters: list[ToolParameter] = []
    context_parameter = ""
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name, _infer_type(parameter))
        if hint is context_type:
            context_parameter = parameter.name
        elif parameter.name not in hidden and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            description = descriptions.get(parameter.name, "")
            parameters.append(ToolParameter(parameter.name, hint, parameter.default, description))
    summary = "\n\n".join(part for part in (doc.short_description, doc.long_description) if part)
    signature = ToolSignature(name, tuple(parameters), context_parameter, summary)
    _ = signature.schema  # raises InvalidOption
    return signature


def find_context_parameter(function: Callable[..., object], context_type: type) -> str:
    """The parameter of `function` that is annotated with the context; empty if there is none."""
    name = getattr(function, "__name__", type(function).__name__)
    hints = getattr(unwrap_callable(function), "__annotations__", None)
    if not hints or not any(context_type.__name__ in str(hint) for hint in hints.values()):
        return ""
    return next((key for key, hint in _get_type_hints(function, name).items() if hint is context_type), "")


def check_parameters(
    name: str, schema: ToolSchema, function: Callable[..., object], other: typing.Collection[str] = ()
) -> None:
    """Raises InvalidOption if a hand-written schema names a parameter that the function lacks.

    `other`: parameters of the function that the model does not fill.
    """
    properties = schema.get("properties")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):  # some functions in C have no signature
        return
    if not isinstance(properties, Mapping) or any(item.kind is item.VAR_KEYWORD for item in parameters):
        return
    known = [item.name for item in parameters if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)]
    known = [item for item in known if item not in other]
    for parameter in properties:
        if parameter not in known:
            expected = f"one that its function has: {', '.join(known) or 'none'}"
            raise InvalidOption(f"a parameter of tool {name!r}", parameter, expected)


def validate_arguments(signature: ToolSignature, tool: str, arguments: Mapping[str, JSON]) -> dict[str, object]:
    """Validate and convert arguments; omitted parameters stay omitted. Raises InvalidToolArguments."""
    parameters = {parameter.name: parameter for parameter in signature.parameters}
    required = {parameter.name for parameter in signature.parameters if parameter.default is inspect.Parameter.empty}
    matches = (name in parameters and parameters[name].matches(value) for name, value in arguments.items())
    if required <= arguments.keys() and all(matches):
        return dict(arguments)
    from pydantic import ValidationError

    try:
        result = signature.model.model_validate(dict(arguments))
    except ValidationError as error:
        raise InvalidToolArguments(tool, list(_describe_errors(error, signature))) from error
    values, names = result.__dict__, {f"p{index}": item.name for index, item in enumerate(signature.parameters)}
    return {names[field]: values[field] for field in result.__pydantic_fields_set__}


def validate_with_schema(schema: ToolSchema, tool: str, arguments: Mapping[str, JSON]) -> dict[str, object]:
    """The arguments, validated against a hand-written schema.

    A schema that declares `properties` and says nothing of others accepts these only.

    Raises:
        InvalidToolArguments: the arguments violate the schema.
    """
    properties = schema.get("properties")
    known: Mapping[str, JSON] = properties if isinstance(properties, Mapping) else {}
    required = schema.get("required")
    missing = [name for name in (required if isinstance(required, list | tuple) else ()) if name not in arguments]
    problems = [f"parameter {name!r} is missing{_describe_parameter(known.get(str(name)))}" for name in missing]
    closed = known and not schema.keys() & _OPEN_KEYWORDS and schema.get("additionalProperties", False) is False
    if closed:
        problems += [_describe_unknown(name, list(known)) for name in arguments if name not in known]
    reported = {"required", "additionalProperties"} if closed else {"required"}
    problems += find_violations(dict(arguments), {key: schema[key] for key in schema if key not in reported}, "")
    if problems:
        raise InvalidToolArguments(tool, problems)
    return dict(arguments)


def inline_references(schema: ToolSchema) -> dict[str, JSON]:
    """The schema with every `$ref` written out and generated titles left out, as all services accept it.

    A schema that is recursive, or whose references would be written out too often, keeps its `$defs`.
    """
    definitions = schema.get("$defs")
    table: Mapping[str, JSON] = definitions if isinstance(definitions, Mapping) else {}
    try:
        result = cast("dict[str, JSON]", _Inliner(table).inline(schema))
    except RecursionError:
        return cast("dict[str, JSON]", _Inliner({}).inline(schema))
    result.pop("$defs", None)
    return result


def _build_basic_schema(parameter: ToolParameter) -> JSON:
    schema: dict[str, JSON] = {}
    if parameter.default is not inspect.Parameter.empty:
        schema["default"] = cast("JSON", parameter.default)
    if parameter.description:
        schema["description"] = parameter.description
    return {**schema, "type": _BASIC_TYPES[parameter.hint]}


def _build_model(signature: ToolSignature) -> type[BaseModel]:
    from pydantic import ConfigDict, Field, create_model

    fields: dict[str, tuple[object, object]] = {}
    for index, parameter in enumerate(signature.parameters):
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        # fields get generated names: a parameter may have the name of a method of BaseModel
        field = Field(default, alias=parameter.name)
        if parameter.description:
            field = Field(default, alias=parameter.name, description=parameter.description)
        fields[f"p{index}"] = (parameter.hint, field)
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False, use_enum_values=False)
    return cast("Callable[..., type[BaseModel]]", create_model)(signature.name, __config__=config, **fields)


def _build_schema(signature: ToolSignature) -> ToolSchema:
    from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

    try:
        schema = inline_references(signature.model.model_json_schema())
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        reason = str(error).splitlines()[0]
        raise InvalidOption(f"the signature of {signature.name}", reason, "made of types with a JSON Schema") from error
    schema.setdefault("properties", {})
    schema.pop("description", None)
    return schema


def _is_text(value: str) -> bool:
    """Whether a string is valid Unicode; pydantic rejects lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def unwrap_callable(function: Callable[..., object]) -> Callable[..., object]:
    """The function itself, or the `__call__` of a callable object."""
    return function if inspect.isroutine(function) else type(function).__call__


def _get_type_hints(function: Callable[..., object], name: str) -> dict[str, object]:
    target = unwrap_callable(function)
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        raise InvalidOption(f"a type hint of {name}", str(error), "a module-level name") from error


def _infer_type(parameter: inspect.Parameter) -> object:
    """The type of a parameter without a hint: that of its default, else any."""
    default = parameter.default
    return object if default is parameter.empty or default is None else type(default)


def _describe_errors(error: ValidationError, signature: ToolSignature) -> Iterator[str]:
    properties = signature.schema.get("properties")
    known: Mapping[str, JSON] = properties if isinstance(properties, Mapping) else {}
    for detail in error.errors(include_url=False):
        place = ".".join(str(part) for part in detail["loc"])
        if detail["type"] == "missing":
            yield f"parameter {place!r} is missing{_describe_parameter(known.get(place))}"
        elif detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
            yield _describe_unknown(place, [parameter.name for parameter in signature.parameters])
        else:
            words = detail["msg"][:1].lower() + detail["msg"][1:]
            got = shorten(repr(detail["input"]), 80)
            yield f"{place!r} is {got}: {words}{_suggest_choice(detail['input'], known.get(place))}"


def _describe_unknown(name: str, known: Sequence[str]) -> str:
    hint = did_you_mean(name, known) or f" (known: {', '.join(known) or 'none'})"
    return f"unknown parameter {name!r}{hint}"


def _describe_parameter(rule: JSON) -> str:
    if not isinstance(rule, Mapping):
        return ""
    kind, words, choices = rule.get("type"), rule.get("description"), rule.get("enum")
    if isinstance(choices, list | tuple):
        kind = "one of " + ", ".join(repr(choice) for choice in choices)
    description = ", ".join(str(part) for part in (kind, words) if part)
    return f" ({description})" if description else ""


def _suggest_choice(value: object, rule: JSON) -> str:
    choices = rule.get("enum") if isinstance(rule, Mapping) else None
    return did_you_mean(str(value), map(str, choices)) if isinstance(choices, list | tuple) else ""


class _Inliner:
    def __init__(self, table: Mapping[str, JSON]) -> None:
        self._table = table
        self._references = 0
        self._open: list[str] = []

    def inline(self, node: JSON) -> JSON:
        """A copy of a schema with its references written out. Raises RecursionError if that has no end."""
        if isinstance(node, list | tuple):
            return [self.inline(item) for item in node]
        if not isinstance(node, Mapping):
            return node
        reference = node.get("$ref")
        name = reference.rpartition("/")[2] if isinstance(reference, str) else ""
        if name in self._table:
            return self._inline_reference(name, {key: value for key, value in node.items() if key != "$ref"})
        result: dict[str, JSON] = {}
        for key, value in node.items():
            if (key == "title" and isinstance(value, str)) or (key == "$defs" and self._table):  # dropped in the end
                continue
            if key in ("properties", "$defs") and isinstance(value, Mapping):
                result[key] = {name: self.inline(item) for name, item in value.items()}
            else:
                result[key] = value if key in ("enum", "const", "default", "examples") else self.inline(value)
        return result

    def _inline_reference(self, name: str, siblings: Mapping[str, JSON]) -> JSON:
        self._references += 1
        if name in self._open or self._references > _MAX_INLINED_REFERENCES:
            raise RecursionError(name)
        target = self._table[name]
        self._open.append(name)
        result = self.inline({**target, **siblings} if isinstance(target, Mapping) else siblings)
        self._open.pop()
        return result

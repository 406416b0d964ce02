"""Convert YAML nodes to the annotated fields of a dataclass, and collect every problem with its location.

Supports bool, int, float, str, Path, Literal, `X | Y`, tuple, list, Mapping and nested dataclasses. pydantic is not
used: its import costs about 0.1 CPU seconds, which commands that only read settings should not pay, and its errors have
no location in the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from ragkit.config.yaml_nodes import ConfigProblem, KeyNode, MappingNode, Node, ScalarNode, SequenceNode, must_be
from ragkit.config.yaml_parser import resolve_scalar
from ragkit.errors import InvalidOption, closest_match, did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

TypeHint: TypeAlias = object
"""An annotation as `get_type_hints` returns it."""

_SEQUENCE_TYPES = (tuple, list, Sequence)
_BOOLEAN_WORDS = {"yes": "true", "on": "true", "no": "false", "off": "false", "true": "true", "false": "false"}
_TYPE_DESCRIPTIONS: dict[TypeHint, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    Path: "a path",
    NoneType: "null",
}
_PLURALS: dict[TypeHint, str] = {str: "strings", int: "integers", float: "numbers"}


class ConversionError(Exception):  # internal to this package
    """The value does not match the annotation."""

    def __init__(self, node: Node, expected: str, suggestion: str = "", problems: Sequence[ConfigProblem] = ()) -> None:
        super().__init__(node, expected, suggestion, problems)
        self.node, self.expected, self.suggestion, self.nested_problems = node, expected, suggestion, problems

    def to_problems(self, key: str, node: Node) -> list[ConfigProblem]:
        """The problems with the key whose value is `node`; they may be located inside the value."""
        name = key if self.node is node else f"each entry of {key}"
        message = must_be(name, self.expected, self.node, self.suggestion)
        return list(self.nested_problems) or [ConfigProblem(self.node.location, message)]


def get_field_hints(options: type[DataclassInstance]) -> dict[str, TypeHint]:
    """Field -> annotation, in the order of the fields."""
    hints = get_type_hints(options)
    return {field.name: hints[field.name] for field in settable_fields(options)}


def settable_fields(options: type[DataclassInstance]) -> tuple[Field[object], ...]:
    """The fields of a dataclass that a file may set."""
    return tuple(field for field in fields(options) if field.init)


def is_required(field: Field[object]) -> bool:
    """Whether a field has no default."""
    return field.default is MISSING and field.default_factory is MISSING


def field_default(field: Field[object]) -> object:
    """The default of a field that has one."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def convert_value(node: Node, hint: TypeHint) -> object:
    """The value for a field with this annotation. Raises ConversionError."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _convert_union(node, hint)
    if origin is Literal:
        return _convert_literal(node, hint)
    if origin in _SEQUENCE_TYPES:
        if isinstance(node, SequenceNode):
            entries = [convert_value(entry, arguments[0]) for entry in node.entries]
            return entries if origin is list else tuple(entries)
        text = node.text if isinstance(node, ScalarNode) and not node.variables else ""
        raise ConversionError(node, describe_hint(hint), f'["{text}"]' if text else "")
    if _is_mapping(origin) and isinstance(node, MappingNode):
        return {key.text: convert_value(value, arguments[1]) for key, value in node.pairs}
    if isinstance(hint, type) and is_dataclass(hint) and isinstance(node, MappingNode):
        problems: list[ConfigProblem] = []
        options = OptionsReader(hint, "", problems).read(node)
        if problems:
            raise ConversionError(node, "a mapping", problems=problems)
        return options
    return _convert_scalar(node, hint)


def describe_hint(hint: TypeHint) -> str:
    """An annotation in words: `an integer`, `'a' or 'b'`, `a number or null`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(describe_hint, arguments)))
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin in _SEQUENCE_TYPES:
        return f"a list of {_describe_items(arguments[0])}"
    if _is_mapping(origin):
        return f"a mapping of names to {_describe_items(arguments[1])}"
    return _TYPE_DESCRIPTIONS.get(hint, "a mapping")


@dataclass
class OptionsReader:
    """Reads a mapping into an options dataclass and collects every problem with it."""

    options_class: type[DataclassInstance]
    owner: str
    """The owner of the options, for messages: `the splitter 'recursive'`; empty for a nested mapping."""
    problems: list[ConfigProblem]
    deferred_options: frozenset[str] = frozenset()
    """Fields that are set later: without a value in the file they become '' if they are required or default to None."""
    address_options: frozenset[str] = frozenset()
    """If the file sets one of these, deferred fields keep their default."""
    preset: Mapping[str, object] = field(default_factory=dict)
    """Values of fields that the caller has read itself, or that are not from the file."""

    def read(self, table: MappingNode, at: KeyNode | None = None) -> DataclassInstance | None:
        """The options, or None after adding to `problems`. `at` is the key of the mapping."""
        before = len(self.problems)
        values = {**self.preset, **self.convert_values(table)}
        key = at or table
        for name in self._required_names():
            if name not in {*self.deferred_options, *self.preset} and table.get(name) is None:
                expected = describe_hint(get_field_hints(self.options_class)[name])
                message = f"missing option {name!r}{self._of_owner} ({expected})"
                self.problems.append(ConfigProblem(key.location, message))
        values.update(dict.fromkeys(self._deferred_fields(table), ""))
        options = self._create_options(table, values, key)
        return options if len(self.problems) == before else None

    @property
    def _of_owner(self) -> str:
        return f" of {self.owner}" if self.owner else ""

    def _required_names(self) -> list[str]:
        return [field.name for field in settable_fields(self.options_class) if is_required(field)]

    def _deferred_fields(self, table: MappingNode) -> list[str]:
        present_keys = set(table.key_names())
        deferred = self.deferred_options - present_keys
        unset = [field for field in settable_fields(self.options_class) if field.name in deferred]
        has_address = bool(present_keys & self.address_options)
        return [f.name for f in unset if is_required(f) or (field_default(f) is None and not has_address)]

    def convert_values(self, table: MappingNode) -> dict[str, object]:
        """The valid values of a mapping, without those of `preset`, after adding the others to `problems`."""
        hints = get_field_hints(self.options_class)
        values: dict[str, object] = {}
        for key, node in table.without(*self.preset).pairs:
            if key.text not in hints:
                self.problems.append(unknown_option(key, self._of_owner, list(hints)))
                continue
            try:
                values[key.text] = convert_value(node, hints[key.text])
            except ConversionError as error:
                self.problems += error.to_problems(key.text, node)
        return values

    def _create_options(
        self, table: MappingNode, values: dict[str, object], at: KeyNode | MappingNode
    ) -> DataclassInstance | None:
        """Create the dataclass. It raises its first problem only, so each one is removed until none is left."""
        required = self._required_names()
        while values.keys() >= set(required):
            try:
                return self.options_class(**values)
            except InvalidOption as error:
                name = error.option.rpartition(".")[2]
                node = table.get(name)
                if node is not None:
                    message = must_be(name, error.expected, node)
                else:
                    message = f"{name} must be {error.expected} (got {error.value!r}, its default)"
                self.problems.append(ConfigProblem((node or at).location, message))
                if name not in values or name in required:
                    return None
                del values[name]
        return None


def unknown_option(key: KeyNode, of_owner: str, known: Sequence[str]) -> ConfigProblem:
    """The problem with a key that is no option. `of_owner` is ` of the splitter 'recursive'`, or empty."""
    available = f"; available: {', '.join(known)}" if known else ": it has no options"
    message = f"unknown option {key.text!r}{of_owner}{did_you_mean(key.text, known)}{available}"
    return ConfigProblem(key.location, message)


def _is_mapping(origin: TypeHint) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _describe_items(hint: TypeHint) -> str:
    return _PLURALS.get(hint) or f"values, each {describe_hint(hint)}"


def _convert_union(node: Node, hint: TypeHint) -> object:
    errors: list[ConversionError] = []
    # null first: otherwise `str` would accept a plain `null` that a variable contains
    for choice in sorted(get_args(hint), key=lambda choice: choice is not NoneType):
        try:
            return convert_value(node, choice)
        except ConversionError as error:
            errors.append(error)
    nested = [error for error in errors if error.node is not node or error.nested_problems]
    suggestion = next((error.suggestion for error in errors if error.suggestion), "")
    raise nested[0] if nested else ConversionError(node, describe_hint(hint), suggestion)


def _convert_literal(node: Node, hint: TypeHint) -> object:
    choices, suggestion = get_args(hint), None
    if isinstance(node, ScalarNode):
        for value in (node.value, node.text, resolve_scalar(node.text) if node.variables else node.value):
            for choice in choices:
                if value == choice and type(value) is type(choice):
                    return choice
        suggestion = closest_match(node.text, [choice for choice in choices if isinstance(choice, str)])
    raise ConversionError(node, describe_hint(hint), repr(suggestion) if suggestion else "")


def _convert_scalar(node: Node, hint: TypeHint) -> object:
    if not isinstance(node, ScalarNode) or hint not in _TYPE_DESCRIPTIONS:
        raise ConversionError(node, describe_hint(hint))
    if hint in (str, Path):
        # the value of a variable stays text where text is expected, even if it looks like a number
        if isinstance(node.value, str) or (node.variables and node.value is not None):
            return Path(node.text) if hint is Path else node.text
        raise ConversionError(node, describe_hint(hint), f"'{node.text}'" if node.text else "")
    value = resolve_scalar(node.text) if node.variables else node.value
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        if math.isfinite(value):
            return float(value)
        raise ConversionError(node, "a finite number")
    if hint is type(value):  # not isinstance: true is not an integer
        return value
    raise ConversionError(node, describe_hint(hint), _suggest_value(node, hint))


def _suggest_value(node: ScalarNode, hint: TypeHint) -> str:
    """The value that was probably meant: true for `yes`, 300 for "300", 6 for 6.0; '' if unclear."""
    if node.variables:
        return ""
    if hint is bool:
        return _BOOLEAN_WORDS.get(node.text.lower(), "")
    if hint is int and isinstance(node.value, float) and node.value.is_integer():
        return str(int(node.value))
    if hint in (int, float) and isinstance(node.value, str):
        number = node.text.strip().replace("_", "").replace(",", "")
        return number if type(resolve_scalar(number)) in (int, float) else ""
    return ""

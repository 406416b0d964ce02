"""Serialize options and values to YAML that parses to equal values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragkit.config.convert import field_default, is_required, settable_fields
from ragkit.config.yaml_nodes import MappingNode, Node, SequenceNode, iter_scalars
from ragkit.config.yaml_parser import resolve_scalar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

DEFERRED_OPTIONS = frozenset({"path"})
"""Options of a store that the knowledge base sets if the file does not; they are '' until then."""
_UNQUOTED = re.compile(r"[A-Za-z_][A-Za-z0-9_./+-]*")


def quote_yaml(text: str) -> str:
    """A string as double-quoted YAML; unprintable characters are escaped, `$` is not."""
    return '"' + "".join(_escape_char(char) for char in text) + '"'


def to_flow_yaml(value: object) -> str:
    """A value as YAML on one line."""
    if value is None or isinstance(value, bool | int | float):
        return _format_scalar(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_format_key(str(key))}: {to_flow_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(to_flow_yaml(item) for item in value) + "]"
    if is_dataclass(value) and not isinstance(value, type):
        return to_flow_yaml({field.name: getattr(value, field.name) for field in settable_fields(type(value))})
    return _format_string(str(value))


def options_to_dict(options: DataclassInstance | None, *, complete: bool = False) -> dict[str, object]:
    """Option -> value: all options, or those that differ from their defaults."""
    if options is None:
        return {}
    values: dict[str, object] = {}
    for field in settable_fields(type(options)):
        value = getattr(options, field.name)
        listed = complete or is_required(field) or not yaml_equal(value, field_default(field))
        if listed and not is_unset(field, value):
            values[field.name] = value
    return values


def is_unset(field: Field[object], value: object) -> bool:
    """Whether a value is left to the knowledge base."""
    return value == "" and field.name in DEFERRED_OPTIONS and is_required(field)


def yaml_equal(value: object, other: object) -> bool:
    """Whether two values are equal in YAML, where true is not 1. A path equals its text."""
    if isinstance(value, bool) != isinstance(other, bool):
        return False
    if isinstance(value, Path) or isinstance(other, Path):
        return str(value) == str(other)
    return value == other


def format_template(node: Node) -> tuple[str, tuple[str, ...]]:
    """A value with its `${NAME}` variables as one line of YAML, and their names; empty without variables."""
    variables = tuple(dict.fromkeys(name for scalar in iter_scalars(node) for name in scalar.variables))
    return (_format_node(node, inside=False), variables) if variables else ("", ())


def _format_node(node: Node, *, inside: bool) -> str:
    if isinstance(node, SequenceNode):
        return "[" + ", ".join(_format_node(entry, inside=True) for entry in node.entries) + "]"
    if isinstance(node, MappingNode):
        pairs = (f"{_format_key(key.text)}: {_format_node(value, inside=True)}" for key, value in node.pairs)
        return "{" + ", ".join(pairs) + "}"
    if not node.variables:
        return to_flow_yaml(node.value)
    # inside [ ] and { } an unquoted `${` is invalid YAML
    return node.template if node.plain and not inside else quote_yaml(node.template)


def _format_key(text: str) -> str:
    return text if _UNQUOTED.fullmatch(text) and resolve_scalar(text) == text else quote_yaml(text)


def _format_string(text: str) -> str:
    text = text.replace("$", "$$")
    return text if _UNQUOTED.fullmatch(text) and isinstance(resolve_scalar(text), str) else quote_yaml(text)


def _format_scalar(value: float | bool | None) -> str:
    words = {True: "true", False: "false", None: "null"}
    if value is None or isinstance(value, bool):
        return words[value]
    return re.sub("(?=inf|nan)", ".", repr(value))


def _escape_char(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

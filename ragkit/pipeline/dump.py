"""Options and values -> YAML that reads back as exactly the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragkit.pipeline.convert import default_of, fields_of, is_required
from ragkit.pipeline.nodes import Items, Node, Table, scalars
from ragkit.pipeline.syntax import resolve

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_./+-]*")


def quoted(text: str) -> str:
    """A string as YAML in double quotes; characters that do not print are escaped. Says nothing of `$`."""
    return '"' + "".join(_escaped(char) for char in text) + '"'


def flow(value: object) -> str:
    """A value as YAML on one line."""
    if value is None or isinstance(value, bool | int | float):
        return _word(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(str(key))}: {flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(flow(one) for one in value) + "]"
    if is_dataclass(value) and not isinstance(value, type):
        return flow({name: getattr(value, name) for name in _names(type(value))})
    return _string(str(value))


def settings_of(options: DataclassInstance | None, *, complete: bool = False) -> dict[str, object]:
    """Option -> value of an options dataclass: all of them, or those that differ from their defaults."""
    if options is None:
        return {}
    found: dict[str, object] = {}
    for one in fields_of(type(options)):
        value = getattr(options, one.name)
        unset = value == "" and is_required(one)  # what the knowledge base fills in
        if not unset and (complete or is_required(one) or not same(value, default_of(one))):
            found[one.name] = value
    return found


def same(value: object, other: object) -> bool:
    """Whether two values are equal in YAML too, where true is not 1. A path equals its text."""
    if isinstance(value, bool) != isinstance(other, bool):
        return False
    if isinstance(value, Path) or isinstance(other, Path):
        return str(value) == str(other)
    return value == other


def template_of(node: Node) -> tuple[str, tuple[str, ...]]:
    """What is written in a file when variables are part of it, as YAML on one line, and the variables; else nothing."""
    variables = tuple(dict.fromkeys(name for one in scalars(node) for name in one.variables))
    return (_template(node, inside=False), variables) if variables else ("", ())


def _template(node: Node, *, inside: bool) -> str:
    if isinstance(node, Items):
        return "[" + ", ".join(_template(entry, inside=True) for entry in node.entries) + "]"
    if isinstance(node, Table):
        return "{" + ", ".join(f"{_key(key.text)}: {_template(one, inside=True)}" for key, one in node.pairs) + "}"
    if not node.variables:
        return flow(node.value)
    # inside [ ] and { } a bare `${` would end the value
    return node.template if node.plain and not inside else quoted(node.template)


def _key(text: str) -> str:
    return text if _BARE.fullmatch(text) and resolve(text) == text else quoted(text)


def _string(text: str) -> str:
    text = text.replace("$", "$$")
    return text if _BARE.fullmatch(text) and isinstance(resolve(text), str) else quoted(text)


def _word(value: float | bool | None) -> str:
    words = {True: "true", False: "false", None: "null"}
    if value is None or isinstance(value, bool):
        return words[value]
    return re.sub("(?=inf|nan)", ".", repr(value))


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _names(options: type[DataclassInstance]) -> list[str]:
    return [one.name for one in fields_of(options)]

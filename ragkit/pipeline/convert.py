"""A value of the tree -> the value that a field of an options dataclass wants, or the problem with it.

Knows annotations, not parts: bool, int, float, str, Path, Literal, `X | Y`, tuple and list, Mapping, dataclasses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from ragkit.errors import InvalidOption, did_you_mean
from ragkit.pipeline.yaml_nodes import (
    ConfigProblem,
    KeyNode,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    describe_node,
)
from ragkit.pipeline.yaml_parser import resolve_scalar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

TypeHint: TypeAlias = object
"""An annotation as `get_type_hints` gives it."""

_SEQUENCE_TYPES = (tuple, list, Sequence)
_BOOLEAN_WORDS = {"yes": "true", "on": "true", "no": "false", "off": "false", "true": "true", "false": "false"}


class ConversionError(Exception):  # a signal inside this module and its callers in this package
    """The value is not what the annotation wants."""

    def __init__(self, node: Node, wanted: str, hint: str = "", inner: Sequence[ConfigProblem] = ()) -> None:
        super().__init__(node, wanted, hint, inner)
        self.node, self.expected, self.suggestion, self.nested_problems = node, wanted, hint, inner

    def to_problems(self, key: str, node: Node) -> list[ConfigProblem]:
        """What is wrong with the key whose value is `node`; the misfit may lie inside it."""
        what = key if self.node is node else f"an entry of {key}"
        own = ConfigProblem(
            self.node.location, f"{what} is {describe_node(self.node)}: {self.expected} is wanted{self.suggestion}"
        )
        return list(self.nested_problems) or [own]


def get_field_hints(options: type[DataclassInstance]) -> dict[str, TypeHint]:
    """Field -> annotation, in the order of the fields."""
    hints = get_type_hints(options)
    return {one.name: hints[one.name] for one in settable_fields(options)}


def settable_fields(options: type[DataclassInstance]) -> tuple[Field[object], ...]:
    """The fields of a dataclass that a file may set."""
    return tuple(one for one in fields(options) if one.init)


def is_required(one: Field[object]) -> bool:
    """Whether a field has no default."""
    return one.default is MISSING and one.default_factory is MISSING


def field_default(one: Field[object]) -> object:
    """The default of a field that has one."""
    return one.default if one.default_factory is MISSING else one.default_factory()


def convert_value(node: Node, hint: TypeHint) -> object:
    """The value that a field with this annotation gets. Raises ConversionError."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _convert_union(node, get_args(hint))
    if origin is Literal:
        return _convert_literal(node, get_args(hint))
    if origin in _SEQUENCE_TYPES or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return _convert_container(node, hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _convert_dataclass(node, hint)
    return _convert_scalar(node, hint)


def describe_hint(hint: TypeHint) -> str:
    """An annotation in words: `a whole number`, `'a' or 'b'`, `a number or null`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(describe_hint(one) for one in arguments))
    if origin is Literal:
        return " or ".join(repr(one) for one in arguments)
    if origin in _SEQUENCE_TYPES:
        return f"a list of {_describe_items(arguments[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a mapping of names to {_describe_items(arguments[1])}"
    if hint in _TYPE_DESCRIPTIONS:
        return _TYPE_DESCRIPTIONS[hint]
    return "a mapping"


@dataclass
class OptionsReader:
    """Reads one mapping as one options dataclass, and gathers everything that is wrong with it."""

    options_class: type[DataclassInstance]
    owner: str
    """What the options belong to, for messages: `the splitter 'recursive'`."""
    problems: list[ConfigProblem]
    deferred_options: frozenset[str] = frozenset()
    """Fields without a default, or with None for one, that may stay away: they become ''."""
    address_options: frozenset[str] = frozenset()
    """With one of these, a field of `supplied` with a default keeps it."""

    def read(self, table: MappingNode, at: KeyNode | None = None) -> DataclassInstance | None:
        """The options, or None when something is wrong. `at` is where the mapping is named."""
        before = len(self.problems)
        values = self._convert_values(table)
        failed = len(self.problems) > before
        mark = at.location if at is not None else table.location
        missing = [
            one.name for one in settable_fields(self.options_class) if is_required(one) and table.get(one.name) is None
        ]
        values.update(dict.fromkeys(self._deferred_fields(table), ""))
        for name in missing:
            if name not in self.deferred_options:
                wanted = describe_hint(get_field_hints(self.options_class)[name])
                self.problems.append(ConfigProblem(mark, f"{self.owner} needs {name!r}: {wanted}"))
                failed = True
        made = self._create_options(table, values, at)
        return None if failed or len(self.problems) > before else made

    def _deferred_fields(self, table: MappingNode) -> list[str]:
        """The fields that become ''."""
        given = {key.text for key, _ in table.pairs}
        free = [one for one in settable_fields(self.options_class) if one.name in self.deferred_options - given]
        elsewhere = bool(given & self.address_options)
        return [one.name for one in free if is_required(one) or (field_default(one) is None and not elsewhere)]

    def _convert_values(self, table: MappingNode) -> dict[str, object]:
        hints = get_field_hints(self.options_class)
        values: dict[str, object] = {}
        for key, node in table.pairs:
            if key.text not in hints:
                known = f"; known: {', '.join(hints)}" if hints else ": it takes none"
                hint = did_you_mean(key.text, hints)
                self.problems.append(
                    ConfigProblem(key.location, f"{self.owner} has no option {key.text!r}{hint}{known}")
                )
                continue
            try:
                values[key.text] = convert_value(node, hints[key.text])
            except ConversionError as misfit:
                self.problems += misfit.to_problems(key.text, node)
        return values

    def _create_options(
        self, table: MappingNode, values: dict[str, object], at: KeyNode | None
    ) -> DataclassInstance | None:
        """Let the dataclass judge ranges. It stops at its first complaint: each one is taken out until none is left."""
        required = {one.name for one in settable_fields(self.options_class) if is_required(one)}
        while required <= values.keys():
            try:
                return self.options_class(**values)
            except InvalidOption as error:
                name = error.option.rpartition(".")[2]
                node = table.get(name)
                mark = node.location if node is not None else (at.location if at is not None else table.location)
                shown = describe_node(node) if node is not None else f"{error.value!r} (its default)"
                self.problems.append(ConfigProblem(mark, f"{name} is {shown}: {error.expected} is wanted"))
                if name not in values or name in required:
                    return None
                del values[name]
        return None


_TYPE_DESCRIPTIONS: dict[TypeHint, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    NoneType: "null",
}


def _describe_items(hint: TypeHint) -> str:
    plurals: dict[TypeHint, str] = {str: "texts", int: "whole numbers", float: "numbers"}
    return plurals.get(hint) or f"entries, each {describe_hint(hint)}"


def _convert_union(node: Node, hints: tuple[TypeHint, ...]) -> object:
    # null first: with text first, a plain `null` that came out of a variable would become a word
    ordered = sorted(hints, key=lambda hint: hint is not NoneType)
    wanted = " or ".join(dict.fromkeys(describe_hint(one) for one in hints))
    misfits: list[ConversionError] = []
    for hint in ordered:
        try:
            return convert_value(node, hint)
        except ConversionError as misfit:
            misfits.append(misfit)
    inner = [misfit for misfit in misfits if misfit.node is not node or misfit.nested_problems]
    hint = next((misfit.suggestion for misfit in misfits if misfit.suggestion), "")
    raise inner[0] if inner else ConversionError(node, wanted, hint)


def _convert_literal(node: Node, words: tuple[object, ...]) -> object:
    if isinstance(node, ScalarNode):
        for value in (node.value, node.text, resolve_scalar(node.text) if node.variables else node.value):
            for word in words:
                if value == word and type(value) is type(word):
                    return word
    texts = [word for word in words if isinstance(word, str)]
    hint = did_you_mean(node.text, texts) if isinstance(node, ScalarNode) else ""
    raise ConversionError(node, " or ".join(repr(word) for word in words), hint)


def _convert_container(node: Node, hint: TypeHint) -> object:
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(node, MappingNode):
            raise ConversionError(node, describe_hint(hint))
        return {key.text: convert_value(value, arguments[1]) for key, value in node.pairs}
    if not isinstance(node, SequenceNode):
        near = (
            f' (did you mean ["{node.text}"]?)'
            if isinstance(node, ScalarNode) and node.text and not node.variables
            else ""
        )
        raise ConversionError(node, describe_hint(hint), near)
    entries = [convert_value(entry, arguments[0]) for entry in node.entries]
    return entries if origin is list else tuple(entries)


def _convert_dataclass(node: Node, hint: type[DataclassInstance]) -> object:
    if not isinstance(node, MappingNode):
        raise ConversionError(node, "a mapping")
    problems: list[ConfigProblem] = []
    made = OptionsReader(hint, "this mapping", problems).read(node)
    if problems:
        raise ConversionError(node, "a mapping", inner=problems)
    return made


def _convert_scalar(node: Node, hint: TypeHint) -> object:
    if not isinstance(node, ScalarNode):
        raise ConversionError(node, describe_hint(hint))
    if hint in (str, Path):
        # what a variable holds is text where text is wanted, even when it looks like a number
        if isinstance(node.value, str) or (node.variables and node.value is not None):
            return Path(node.text) if hint is Path else node.text
        raise ConversionError(node, _TYPE_DESCRIPTIONS[hint], f" (did you mean '{node.text}'?)" if node.text else "")
    value = resolve_scalar(node.text) if node.variables else node.value
    if hint is NoneType and value is None:
        return None
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    endless = isinstance(value, float) and not math.isfinite(value)
    raise ConversionError(
        node, "a finite number" if endless and hint is float else describe_hint(hint), _suggest_value(node, hint)
    )


def _suggest_value(node: ScalarNode, hint: TypeHint) -> str:
    """The value that was most likely meant: `yes` for true, a number in quotes, 6.0 for 6."""
    meant = ""
    if hint is bool:
        meant = _BOOLEAN_WORDS.get(node.text.lower(), "")
    elif hint is int and isinstance(node.value, float) and node.value.is_integer():
        meant = str(int(node.value))
    elif hint in (int, float) and isinstance(node.value, str):
        bare = node.text.strip().replace("_", "").replace(",", "")
        meant = (
            bare
            if bare and isinstance(resolve_scalar(bare), int | float) and not isinstance(resolve_scalar(bare), bool)
            else ""
        )
    return f" (did you mean {meant}?)" if meant and not node.variables else ""

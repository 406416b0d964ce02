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
from ragkit.pipeline.nodes import Items, Key, Node, Problem, Scalar, Table, met
from ragkit.pipeline.syntax import resolve

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Hint: TypeAlias = object
"""An annotation as `get_type_hints` gives it."""

_LISTS = (tuple, list, Sequence)
_TRUTHS = {"yes": "true", "on": "true", "no": "false", "off": "false", "true": "true", "false": "false"}


class Misfit(Exception):  # a signal inside this module and its callers in this package
    """The value is not what the annotation wants."""

    def __init__(self, node: Node, wanted: str, hint: str = "", inner: Sequence[Problem] = ()) -> None:
        super().__init__(node, wanted, hint, inner)
        self.node, self.wanted, self.hint, self.inner = node, wanted, hint, inner

    def under(self, key: str, node: Node) -> list[Problem]:
        """What is wrong with the key whose value is `node`; the misfit may lie inside it."""
        what = key if self.node is node else f"an entry of {key}"
        own = Problem(self.node.mark, f"{what} is {met(self.node)}: {self.wanted} is wanted{self.hint}")
        return list(self.inner) or [own]


def hints_of(options: type[DataclassInstance]) -> dict[str, Hint]:
    """Field -> annotation, in the order of the fields."""
    hints = get_type_hints(options)
    return {one.name: hints[one.name] for one in fields_of(options)}


def fields_of(options: type[DataclassInstance]) -> tuple[Field[object], ...]:
    """The fields of a dataclass that a file may set."""
    return tuple(one for one in fields(options) if one.init)


def is_required(one: Field[object]) -> bool:
    """Whether a field has no default."""
    return one.default is MISSING and one.default_factory is MISSING


def default_of(one: Field[object]) -> object:
    """The default of a field that has one."""
    return one.default if one.default_factory is MISSING else one.default_factory()


def convert(node: Node, hint: Hint) -> object:
    """The value that a field with this annotation gets. Raises Misfit."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _any_of(node, get_args(hint))
    if origin is Literal:
        return _choice(node, get_args(hint))
    if origin in _LISTS or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return _container(node, hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _nested(node, hint)
    return _single(node, hint)


def wanted_by(hint: Hint) -> str:
    """An annotation in words: `a whole number`, `'a' or 'b'`, `a number or null`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(wanted_by(one) for one in arguments))
    if origin is Literal:
        return " or ".join(repr(one) for one in arguments)
    if origin in _LISTS:
        return f"a list of {_plural(arguments[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a mapping of names to {_plural(arguments[1])}"
    if hint in _WORDS:
        return _WORDS[hint]
    return "a mapping"


@dataclass
class Options:
    """Reads one mapping as one options dataclass, and gathers everything that is wrong with it."""

    options: type[DataclassInstance]
    what: str
    """What the options belong to, for messages: `the splitter 'recursive'`."""
    problems: list[Problem]
    supplied: frozenset[str] = frozenset()
    """Fields without a default, or with None for one, that may stay away: they become ''."""
    instead: frozenset[str] = frozenset()
    """With one of these, a field of `supplied` with a default keeps it."""

    def read(self, table: Table, at: Key | None = None) -> DataclassInstance | None:
        """The options, or None when something is wrong. `at` is where the mapping is named."""
        before = len(self.problems)
        values = self._values(table)
        failed = len(self.problems) > before
        mark = at.mark if at is not None else table.mark
        missing = [one.name for one in fields_of(self.options) if is_required(one) and table.get(one.name) is None]
        values.update(dict.fromkeys(self._supplied(table), ""))
        for name in missing:
            if name not in self.supplied:
                wanted = wanted_by(hints_of(self.options)[name])
                self.problems.append(Problem(mark, f"{self.what} needs {name!r}: {wanted}"))
                failed = True
        made = self._made(table, values, at)
        return None if failed or len(self.problems) > before else made

    def _supplied(self, table: Table) -> list[str]:
        """The fields that become ''."""
        given = {key.text for key, _ in table.pairs}
        free = [one for one in fields_of(self.options) if one.name in self.supplied - given]
        elsewhere = bool(given & self.instead)
        return [one.name for one in free if is_required(one) or (default_of(one) is None and not elsewhere)]

    def _values(self, table: Table) -> dict[str, object]:
        hints = hints_of(self.options)
        values: dict[str, object] = {}
        for key, node in table.pairs:
            if key.text not in hints:
                known = f"; known: {', '.join(hints)}" if hints else ": it takes none"
                hint = did_you_mean(key.text, hints)
                self.problems.append(Problem(key.mark, f"{self.what} has no option {key.text!r}{hint}{known}"))
                continue
            try:
                values[key.text] = convert(node, hints[key.text])
            except Misfit as misfit:
                self.problems += misfit.under(key.text, node)
        return values

    def _made(self, table: Table, values: dict[str, object], at: Key | None) -> DataclassInstance | None:
        """Let the dataclass judge ranges. It stops at its first complaint: each one is taken out until none is left."""
        required = {one.name for one in fields_of(self.options) if is_required(one)}
        while required <= values.keys():
            try:
                return self.options(**values)
            except InvalidOption as error:
                name = error.option.rpartition(".")[2]
                node = table.get(name)
                mark = node.mark if node is not None else (at.mark if at is not None else table.mark)
                shown = met(node) if node is not None else f"{error.met!r} (its default)"
                self.problems.append(Problem(mark, f"{name} is {shown}: {error.wanted} is wanted"))
                if name not in values or name in required:
                    return None
                del values[name]
        return None


_WORDS: dict[Hint, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    NoneType: "null",
}


def _plural(hint: Hint) -> str:
    plurals: dict[Hint, str] = {str: "texts", int: "whole numbers", float: "numbers"}
    return plurals.get(hint) or f"entries, each {wanted_by(hint)}"


def _any_of(node: Node, hints: tuple[Hint, ...]) -> object:
    # null first: with text first, a plain `null` that came out of a variable would become a word
    ordered = sorted(hints, key=lambda hint: hint is not NoneType)
    wanted = " or ".join(dict.fromkeys(wanted_by(one) for one in hints))
    misfits: list[Misfit] = []
    for hint in ordered:
        try:
            return convert(node, hint)
        except Misfit as misfit:
            misfits.append(misfit)
    inner = [misfit for misfit in misfits if misfit.node is not node or misfit.inner]
    hint = next((misfit.hint for misfit in misfits if misfit.hint), "")
    raise inner[0] if inner else Misfit(node, wanted, hint)


def _choice(node: Node, words: tuple[object, ...]) -> object:
    if isinstance(node, Scalar):
        for value in (node.value, node.text, resolve(node.text) if node.variables else node.value):
            for word in words:
                if value == word and type(value) is type(word):
                    return word
    texts = [word for word in words if isinstance(word, str)]
    hint = did_you_mean(node.text, texts) if isinstance(node, Scalar) else ""
    raise Misfit(node, " or ".join(repr(word) for word in words), hint)


def _container(node: Node, hint: Hint) -> object:
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(node, Table):
            raise Misfit(node, wanted_by(hint))
        return {key.text: convert(value, arguments[1]) for key, value in node.pairs}
    if not isinstance(node, Items):
        near = (
            f' (did you mean ["{node.text}"]?)' if isinstance(node, Scalar) and node.text and not node.variables else ""
        )
        raise Misfit(node, wanted_by(hint), near)
    entries = [convert(entry, arguments[0]) for entry in node.entries]
    return entries if origin is list else tuple(entries)


def _nested(node: Node, hint: type[DataclassInstance]) -> object:
    if not isinstance(node, Table):
        raise Misfit(node, "a mapping")
    problems: list[Problem] = []
    made = Options(hint, "this mapping", problems).read(node)
    if problems:
        raise Misfit(node, "a mapping", inner=problems)
    return made


def _single(node: Node, hint: Hint) -> object:
    if not isinstance(node, Scalar):
        raise Misfit(node, wanted_by(hint))
    if hint in (str, Path):
        # what a variable holds is text where text is wanted, even when it looks like a number
        if isinstance(node.value, str) or (node.variables and node.value is not None):
            return Path(node.text) if hint is Path else node.text
        raise Misfit(node, _WORDS[hint], f" (did you mean '{node.text}'?)" if node.text else "")
    value = resolve(node.text) if node.variables else node.value
    if hint is NoneType and value is None:
        return None
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    endless = isinstance(value, float) and not math.isfinite(value)
    raise Misfit(node, "a finite number" if endless and hint is float else wanted_by(hint), _slip(node, hint))


def _slip(node: Scalar, hint: Hint) -> str:
    """The value that was most likely meant: `yes` for true, a number in quotes, 6.0 for 6."""
    meant = ""
    if hint is bool:
        meant = _TRUTHS.get(node.text.lower(), "")
    elif hint is int and isinstance(node.value, float) and node.value.is_integer():
        meant = str(int(node.value))
    elif hint in (int, float) and isinstance(node.value, str):
        bare = node.text.strip().replace("_", "").replace(",", "")
        meant = bare if bare and isinstance(resolve(bare), int | float) and not isinstance(resolve(bare), bool) else ""
    return f" (did you mean {meant}?)" if meant and not node.variables else ""

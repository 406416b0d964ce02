"""Check the types of arguments of public classes and functions, by their annotations.

The error names the argument and what is allowed. Checks are lenient: any iterable is a sequence, a protocol is known by
its methods, JSON and what an annotation leaves open are not checked. An annotation is read when its argument is given.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import numbers
import os
import sys
import types
import typing
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, is_dataclass
from enum import Enum
from importlib import import_module
from inspect import get_annotations
from typing import Any, TypeVar, cast

from ragkit.errors import InvalidType

T = TypeVar("T")
MAX_KNOWN = 256
"""Combinations of classes that one function remembers: programs may create classes without end."""
Function = Callable[..., object]


def check_types(*, skip: Collection[str] = ()) -> Callable[[T], T]:
    """A decorator for a function, or for the constructor and the public methods of a class.

    Args:
        skip: methods that the agent loop calls often, or whose arguments another one checks.

    The result raises InvalidType for an argument of a wrong type.
    """

    def decorate(target: T) -> T:
        if not isinstance(target, type):
            return cast("T", _wrap(cast("Function", target), None))
        for name, member in list(vars(target).items()):
            if name not in skip and (name == "__init__" or not name.startswith("_")):
                if isinstance(member, staticmethod | classmethod):
                    setattr(target, name, type(member)(_wrap(member.__func__, target)))
                elif isinstance(member, types.FunctionType):
                    setattr(target, name, _wrap(member, target))
        return target

    return decorate


def check_fields(record: object) -> None:
    """Check the fields of a dataclass, as its constructor does with `check_types`. Raises InvalidType."""
    kind = type(record)
    signature = _FIELDS.get(kind)
    if signature is None:
        signature = _FIELDS[kind] = _Signature(cast("Function", kind.__init__), kind)
    for name, argument in signature.named.items():
        if name != "self":
            argument.check(getattr(record, name))


def _wrap(function: Function, owner: type | None) -> Function:
    """The function, which checks its arguments before each call."""
    signature: _Signature | None = None
    known: set[object] = set()  # the classes of arguments that have passed, where they decide: one look-up a call

    def check(args: tuple[object, ...], options: Mapping[str, object], classes: object) -> None:
        nonlocal signature
        if signature is None:
            signature = _Signature(function, owner)
        if signature.check(args, options) and len(known) < MAX_KNOWN:
            known.add(classes)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def acall(*args: object, **options: object) -> object:
            check(args, options, None)
            return await cast("Awaitable[object]", function(*args, **options))

        return acall

    @functools.wraps(function)
    def call(*args: object, **options: object) -> object:
        classes: object = tuple(map(type, args))
        if options:
            classes = (classes, *options, *map(type, options.values()))
        if classes not in known:
            check(args, options, classes)
        return function(*args, **options)

    return call


class _Signature:
    """The arguments of a function."""

    def __init__(self, function: Function, owner: type | None) -> None:
        written = cast("types.FunctionType", inspect.unwrap(function))
        code, hints = written.__code__, written.__annotations__
        names = code.co_varnames
        count, keywords = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
        arguments = {
            name: _Argument(name, hints.get(name, Any), _module_of(written, owner, name))
            for name in names[: keywords + 1]
        }
        self.positional = tuple(arguments[name] for name in names[:count])
        self.rest = arguments[names[keywords]] if code.co_flags & inspect.CO_VARARGS else None
        self.named = {name: arguments[name] for name in names[:keywords]}

    def check(self, args: Sequence[object], options: Mapping[str, object]) -> bool:
        """Whether the classes of the arguments alone decide that they are allowed. Raises InvalidType."""
        by_class = True
        for value, argument in zip(args, self.positional, strict=False):
            by_class &= argument.check(value)
        if self.rest is not None:
            for value in args[len(self.positional) :]:
                by_class &= self.rest.check(value)
        for name, value in options.items():
            by_class &= name not in self.named or self.named[name].check(value)
        return by_class


_FIELDS: dict[type, _Signature] = {}
"""Of dataclasses that check their fields themselves."""


class _Argument:
    """An argument of a function. Its annotation is read when it is first given."""

    def __init__(self, name: str, hint: object, module: str) -> None:
        self.name, self._hint, self._module = name, hint, module
        self._tests: _Tests | None = None
        self._is_read = False

    def check(self, value: object) -> bool:
        """Whether the class of an allowed value decides. Raises InvalidType."""
        if not self._is_read:
            self._read()
        tests = self._tests
        if tests is None:
            return True
        if not tests.accepts(value):
            raise InvalidType(self.name, value, tests.words)
        return any(test.by_class and test.accepts(value) for test in tests.tests)

    def _read(self) -> None:
        hint = self._hint
        if isinstance(hint, str):
            hint = _read_hint(ast.parse(hint, mode="eval").body, _Names(vars(sys.modules[self._module])))
        self._tests = find_tests(hint)
        self._is_read = True


def _read_hint(node: ast.AST, names: Mapping[str, Any]) -> Any:  # noqa: PLR0911 - one for each kind
    """What a written annotation stands for; the names of recursive types in it are not followed."""
    read = functools.partial(_read_hint, names=names)
    match node:
        case ast.Name(name):
            return names[name]
        case ast.Constant(value):
            return value
        case ast.Attribute(value, name):
            return getattr(read(value), name)
        case ast.Subscript(value, index):
            return read(value)[read(index)]
        case ast.BinOp(left, ast.BitOr(), right):
            return read(left) | read(right)
        case ast.Tuple(parts):
            return tuple(map(read, parts))
        case ast.List(parts):
            return list(map(read, parts))
    raise TypeError(f"an annotation cannot have {type(node).__name__}")


def _module_of(function: types.FunctionType, owner: type | None, parameter: str) -> str:
    """The module whose names the annotation of a parameter uses."""
    if owner is not None and is_dataclass(owner) and function.__name__ == "__init__":
        return next((base.__module__ for base in owner.__mro__ if parameter in get_annotations(base)), owner.__module__)
    return function.__module__


class _Names(dict[str, object]):
    """The names of a module, with those that it imports for type checkers only."""

    def __init__(self, names: Mapping[str, object]) -> None:
        # the name of a recursive type is a text
        super().__init__((name, Any if isinstance(value, str) else value) for name, value in names.items())
        self._file = str(names["__file__"])

    def __missing__(self, name: str) -> object:
        if hasattr(builtins, name):
            return getattr(builtins, name)
        for line in linecache.getlines(self._file):
            words = line.replace(",", " ").split()
            if line.startswith("    from ") and name in words[3:]:
                found = getattr(import_module(words[1]), name)
                return Any if isinstance(found, str) else found
        return Any


@dataclass(frozen=True, slots=True)
class _Test:
    """What is allowed, and how a message says it."""

    words: str
    accepts: Callable[[object], bool]
    by_class: bool = True


@dataclass(frozen=True, slots=True)
class _Tests:
    """One of these."""

    tests: tuple[_Test, ...]

    def accepts(self, value: object) -> bool:
        """Whether one of them accepts the value."""
        return any(test.accepts(value) for test in self.tests)

    @property
    def words(self) -> str:
        """All that is allowed."""
        return _join([test.words for test in self.tests])


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def _join(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


_NONE = _Test("None", lambda value: value is None)
_SEQUENCES = (list, tuple, set, frozenset)


def find_tests(hint: object) -> _Tests | None:  # noqa: PLR0911 - a table of cases
    """What a type hint allows; None: anything."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        parts = [find_tests(argument) for argument in arguments]
        return None if None in parts else _Tests(tuple(test for part in parts if part for test in part.tests))
    if isinstance(hint, InitVar):
        return find_tests(hint.type)
    if origin is typing.Annotated:
        return find_tests(arguments[0])
    if origin is typing.Literal:
        words = f"one of {', '.join(map(repr, arguments))}"
        return _Tests((_Test(words, lambda value: isinstance(value, tuple(set(map(type, arguments))))),))
    if hint is None or hint is type(None):
        return _Tests((_NONE,))
    kind = origin or hint
    if not isinstance(kind, type) or kind is object or kind is Any:
        return None
    if issubclass(kind, Enum):  # members, and their values
        values = {member.value for member in kind}
        listed = f"one of {', '.join(map(repr, sorted(map(str, values))))}"
        value_test = _Test(listed, lambda value: isinstance(value, str) and value in values, by_class=False)
        return _Tests((_test_of_class(kind, ()), value_test))
    return _Tests((_test_of_class(kind, arguments),))


def _test_of_class(kind: type, arguments: tuple[object, ...]) -> _Test:  # noqa: PLR0911 - a table of cases
    name = kind.__name__
    words = _with_article(name)
    if kind in _NUMBERS:
        return _Test(words, functools.partial(_is_number, _NUMBERS[kind]))
    if kind is type:
        return _Test("a class", lambda value: isinstance(value, type))
    if name == "Callable":
        return _Test("a function", callable)
    if issubclass(kind, Mapping):
        return _mapping_test(arguments)
    if name == "ndarray":
        return _Test("an array", lambda value: hasattr(value, "__array__") or isinstance(value, list | tuple))
    if issubclass(kind, Iterable) and (kind.__module__ in ("collections.abc", "typing") or kind in _SEQUENCES):
        return _sequence_test(kind, arguments[0] if len(arguments) == 1 else object)  # not items of tuples, of records
    if issubclass(kind, os.PathLike) and kind.__module__ == "os":
        return _Test("a Path", lambda value: isinstance(value, os.PathLike))
    if getattr(kind, "_is_protocol", False):
        return _protocol_test(kind)
    return _Test(words, lambda value: isinstance(value, kind))


_NUMBERS: Mapping[type, type] = {int: numbers.Integral, float: numbers.Real, bool: bool}


def _is_number(kind: type, value: object) -> bool:
    if kind is bool:
        return isinstance(value, bool) or type(value).__name__ == "bool"  # also numpy's
    return isinstance(value, kind) and not isinstance(value, bool)


def _mapping_test(arguments: tuple[object, ...]) -> _Test:
    values = find_tests(arguments[1]) if len(arguments) == 2 else None
    if values is None:
        return _Test("a mapping", lambda value: isinstance(value, Mapping))

    def accepts(value: object) -> bool:
        return isinstance(value, Mapping) and all(values.accepts(item) for item in dict(value.items()).values())

    return _Test(f"a mapping (each value {values.words})", accepts, by_class=False)


def _sequence_test(kind: type, item: object) -> _Test:
    items = find_tests(item)
    needed = ("__len__", "__getitem__") if issubclass(kind, Sequence) else ("__iter__",)

    def accepts(value: object) -> bool:
        if isinstance(value, str | bytes | type | Mapping) or not all(hasattr(value, name) for name in needed):
            if isinstance(value, Iterable):
                iter(value)  # it may say itself why it is none, as tools that are not connected do
            return False
        if items is None or isinstance(value, Iterator):  # which can be read once
            return True
        return all(map(items.accepts, cast("Iterable[object]", value)))

    words = "a sequence" if items is None else f"a sequence (each item {items.words})"
    return _Test(words, accepts, by_class=items is None)


def _protocol_test(kind: type) -> _Test:
    """A protocol is known by its methods: all of them, or one of those in `one_of`."""
    one_of: tuple[str, ...] = getattr(kind, "one_of", ())
    names = one_of or tuple(_methods(kind))
    enough = any if one_of else all
    listed = _join(names) if one_of else ", ".join(names)
    words = f"{_with_article(kind.__name__)} (an object with {listed})"
    return _Test(words, lambda value: not isinstance(value, type) and enough(hasattr(value, name) for name in names))


def _methods(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        if getattr(base, "_is_protocol", False):
            yield from (name for name, value in vars(base).items() if name[0] != "_" and callable(value))

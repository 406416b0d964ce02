"""Python blocks: run with the names of the blocks before them, or checked without being run."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any


def compiled(code: str, page: Path, line: int, *, asynchronous: bool = False) -> Any:
    """The code object, whose tracebacks name the line of the page; `await` is allowed at top level where asked for."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if asynchronous else 0
    return compile("\n" * (line - 1) + code, str(page), "exec", flags=flags, dont_inherit=True)


def problems(code: str) -> Iterator[str]:
    """What is wrong with code that cannot be run: modules, names and keywords that do not exist."""
    tree = ast.parse(code)
    known: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield from _imported(name.name, None, known, name.asname or name.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                yield from _imported(node.module, name.name, known, name.asname or name.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (called := _value(node.func, known)) is not None:
            yield from _keywords(called, node)


def _imported(module: str, name: str | None, known: dict[str, object], local: str) -> Iterator[str]:
    try:
        found = import_module(module)
        known[local] = getattr(found, name) if name else found
    except (ImportError, AttributeError) as error:
        yield f"line imports what is not there: {error}"


def _value(node: ast.expr, known: dict[str, object]) -> object | None:
    """What a dotted name of imported names stands for, if that can be told without running anything."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := _value(node.value, known)) is not None:
        return getattr(owner, node.attr, None)
    return None


def _keywords(called: object, call: ast.Call) -> Iterator[str]:
    try:
        parameters = inspect.signature(called).parameters  # type: ignore[arg-type] # what is not callable raises
    except (TypeError, ValueError):
        return
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return
    for keyword in call.keywords:
        if keyword.arg and keyword.arg not in parameters:
            yield f"{ast.unparse(call.func)} takes no {keyword.arg!r}"

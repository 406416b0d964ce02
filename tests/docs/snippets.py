"""Python blocks: run with the names of the earlier blocks, or checked without running."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any


def compiled(code: str, page: Path, line: int, *, asynchronous: bool = False) -> Any:
    """The code object; tracebacks have the page's line numbers. `asynchronous` allows `await` at top level."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if asynchronous else 0
    return compile("\n" * (line - 1) + code, str(page), "exec", flags=flags, dont_inherit=True)


def problems(code: str) -> Iterator[str]:
    """Problems of code that cannot be run: unknown modules, names and keywords."""
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
        result = import_module(module)
        known[local] = getattr(result, name) if name else result
    except (ImportError, AttributeError) as error:
        yield f"import fails: {error}"


def _value(node: ast.expr, known: dict[str, object]) -> object | None:
    """The object behind a dotted name, if it can be resolved without running code."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := _value(node.value, known)) is not None:
        return getattr(owner, node.attr, None)
    return None


def _keywords(called: object, call: ast.Call) -> Iterator[str]:
    try:
        parameters = inspect.signature(called).parameters  # type: ignore[arg-type] # a non-callable raises
    except (TypeError, ValueError):
        return
    if any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters.values()):
        return
    for keyword in call.keywords:
        if keyword.arg and keyword.arg not in parameters:
            yield f"{ast.unparse(call.func)} takes no {keyword.arg!r}"

"""The syntax trees of the package source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import ragkit

ROOT = Path(ragkit.__file__).parent


@cache
def trees() -> dict[str, ast.Module]:
    """Path below the package -> tree."""
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}


def module_name(path: str) -> str:
    """`load/html/html.py` -> `ragkit.load.html.html`."""
    return ".".join(["ragkit", *Path(path).with_suffix("").parts]).removesuffix(".__init__")


@cache
def calls() -> list[tuple[str, str, ast.Call]]:
    """Every call: the file, the dotted name that is called, and the call."""
    return [
        (path, ast.unparse(node.func), node)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    ]


def imports() -> Iterator[tuple[str, str]]:
    """Every import: the file, and the dotted name of what is imported."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((path, f"{node.module}.{alias.name}") for alias in node.names)

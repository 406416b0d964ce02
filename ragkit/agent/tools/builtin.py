"""Built-in tools: a calculator, read access to one directory, and web search with an engine of your choice.

The calculator parses its expression and never evaluates code. The file tools cannot leave their directory.
"""

from __future__ import annotations

import ast
import fnmatch
import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from ragkit.agent.tools.base import Tool, ToolResult, tool
from ragkit.agent.tools.registry import ToolRegistry
from ragkit.errors import RagkitError

Number: TypeAlias = int | float

MAX_DIGITS = 4300
"""Digits of the largest integer; Python's own limit for printing one."""
MAX_FILE_BYTES = 1_000_000
MAX_RESULTS = 200


class ToolError(RagkitError):
    """A tool failed. The message is for the model."""


@tool(
    description="Compute an arithmetic expression, such as 'sqrt(2) * (3 + 4) ** 2'. Functions: abs, round, min, max, "
    "sum, pow, sqrt, sin, cos, tan, log, log10, exp, floor, ceil; constants: pi, e."
)
def calculator(expression: str) -> str:
    """Compute an expression.

    Args:
        expression: numbers, + - * / // % **, parentheses, functions and constants.
    """
    return str(calculate(expression))


def calculate(expression: str) -> Number:
    """The value of an arithmetic expression. Raises ToolError."""
    if len(expression) > 1000:
        raise ToolError("the expression has more than 1000 characters")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ToolError(f"{expression!r} is not an arithmetic expression") from error
    try:
        value = _require_number(_evaluate(tree.body))
        str(value)  # an integer with too many digits to print
    except (ArithmeticError, ValueError, TypeError, RecursionError) as error:
        raise ToolError(f"{expression!r} has no value: {error}") from error
    return value


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        digits = math.log10(abs(base)) * exponent if abs(base) > 1 else 1
        if digits > MAX_DIGITS:
            raise ToolError(f"{base} ** {exponent} has more than {MAX_DIGITS} digits")
    value = base**exponent
    if isinstance(value, complex):
        raise ToolError(f"{base} ** {exponent} is not a real number")
    return float(value) if isinstance(value, float) else int(value)


def _round(value: Number, digits: Number | None = None) -> Number:
    return round(value) if digits is None else round(value, int(digits))


_BINARY_OPERATORS: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "abs": abs,
    "round": _round,
    "min": min,
    "max": max,
    "sum": sum,
    "pow": _power,
    "sqrt": math.sqrt,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "log": math.log,
    "log10": math.log10,
    "exp": math.exp,
    "floor": math.floor,
    "ceil": math.ceil,
}
_CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e}

CalculatorValue: TypeAlias = Number | list[Number]


def _evaluate(node: ast.expr) -> CalculatorValue:
    value: CalculatorValue
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            value = number
        case ast.Name(id=name) if name in _CONSTANTS:
            value = _CONSTANTS[name]
        case ast.UnaryOp(op=(ast.USub() | ast.UAdd()) as sign, operand=operand):
            value = _require_number(_evaluate(operand)) * (-1 if isinstance(sign, ast.USub) else 1)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY_OPERATORS:
            value = _check_digits(
                _BINARY_OPERATORS[type(op)](_require_number(_evaluate(left)), _require_number(_evaluate(right)))
            )
        case ast.List(elts=items) | ast.Tuple(elts=items):
            value = [_require_number(_evaluate(item)) for item in items]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            value = _FUNCTIONS[name](*map(_evaluate, args))
        case _:
            words = ast.unparse(node)[:80]
            raise ToolError(f"{words!r} is not supported: use numbers, operators and the listed functions")
    return value


def _check_digits(value: Number) -> Number:
    if isinstance(value, int) and value.bit_length() > MAX_DIGITS * 3.33:
        raise ToolError(f"the number has more than {MAX_DIGITS} digits")
    return value


def _require_number(value: CalculatorValue) -> Number:
    if isinstance(value, list):
        raise ToolError("a list is supported only in sum, min and max")
    return value


class FolderTools:
    """The tools of one directory: `read_file`, `list_files`, `search_files`. They cannot access files outside it.

    Args:
        root: the directory. Paths are resolved, symbolic links included, before a file is opened.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).resolve()

    def tools(self) -> list[Tool]:
        """The three tools."""
        return [Tool.from_function(method) for method in (self.read_file, self.list_files, self.search_files)]

    def read_file(self, path: str, first_line: int = 1, lines: int = 2000) -> str:
        """Read a text file.

        Args:
            path: relative to the root directory.
            first_line: counted from 1.
            lines: the maximum number of lines.
        """
        target = self._resolve_inside(path)
        if not target.is_file():
            raise ToolError(f"{path!r} is not a file: use list_files to see the files")
        with target.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
        if b"\0" in raw[:8192]:
            raise ToolError(f"{path!r} is not a text file")
        text = raw[:MAX_FILE_BYTES].decode("utf-8", "replace")
        kept = text.splitlines()[max(0, first_line - 1) :][: max(0, lines)]
        more = f"\n[the first {MAX_FILE_BYTES} bytes of a longer file]" if len(raw) > MAX_FILE_BYTES else ""
        return "\n".join(kept) + more

    def list_files(self, pattern: str = "*") -> ToolResult:
        """List files, without hidden ones.

        Args:
            pattern: of the path relative to the root directory; * matches any characters, slashes too.
        """
        names = [name for name in self._list_paths() if fnmatch.fnmatchcase(name, pattern)]
        return _to_list_result(names, "no file matches")

    def search_files(self, text: str = "", pattern: str = "*") -> ToolResult:
        """Find lines that contain a text, case-insensitively. Without a text, find files by their path.

        Args:
            text: what to look for; empty to list the files that match the pattern.
            pattern: of the path relative to the root directory; * matches any characters, slashes too.
        """
        if not text:
            return self.list_files(pattern)
        matches: list[str] = []
        for name in self._list_paths():
            path = self.root / name
            if not fnmatch.fnmatchcase(name, pattern) or path.stat().st_size > MAX_FILE_BYTES:
                continue
            raw = path.read_bytes()
            if b"\0" in raw[:8192]:
                continue
            for number, line in enumerate(raw.decode("utf-8", "replace").splitlines(), 1):
                if text.lower() in line.lower():
                    matches.append(f"{name}:{number}: {line.strip()[:200]}")
            if len(matches) > MAX_RESULTS:
                break
        return _to_list_result(matches, "no line contains that")

    def _list_paths(self) -> list[str]:
        """Sorted paths of the files relative to the root, without hidden ones and links that lead out."""
        names: list[str] = []
        for folder, folders, files in os.walk(self.root):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for file in files:
                path = Path(folder, file)
                if not file.startswith(".") and path.resolve().is_relative_to(self.root) and path.is_file():
                    names.append(path.relative_to(self.root).as_posix())
        return sorted(names)

    def _resolve_inside(self, path: str) -> Path:
        try:
            resolved = (self.root / path).resolve()
        except (OSError, ValueError) as error:
            raise ToolError(f"{path!r} is not a path") from error
        if not resolved.is_relative_to(self.root):
            raise ToolError(f"{path!r} is outside the directory")
        return resolved


class WebSearchEngine(Protocol):
    """A web search engine; `ragkit.agent.tools.duckduckgo.DuckDuckGo` is one."""

    def search(self, query: str, num_results: int) -> Sequence[tuple[str, str, str]]:
        """(title, URL, excerpt) of each result, best first."""


def create_web_search_tool(engine: WebSearchEngine) -> Tool:
    """The tool `web_search` over an engine of your choice."""

    def web_search(query: str, num_results: int = 5) -> ToolResult:
        """Search the web.

        Args:
            query: what to look for.
            num_results: 1 to 20.
        """
        results = list(engine.search(query, min(20, max(1, num_results))))
        lines = [f"{n}. {title}\n{address}\n{excerpt}" for n, (title, address, excerpt) in enumerate(results, 1)]
        return ToolResult("\n\n".join(lines) or "nothing was found", [list(result) for result in results])

    return Tool.from_function(web_search)


def create_default_registry(root: str | Path | None = ".", *, search: WebSearchEngine | None = None) -> ToolRegistry:
    """The calculator, the file tools of a directory, and with an engine the web search.

    Args:
        root: the directory that the file tools read, by default the working directory; None: no file tools.
        search: the engine of `web_search`.
    """
    folder = FolderTools(root).tools() if root is not None else []
    return ToolRegistry([calculator, *folder, *([create_web_search_tool(search)] if search else [])])


def _to_list_result(items: Sequence[str], nothing: str) -> ToolResult:
    more = f"\n[the first {MAX_RESULTS} of more]" if len(items) > MAX_RESULTS else ""
    return ToolResult("\n".join(items[:MAX_RESULTS]) + more if items else nothing, list(items[:MAX_RESULTS]))

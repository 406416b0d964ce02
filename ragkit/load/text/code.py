"""Source code and configuration files, verbatim, with classes and functions as headings."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping

from ragkit.load.file_types import detect_language, file_name
from ragkit.load.options import LOADER_VERSIONS, CodeOptions
from ragkit.load.shared.encoding import decode_bytes
from ragkit.load.shared.loader_utils import build_metadata, encodable, line_starts
from ragkit.load.text.front_matter import find_access
from ragkit.records import JSON, Document, Heading

MAX_PARSED_CHARS = 2_000_000
"""Longer files are assumed to be generated and get no headings."""

_MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|abstract|final|sealed|open|data|async|pub"
    r"|pub\(crate\)|unsafe|partial|declare|override)[ \t]+){0,6}"
)
_TYPE_KEYWORDS = r"(?:class|interface|enum|struct|trait|record|object|protocol|extension|namespace|module|impl|mod)"
_FUNCTION_KEYWORDS = r"(?:function\*?|func|fun|fn|def|sub)"
_DEFINITION = re.compile(
    rf"([ \t]{{0,40}})({_MODIFIERS}(?:{_TYPE_KEYWORDS}|{_FUNCTION_KEYWORDS})[ \t]+(?:\([^()]{{0,80}}\)[ \t]*)?[\w.:$]+)"
)
_SQL_DEFINITION = re.compile(
    r"([ \t]*)(create\s+(?:or\s+replace\s+)?(?:table|view|function|procedure|index)\s+[\w.\"]+)", re.I
)
_SHELL_FUNCTION = re.compile(r"()((?:function[ \t]+)?[\w-]+)[ \t]*\(\)[ \t]*\{?$")
_INI_SECTION = re.compile(r"()\[{1,2}([^\[\]]{1,100})\]{1,2}[ \t]*$")

HEADING_PATTERNS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("csharp", "cuda", "dart", "go", "groovy", "java", "javascript", "kotlin", "perl"), _DEFINITION),
    **dict.fromkeys(("php", "powershell", "ruby", "rust", "scala", "swift", "typescript"), _DEFINITION),
    "ini": _INI_SECTION,
    "shell": _SHELL_FUNCTION,
    "sql": _SQL_DEFINITION,
    "toml": _INI_SECTION,
}
"""Language -> pattern of a line that starts a definition; groups: indentation, heading text."""


class CodeLoader:
    """Keeps every character except the byte order mark."""

    version = LOADER_VERSIONS["code"]

    def __init__(self, options: CodeOptions | None = None) -> None:
        self.options = options or CodeOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The source code in `data`; code with syntax errors has no headings."""
        decoded = decode_bytes(data, self.options.encoding)
        access = find_access(decoded.text)
        text = access.hide(decoded.text)
        language = detect_language(source, text)
        extra: dict[str, JSON] = {"language": language, "encoding": decoded.legacy_encoding, **access.metadata}
        return Document(
            text=text,
            metadata=build_metadata("code", source, extra),
            source=source,
            title=encodable(file_name(source)),
            headings=tuple(code_headings(text, language)) if self.options.headings else (),
            format="code",
            language=language,
        )


def code_headings(text: str, language: str) -> Iterator[Heading]:
    """The definitions in `text`, in order; none for a language without a pattern."""
    if len(text) > MAX_PARSED_CHARS:
        return
    if language == "python":
        yield from _python_headings(text)
    elif language in HEADING_PATTERNS:
        yield from _line_headings(text, HEADING_PATTERNS[language])


def _python_headings(text: str) -> Iterator[Heading]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in the file
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # syntax of another Python version, or nested too deeply for the parser
    starts = line_starts(text)
    pending: list[tuple[ast.AST, int]] = [(tree, 1)]
    headings: list[Heading] = []
    while pending:
        node, level = pending.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                keyword = "class" if isinstance(child, ast.ClassDef) else "def"
                line = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
                headings.append(Heading(starts[line - 1], level, f"{keyword} {child.name}"))
                pending.append((child, level + 1))
            elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                pending.append((child, level))
    yield from sorted(headings, key=lambda heading: (heading.start, heading.level))


def _line_headings(text: str, pattern: re.Pattern[str]) -> Iterator[Heading]:
    starts = line_starts(text)
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        headings = pattern.match(text[start : min(end, start + 300)].rstrip("\r\n"))
        if headings:
            yield Heading(start, 2 if headings[1] else 1, " ".join(headings[2].split()))

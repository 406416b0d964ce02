"""Source code and settings, as they stand in the file, with classes and functions as headings."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping

from ragkit.load.encoding import decode_bytes
from ragkit.load.file_types import detect_language, file_name
from ragkit.load.loader_utils import build_metadata, line_starts
from ragkit.load.options import LOADER_VERSIONS, CodeOptions
from ragkit.records import Document, Heading

MAX_PARSED_CHARS = 2_000_000
"""Characters up to which Python is parsed; longer files are machine-made and get no headings."""

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
"""Language -> what a line that begins a named part looks like: its indent, then its words."""


class CodeLoader:
    """Keeps every character but the byte order mark."""

    version = LOADER_VERSIONS["code"]

    def __init__(self, options: CodeOptions | None = None) -> None:
        self.options = options or CodeOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The source code in `data`; code that does not parse has no headings."""
        decoded = decode_bytes(data, self.options.encoding)
        language = detect_language(source, decoded.text)
        encoding = "" if decoded.encoding == "utf-8" else decoded.encoding
        name = file_name(source).encode("utf-8", "replace").decode()
        return Document(
            text=decoded.text,
            metadata=build_metadata("code", source, {"language": language, "encoding": encoding}),
            source=source,
            title=name,
            headings=tuple(code_headings(decoded.text, language)) if self.options.headings else (),
            format="code",
            language=language,
        )


def code_headings(text: str, language: str) -> Iterator[Heading]:
    """The named parts of `text` in rising order; none for a language without a rule."""
    if len(text) > MAX_PARSED_CHARS:
        return
    if language == "python":
        yield from _python_headings(text)
    elif language in HEADING_PATTERNS:
        yield from _line_headings(text, HEADING_PATTERNS[language])


def _python_headings(text: str) -> Iterator[Heading]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the file's own bad escapes are not ours to report
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # not this Python's syntax, or nested too deep for its parser
    starts = line_starts(text)
    waiting: list[tuple[ast.AST, int]] = [(tree, 1)]
    found: list[Heading] = []
    while waiting:
        node, level = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                word = "class" if isinstance(child, ast.ClassDef) else "def"
                line = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
                found.append(Heading(starts[line - 1], level, f"{word} {child.name}"))
                waiting.append((child, level + 1))
            elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                waiting.append((child, level))
    yield from sorted(found, key=lambda heading: (heading.start, heading.level))


def _line_headings(text: str, rule: re.Pattern[str]) -> Iterator[Heading]:
    starts = line_starts(text)
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        found = rule.match(text[start : min(end, start + 300)].rstrip("\r\n"))
        if found:
            yield Heading(start, 2 if found[1] else 1, " ".join(found[2].split()))

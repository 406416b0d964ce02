"""Source code and configuration files, verbatim, with classes and functions as headings."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace

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
_DEFINED = rf"{_MODIFIERS}(?:{_TYPE_KEYWORDS}|{_FUNCTION_KEYWORDS})[ \t]+(?:\([^()]{{0,80}}\)[ \t]*)?[\w.:$]+"
_ASSIGNED = (
    r"(?:export[ \t]+)?(?:(?:const|let|var)[ \t]+[\w$]+|[\w$]+(?:\.[\w$]+){1,4})"
    r"(?=[ \t]*=[ \t]*(?:async\b[ \t]*)?(?:function\b|\w*\(?[\w$, {}]{0,100}\)?[ \t]*=>))"
)
_TESTED = r"(?:describe|it|test)\((?:\"[^\"]{1,100}\"|'[^']{1,100}')(?=,)"
_DEFINITION = re.compile(rf"([ \t]{{0,40}})({_DEFINED})")
_SCRIPT_DEFINITION = re.compile(rf"([ \t]{{0,40}})({_DEFINED}|{_ASSIGNED}|{_TESTED})")
_BIBTEX_ENTRY = re.compile(r"()@(\w{3,30}[ \t]*\{[^\s,{}]{1,100})")
_CLOSING_LINE = re.compile(r"[)}\]{;]|//|end\b|(?:else|elif|catch|finally|then|do|done|fi|esac)\b")
"""A line as far to the left as the head of a section that does not end it."""
_LIST_ITEM = re.compile(r"-(?: |$)")
_YAML_KEY = re.compile(r"( {0,40})([\w.\"'/][\w.\"'/ -]{0,80}):[ \t]*(?:#.*)?$")
_LISP_DEFINITION = re.compile(r"()\(((?:cl-)?def[\w*-]{0,40}[ \t]+\(?[^\s()]{1,80})")
_SQL_DEFINITION = re.compile(
    r"([ \t]*)(create\s+(?:or\s+replace\s+)?(?:table|view|function|procedure|index)\s+[\w.\"]+)", re.I
)
_SHELL_FUNCTION = re.compile(r"()((?:function[ \t]+)?[\w-]+)[ \t]*\(\)[ \t]*\{?$")
_INI_SECTION = re.compile(r"()\[{1,2}([^\[\]]{1,100})\]{1,2}[ \t]*$")

HEADING_PATTERNS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("csharp", "cuda", "dart", "go", "groovy", "java", "kotlin", "perl"), _DEFINITION),
    **dict.fromkeys(("php", "powershell", "ruby", "rust", "scala", "swift"), _DEFINITION),
    **dict.fromkeys(("javascript", "typescript", "vue"), _SCRIPT_DEFINITION),
    "bibtex": _BIBTEX_ENTRY,
    "lisp": _LISP_DEFINITION,
    "ini": _INI_SECTION,
    "shell": _SHELL_FUNCTION,
    "sql": _SQL_DEFINITION,
    "toml": _INI_SECTION,
    "yaml": _YAML_KEY,
}
"""Language -> pattern of a line that starts a definition; groups: indentation, heading text."""


_NESTED = frozenset({_DEFINITION, _SCRIPT_DEFINITION, _SHELL_FUNCTION, _YAML_KEY})
"""Patterns of languages whose sections are indented."""


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
        headings = _line_headings(text, HEADING_PATTERNS[language])
        yield from sorted(headings, key=lambda heading: heading.start)


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
    """The lines of a pattern; in languages with indentation, each is the heading of the lines indented below it."""
    starts = line_starts(text)
    opened: list[tuple[int, Heading]] = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        line = text[start : min(end, start + 300)].rstrip()
        depth = len(line) - len(line.lstrip())
        if not line or line.startswith("#", depth):
            continue
        goes_on = (_LIST_ITEM if pattern is _YAML_KEY else _CLOSING_LINE).match(line, depth) is not None
        while opened and (depth, goes_on) <= (opened[-1][0], False):
            yield replace(opened.pop()[1], end=start)
        if key := pattern.match(line):
            title = " ".join(key[2].split())
            if pattern in _NESTED:
                opened.append((depth, Heading(start, len(opened) + 1, title)))
            else:
                yield Heading(start, 2 if key[1] else 1, title)
    yield from (replace(heading, end=len(text)) for _, heading in opened)

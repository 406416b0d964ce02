"""What AsciiDoc, reStructuredText, LaTeX and Org say to their programs, and not to a reader.

Attributes, field lists, comments, targets and options become spaces of the same length; the values at the head of a
file are its metadata. Rows of LaTeX tables become `cell | cell`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from ragkit.load.shared.access_field import is_access_field
from ragkit.load.shared.loader_utils import collapse_whitespace, line_starts
from ragkit.load.shared.noise import LEFT_OUT
from ragkit.load.shared.table_text import is_header
from ragkit.load.text.front_matter import blank_text
from ragkit.records import JSON, TABLE_LEVEL, Heading

MAX_FIELDS = 100
"""Values of the head of a file that become metadata."""

_RST_GRID = re.compile(r"^[ \t]*+\+(?:[-=]{1,1000}\+){1,200}[ \t]*$")
"""The line between the rows of a table."""
_LITERAL_MARK = ":" * 2
"""Ends the line before a literal block of reST."""
_ASCIIDOC_LINE = re.compile(
    r":(?P<name>!?[\w-]{1,80}!?):(?:[ \t]+(?P<value>.*?))?[ \t]*$|//(?!/).*|(?:ifn?def|ifeval|endif|include|toc)::.*"
    r"|\[\[[^\]]{1,200}\]\][ \t]*$|\[(?:#[^\]]{1,200}|\.[\w.-]{1,80})\][ \t]*$"
)
_ASCIIDOC_FENCE = re.compile(r"(-{4,}|\.{4,}|/{4,}|\+{4,}|`{3,})[ \t]*$")
_RST_FIELD = re.compile(r":(?P<name>[^:\s][^:\n]{0,80}):(?=\s|$)[ \t]*(?P<value>.*?)[ \t]*$")
_RST_DIRECTIVE = re.compile(r"([ \t]*)\.\.[ \t]+([\w:-]{1,60})::")
_RST_UNSEEN = re.compile(r"([ \t]*)\.\.(?:[ \t]+(?!\[|\|)(?![\w:.+-]{1,60}::).*|[ \t]*$)")
_RST_OPTION = re.compile(r"[ \t]+:[\w-]{1,60}:(?=\s|$)")
_CODE_DIRECTIVES = frozenset({"code", "code-block", "sourcecode", "parsed-literal", "math", "prompt", "doctest"})
_HIDDEN_DIRECTIVES = frozenset({"toctree", "contents", "index", "meta", "highlight", "currentmodule", "module", "raw"})

_ORG_LINE = re.compile(r"[ \t]*+#(?:\+(?!caption:)(?P<name>[\w-]{1,80}):(?P<value>.*)|[ \t].*|)$", re.IGNORECASE)
_ORG_BLOCK = re.compile(r"[ \t]*+#\+(begin|end)_(\w{1,40})\b", re.IGNORECASE)
_ORG_DRAWER = re.compile(
    r"^[ \t]*+:PROPERTIES:[ \t]*+\n(?:[ \t]*+:(?!END:).*\n){0,100}[ \t]*+:END:[ \t]*+$", re.IGNORECASE | re.MULTILINE
)

_LATEX_COMMENT = re.compile(r"(?<![\\%])(?:\\\\)?(%[^\n]*)")
_LATEX_VERBATIM = re.compile(r"\\(begin|end)\{(?:verbatim\*?|lstlisting|minted|alltt)\}")
_LATEX_DEFINITION = re.compile(
    r"^[ \t]{0,20}\\(?:(?:re|provide)?newcommand|DeclareMathOperator|def(?=\\)|let(?=\\))[^\n\r]{1,500}", re.MULTILINE
)
_LATEX_BODY = "\\begin{document}"
_LATEX_FRONT = re.compile(
    r"\\(?:title|subtitle|author|date|institute|affil[a-z]*|name|address|position|recipient|letter[a-z]+|keywords)"
    r"\*?(?:\[[^\]]{0,200}\])?\{(?:[^{}]|\{[^{}]{0,300}\}){0,2000}\}"
    r"|\\begin\{abstract\}(?:[^\\]|\\(?!end\{abstract)){0,9000}\\end\{abstract\}"
)
"""What a preamble says to a reader."""
_LATEX_MACRO_LINE = re.compile(
    r"^[ \t]{0,40}(?:\\(?:(?:re|provide)?new[a-z]|[egx]?def\b|let\b|(?:Require|use)[Pp]ackage|Declare|Provides"
    r"|set[a-z]|advance|if|fi\b|else|global|long\b|expandafter|makeat|NeedsTeX|[A-Za-z]{0,40}(?:@| ?=)))",
    re.MULTILINE,
)
_LATEX_LAYOUT = re.compile(
    r"\\(?:(?:begin|end)\{document\}|(?:maketitle|tableofcontents|listof(?:figures|tables)|(?:new|clear|page)(?:page|break)"
    r"|noindent|centering|(?:big|med|small)skip|[hv]fill|appendix|(?:front|main|back)matter)(?![A-Za-z{])"
    r"|(?:[hv]space|bibliography(?:style)?|(?:this)?pagestyle)\*?\{[^{}\n]{0,200}\})"
)
"""Commands without text for a reader."""
_LATEX_SENTENCE = re.compile(r"(?<![\\\w@])(?:[^\W\d_]{1,30}[,;:]? ){5}")
MIN_MACRO_LINES, MIN_MACRO_SHARE, MAX_SENTENCE_SHARE = 5, 0.3, 0.1
"""A file with so many lines of macros, this share of its lines, and so few with words in a row, is none for readers."""
_WORDS = re.compile(r"(?<![\\\w])[^\W\d_]{3,}")
MAX_DEFINED_WORDS = 4
"""A definition of a macro with more words may be a text that is used more than once."""
_LATEX_MACRO = re.compile(r"\\(?:re)?newcommand\*?\{?\\([A-Za-z]{2,30})\}?\{([^\\{}#\n]{1,200})\}")
_LATEX_TABLE = re.compile(r"\\(begin|end)\{(?:tabular[x*]?|longtable|tabulary|array)\}")
_LATEX_TABLE_HEAD = re.compile(
    r"\\begin\{\w+\*?\}(?:\{\\?\w+\})?(?:\[[^\]]{0,20}\])?\{(?:[^{}]|\{[^{}]{0,100}\}){0,300}\}"
)
_LATEX_RULE = re.compile(
    r"\\(?:hline|toprule|midrule|bottomrule|endhead|endfirsthead|endfoot|endlastfoot|addlinespace|centering|small)\b"
    r"(?:\[[^\]]{0,20}\])?|\\c(?:mid)?(?:rule|line)(?:\([^)]{0,10}\))?\{[\d-]{1,10}\}|\\end\{\w+\*?\}"
)
_LATEX_SPAN = re.compile(r"\\multi(?:column|row)\{[^{}]{1,20}\}\{[^{}]{0,60}\}\{((?:[^{}]|\{[^{}]{0,200}\}){0,500})\}")
_LATEX_ROW_END = re.compile(r"\\\\\*?(?:\[[^\]]{0,20}\])?|\\tabularnewline\b")
_LATEX_COMMAND = re.compile(r"\\[A-Za-z]{1,30}\*?|[{}$]")
_LATEX_CELL_END = re.compile(r"(?<!\\)&")


def hide_asciidoc(text: str) -> tuple[str, Mapping[str, JSON]]:
    """The text without attributes, comments and conditions, and the attributes of its head."""
    fields: dict[str, JSON] = {}
    lines: list[str] = []
    fence, in_head = "", True
    for line in _lines(text):
        bare = line.rstrip("\r\n")
        opened = _ASCIIDOC_FENCE.match(bare)
        if opened and (not fence or fence == opened[1]):
            fence = "" if fence else opened[1]
            lines.append(blank_text(line) if opened[1][0] == "/" else line)
            continue
        found = None if fence else _ASCIIDOC_LINE.match(bare)
        if found and found["name"] and in_head:
            _keep_field(fields, found["name"].strip("!"), found["value"])
        in_head = in_head and (bool(found) or not bare.strip() or bare.startswith("= ") or len(lines) < 4)
        lines.append(blank_text(line) if found or fence[:1] == "/" else line)
    return "".join(lines), fields


def hide_rst(text: str) -> tuple[str, Mapping[str, JSON]]:
    """The text without its first field list, comments, targets, and options of directives; and that field list."""
    fields: dict[str, JSON] = {}
    lines: list[str] = []
    state, indent, seen = "head", 0, 0
    for line in _lines(text):
        bare = line.rstrip("\r\n")
        depth = len(bare) - len(bare.lstrip())
        directive, unseen, is_hidden = _RST_DIRECTIVE.match(bare), _RST_UNSEEN.match(bare), False
        found = _RST_FIELD.match(bare) if state in ("head", "fields") else None
        if state in ("hidden", "literal") and (not bare.strip() or depth > indent):
            is_hidden = state == "hidden"
        elif found:
            _keep_field(fields, found["name"], found["value"])
            state, is_hidden = "fields", True
        elif state == "fields" and bare.strip() and depth:
            is_hidden = True  # goes on
        elif directive:
            indent = len(directive[1])
            is_hidden = directive[2] in _HIDDEN_DIRECTIVES
            state = "hidden" if is_hidden else "code" if directive[2] in _CODE_DIRECTIVES else "options"
        elif state in ("options", "code") and _RST_OPTION.match(bare) and depth > indent:
            is_hidden = True
        elif state == "code" and depth > indent:
            state = "literal"
        elif unseen:
            state, indent, is_hidden = "hidden", len(unseen[1]), True
        elif _RST_GRID.match(bare):
            is_hidden = True
        elif bare.rstrip().endswith(_LITERAL_MARK):
            state, indent = "literal", depth
        elif bare.strip():
            seen += 1
            state = "head" if seen <= 3 and state == "head" else "text"  # a title with its lines
        lines.append(blank_text(line) if is_hidden else line)
    return "".join(lines), fields


def hide_org(text: str) -> tuple[str, Mapping[str, JSON]]:
    """The text without keywords, comments and drawers of properties; and the keywords of its head."""
    fields: dict[str, JSON] = {}
    lines: list[str] = []
    block, in_head = "", True
    for line in _lines(_ORG_DRAWER.sub(lambda found: blank_text(found[0]), text)):
        bare = line.rstrip("\r\n")
        mark, found = _ORG_BLOCK.match(bare), None if block else _ORG_LINE.match(bare)
        if mark and block in ("", mark[2].lower()):
            block = mark[2].lower() if mark[1].lower() == "begin" else ""
            found = mark
        elif found and found["name"] and in_head:
            _keep_field(fields, found["name"], found["value"].strip())
        in_head = in_head and (bool(found) or not bare.strip())
        lines.append(blank_text(line) if found or block == "comment" else line)
    return "".join(lines), fields


def hide_latex(text: str) -> tuple[str, Mapping[str, JSON]]:
    """The text without comments, preamble and definitions of macros, with simple macros resolved where they fit."""
    text = _outside_verbatim(text, lambda part: _LATEX_COMMENT.sub(_hide_comment, part))
    macros = {found[1]: found[2] for found in list(_LATEX_MACRO.finditer(text))[:200]}
    if macros:
        uses = re.compile(r"(?<!\{)(?<!command)\\([A-Za-z]{2,30})(?:\{\}|\\?[ ])?")
        text = uses.sub(lambda use: _resolve(use, macros), text)
    text, left_out = _hide_macros(text)
    text = _LATEX_DEFINITION.sub(_hide_definition, text)
    text = _outside_verbatim(text, lambda part: _LATEX_LAYOUT.sub(lambda command: blank_text(command[0]), part))
    for start, end in _environments(text, _LATEX_TABLE):
        text = text[:start] + _table_lines(text[start:end]) + text[end:]
    return text, {LEFT_OUT: left_out} if left_out else {}


def _outside_verbatim(text: str, change: Callable[[str], str]) -> str:
    """The text with what is no listing changed."""
    parts: list[str] = []
    done = 0
    for start, end in [*_environments(text, _LATEX_VERBATIM), (len(text), len(text))]:
        parts += [change(text[done:start]), text[start:end]]
        done = end
    return "".join(parts)


def _hide_macros(text: str) -> tuple[str, int]:
    """The text without its preamble, or without anything if it is a file of macros, and how many characters that is."""
    body = text.find(_LATEX_BODY)
    head = text if body < 0 else _LATEX_FRONT.sub("", text[:body])
    lines = [line for line in head.split("\n") if line.strip()]
    macros = len(_LATEX_MACRO_LINE.findall(head))
    sentences = sum(_LATEX_SENTENCE.search(line) is not None for line in lines)
    is_macros = body >= 0 or macros >= max(MIN_MACRO_LINES, MIN_MACRO_SHARE * len(lines))
    if not is_macros or sentences > MAX_SENTENCE_SHARE * len(lines):
        return text, 0
    end = body if body >= 0 else len(text)
    parts: list[str] = []
    done = left_out = 0
    for first, last in [*(found.span() for found in _LATEX_FRONT.finditer(text, 0, max(0, body))), (end, len(text))]:
        parts += [blank_text(text[done:first]), text[first:last]]
        left_out += len("".join(text[done:first].split()))
        done = last
    return "".join(parts), left_out


def _environments(text: str, marks: re.Pattern[str]) -> Sequence[tuple[int, int]]:
    """The spans of the outermost environments that are closed."""
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    for mark in marks.finditer(text):
        if mark[1] == "begin":
            opened.append(mark.start())
        elif opened:
            start = opened.pop()
            if not opened:
                spans.append((start, mark.end()))
    return spans


def latex_table_headings(text: str) -> Iterator[Heading]:
    """The column names of tables, as headings of their rows; `text` as in the file, with the rules of its tables."""
    for first, end in _environments(text, _LATEX_TABLE):
        table = text[first:end]
        rows = [found.span() for found in _LATEX_ROW_END.finditer(table)]
        if len(rows) < 2:
            continue
        head = _LATEX_TABLE_HEAD.match(table)
        names = _latex_cells(table[head.end() if head else 0 : rows[0][0]])
        below = table[rows[0][1] : rows[1][0]]
        is_ruled = len(rows) > 2 and re.match(r"\s*\\(?:hline|midrule|cmidrule)", below) is not None
        if len(names) < 2 or not (is_ruled or is_header(names, _latex_cells(below))):
            continue
        rules = re.match(r"(?:\s|\\(?:hline|midrule|c(?:mid)?(?:rule|line)(?:\([^)]{0,10}\))?\{[\d-]{0,9}\}))*", below)
        start = first + rows[0][1] + (rules.end() if rules else 0)
        yield Heading(start, TABLE_LEVEL, " | ".join(names)[:1000], first + rows[-1][0])


def _latex_cells(row: str) -> list[str]:
    cells = _LATEX_CELL_END.split(_LATEX_RULE.sub("", _LATEX_SPAN.sub(r"\1", row)))
    return [collapse_whitespace(_LATEX_COMMAND.sub("", cell)) for cell in cells]


def _hide_comment(found: re.Match[str]) -> str:
    return found[0][: found.start(1) - found.start()] + blank_text(found[1])


def _hide_definition(found: re.Match[str]) -> str:
    line = found[0]
    is_whole = line.count("{") == line.count("}")
    return blank_text(line) if is_whole and len(_WORDS.findall(line)) <= MAX_DEFINED_WORDS else line


def _resolve(use: re.Match[str], macros: Mapping[str, str]) -> str:
    value = macros.get(use[1], "")
    return value.ljust(len(use[0])) if value and len(value) <= len(use[0]) else use[0]


def _table_lines(table: str) -> str:
    """A table with bars between its cells, and without rules."""
    table = _LATEX_TABLE_HEAD.sub(lambda found: blank_text(found[0]), table, count=1)
    table = _LATEX_SPAN.sub(
        lambda found: " " * (found.start(1) - found.start()) + found[1] + " " * (found.end() - found.end(1)), table
    )
    table = _LATEX_ROW_END.sub(lambda found: blank_text(found[0]), _LATEX_RULE.sub(lambda f: blank_text(f[0]), table))
    return _LATEX_CELL_END.sub("|", table)


def _keep_field(fields: dict[str, JSON], name: str, value: str | None) -> None:
    """Keep a value; several of one name, such as authors, as a list."""
    key = name.strip().lower()
    if not value or is_access_field(name) or (key not in fields and len(fields) >= MAX_FIELDS):
        return
    known = fields.get(key)
    if known is None:
        fields[key] = value[:1000]
    elif isinstance(known, list):
        known += [value[:1000]] if len(known) < MAX_FIELDS else []
    else:
        fields[key] = [known, value[:1000]]


def _lines(text: str) -> Iterator[str]:
    starts = line_starts(text)
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        yield text[start:end]


HIDERS: Mapping[str, Callable[[str], tuple[str, Mapping[str, JSON]]]] = {
    "asciidoc": hide_asciidoc,
    "latex": hide_latex,
    "org": hide_org,
    "rst": hide_rst,
}
"""Format -> what hides its marks."""

"""What a site builder makes of a Markdown file: its marks disappear, and what they hold is text.

Shortcodes (Hugo, Jekyll, Docusaurus), fences and heads of admonitions, imports and elements of MDX, HTML and comments
become spaces, and rows of HTML tables become `cell | cell`, all of the same length: offsets and lines stay those of
the file. Code keeps every character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ragkit.load.shared.loader_utils import collapse_whitespace
from ragkit.load.shared.table_grid import TableCell, TableGrid
from ragkit.load.text.front_matter import blank_text
from ragkit.records import TABLE_LEVEL, Heading

HTML_ELEMENTS = (
    "a abbr address article aside b big blockquote body br button caption center cite code col colgroup dd del details "
    "dfn div dl dt em figcaption figure font footer h1 h2 h3 h4 h5 h6 header hr html i iframe img input ins kbd label "
    "li link main mark nav ol p picture pre q s samp section small source span strike strong sub summary sup table "
    "tbody td tfoot th thead tr tt u ul var video wbr"
)
"""Elements whose tags a reader does not see; others, such as `<name>`, are text of a manual."""
MAX_TAG_CHARS = 2_000

_FENCE = re.compile(r"[ \t>]{0,40}(?:[-*+][ \t]{1,4}|\d{1,3}[.)][ \t]{1,4})?(`{3,}|~{3,})")
_MARK = re.compile(
    r"(?P<code>(?<!`)`[^`\n]{1,1000}`(?!`)|``[^`\n]{1,1000}``)"
    r"|(?P<shortcode>\{\{[<%][^{}]{0,2000}+\}\}|\{%[^{}]{0,2000}+\})"
    r"|(?P<opened><!--|\{/\*|<(?:script|style|svg|template)(?=[\s>]))"
    r"|(?P<heading></?h(?P<level>[1-6])(?:\s[^<>]{0,500})?>)"
    rf"|(?P<tag></?(?:{HTML_ELEMENTS.replace(' ', '|')})(?:\s[^<>]{{0,{MAX_TAG_CHARS}}})?/?>)"
    r"|(?P<id>[ \t]\{[ ]?(?:[#.:]|id=|class=)[^{}\n]{1,200}\}(?=[ \t]*$)|^[ \t]*\{:[^{}\n]{1,200}\}[ \t]*$)"
    r"|(?P<nbsp>&nbsp;)",
    re.MULTILINE | re.IGNORECASE,
)
_COMPONENT = re.compile(r"</?[A-Z][\w.]{0,60}(?:\s[^<>]{0,2000})?/?>")
_ADMONITION = re.compile(
    r"^[ \t]*+(?:(?P<fence>:{3,}+)(?P<kind>[ \t]*+\{?+[\w-]{0,40}+\}?+)(?P<title>[^\n]{0,300}+)"
    r"|(?P<bang>!!!\+?|\?\?\?\+?|===[!+]?)[ \t]++(?P<names>[\w -]{0,80}+)(?P<quoted>\"[^\"\n]{0,300}\")?+[ \t]*+$"
    r"|(?P<alert>>[ \t]*\[!)(?P<word>\w{1,20})(?P<close>\][+-]?))",
    re.MULTILINE,
)
_MODULE_LINE = re.compile(r"^(?:import|export)[ \t][^\n]{0,500}+$", re.MULTILINE)
_SHOWN = re.compile(r"\b(?:title|caption|label|header|summary)\s?=\s?[\"']([^\"'\n]{1,300})[\"']")
_TABLE = re.compile(r"<(/?)table(?=[\s>])", re.IGNORECASE)
_CLOSING: Mapping[str, re.Pattern[str]] = {
    "<!--": re.compile("-->"),
    "{/*": re.compile(r"\*/\}"),
    "<script": re.compile("</script>", re.IGNORECASE),
    "<style": re.compile("</style>", re.IGNORECASE),
    "<svg": re.compile("</svg>", re.IGNORECASE),
    "<template": re.compile("</template>", re.IGNORECASE),
}
"""The start of a part that a published page does not show -> its end."""
_TABLE_TAG = re.compile(rf"<(/?)(thead|tbody|tr|td|th)((?:\s[^<>]{{0,{MAX_TAG_CHARS}}})?)/?>", re.IGNORECASE)
_SPAN = re.compile(r"(colspan|rowspan)\s{0,5}=\s{0,5}[\"']?(\d{1,4})", re.IGNORECASE)
_ANY_TAG = re.compile(rf"</?[A-Za-z][^<>]{{0,{MAX_TAG_CHARS}}}>|<!--[^<>]{{0,{MAX_TAG_CHARS}}}-->")


@dataclass(frozen=True, slots=True)
class SiteText:
    """A text of the same length without marks, and the column names of its HTML tables."""

    text: str
    headings: tuple[Heading, ...] = ()


def hide_markup(text: str, *, is_mdx: bool = False) -> SiteText:
    """The text as a reader of the site sees it; `is_mdx`: it has elements of its own, as a text that imports some."""
    if not any(mark in text for mark in ("<", "{", ":::", "!!!", "???", "===", "[!", "&nbsp;")):
        return SiteText(text)
    parts: list[str] = []
    headings: list[Heading] = []
    offset = 0
    is_mdx = is_mdx or any(_is_module_line(line[0]) for line in _MODULE_LINE.finditer(text))
    for part, is_code in _split_code(text):
        if is_code:
            parts.append(part)
        else:
            seen, names = _write_tables(part, offset)
            seen = _ADMONITION.sub(_hide_admonition, _hide_marks(seen))
            parts.append(_COMPONENT.sub(_keep_titles, _MODULE_LINE.sub(_hide_module_line, seen)) if is_mdx else seen)
            headings += names
        offset += len(part)
    return SiteText("".join(parts), tuple(headings))


def _write_tables(text: str, offset: int) -> tuple[str, list[Heading]]:
    """The text with the rows of its HTML tables as lines, and their column names."""
    parts: list[str] = []
    headings: list[Heading] = []
    done = 0
    opened: list[int] = []
    for tag in _TABLE.finditer(text):
        if not tag[1]:
            opened.append(tag.start())
        elif opened and len(opened) == 1:
            rows, names = _table_rows(text[opened[0] : tag.end()], offset + opened[0])
            parts += [text[done : opened[0]], rows]
            headings += names
            done = tag.end()
        opened = opened if not tag[1] else opened[:-1]
    return "".join([*parts, text[done:]]), headings


def _split_code(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, and whether each is fenced code."""
    kept: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        marker = _FENCE.match(line)
        if fence:
            kept.append(line)
            if marker and marker[1].startswith(fence) and not line[marker.end() :].strip():
                yield "".join(kept), True
                kept, fence = [], ""
            continue
        if marker and "`" not in line[marker.end() :]:
            yield "".join(kept), False
            kept, fence = [], marker[1]
        kept.append(line)
    yield "".join(kept), bool(fence)


def blank(found: re.Match[str]) -> str:
    """Spaces in place of what was found; its line breaks stay."""
    return blank_text(found[0])


def _is_module_line(line: str) -> bool:
    """Whether a line is an import or export of JavaScript: `import Tabs from '@theme/Tabs';`."""
    word, _, rest = line.rstrip(" \t\r;").partition(" ")
    if word == "export":
        return rest.split(" ", 1)[0] in ("const", "default", "let", "function")
    return rest.endswith(("'", '"')) and (rest.startswith(("'", '"')) or " from " in rest)


def _hide_module_line(found: re.Match[str]) -> str:
    return blank(found) if _is_module_line(found[0]) else found[0]


def _keep_titles(found: re.Match[str]) -> str:
    """Spaces, but for the words that a builder shows: `label="Linux"`."""
    shown = list(blank(found))
    for title in _SHOWN.finditer(found[0]):
        shown[title.start(1) : title.end(1)] = title[1]
    return "".join(shown)


def _hide_marks(text: str) -> str:
    parts: list[str] = []
    done, missing = 0, set[str]()
    while found := _MARK.search(text, done):
        parts.append(text[done : found.start()])
        name, done = (found["opened"] or "").lower(), found.end()
        closing = _CLOSING[name].search(text, done) if name and name not in missing else None
        if closing is not None:
            done = closing.end()
            parts.append(blank_text(text[found.start() : done]))
        elif name:
            missing.add(name)
            parts.append(found[0])
        else:
            parts.append(_hide_mark(found))
    return "".join([*parts, text[done:]])


def _hide_mark(found: re.Match[str]) -> str:
    if found["code"]:
        return found[0]
    if found["shortcode"]:
        return _keep_titles(found)
    if found["heading"] and not found[0].startswith("</"):
        return f"{'#' * int(found['level'])} ".ljust(len(found[0])) if "\n" not in found[0] else blank(found)
    return blank(found)


def _hide_admonition(found: re.Match[str]) -> str:
    """The title of an admonition, or the word for it, without its marks."""
    if found["fence"]:
        title = found["title"].strip().strip("[]")
        shown = title or found["kind"].strip(" \t{}")
        at = found[0].find(shown) if shown else 0
        return (" " * at + shown).ljust(len(found[0])) if len(shown) + at <= len(found[0]) else blank(found)
    if found["bang"]:
        shown = (found["quoted"] or "").strip('"') or found["names"].strip()
        at = found[0].find(shown) if shown else 0
        return (" " * at + shown).ljust(len(found[0]))
    return ">".ljust(len(found["alert"])) + found["word"] + " " * len(found["close"])


def _table_rows(markup: str, offset: int) -> tuple[str, list[Heading]]:
    """The rows of an HTML table, each on the line where it begins, and the column names above them."""
    grid = TableGrid()
    rows: list[tuple[int, int, str, str]] = []
    cells: list[tuple[TableCell, int]] = []
    row_start = -1
    for found in _TABLE_TAG.finditer(markup):
        is_end, tag = found[1] == "/", found[2].lower()
        if tag in ("thead", "tbody"):
            grid.in_head = tag == "thead" and not is_end
        elif tag in ("td", "th"):
            _end_cell(markup, cells, found.start())
            if not is_end:
                spans = {name.lower(): value for name, value in _SPAN.findall(found[3])}
                cells.append((TableCell.from_attributes(tag, spans), found.end()))
        else:
            _end_cell(markup, cells, found.start())
            if row_start >= 0 and cells:
                line, header = grid.add_row([cell for cell, _ in cells])
                rows.append((row_start, found.end() if is_end else found.start(), line, header))
            row_start, cells = (-1 if is_end else found.start()), []
    return _write_rows(markup, rows, offset)


def _end_cell(markup: str, cells: Sequence[tuple[TableCell, int]], end: int) -> None:
    if cells and not cells[-1][0].texts:
        cells[-1][0].texts.append(collapse_whitespace(_ANY_TAG.sub(" ", markup[cells[-1][1] : end])) or " ")


def _write_rows(markup: str, rows: Sequence[tuple[int, int, str, str]], offset: int) -> tuple[str, list[Heading]]:
    parts: list[str] = []
    headings: list[Heading] = []
    done = 0
    for start, end, line, header in rows:
        raw = markup[start:end]
        breaks = "".join(re.findall(r"[\r\n]", raw)) or "\u2028"  # several rows in one line of the file
        fits = len(line) + len(breaks) <= len(raw)
        parts.append(_ANY_TAG.sub(blank, markup[done:start]))
        parts.append(line.ljust(len(raw) - len(breaks)) + breaks if fits else _ANY_TAG.sub(blank, raw))
        last = offset + start + (len(line) if fits else len(raw))
        if header and headings and headings[-1].text == header[:1000]:
            headings[-1] = replace(headings[-1], end=last)
        elif header:
            headings.append(Heading(offset + start, TABLE_LEVEL, header[:1000], last))
        done = end
    return "".join([*parts, _ANY_TAG.sub(blank, markup[done:])]), headings

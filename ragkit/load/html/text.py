"""Extract the text of an HTML page: blocks in reading order, and the selection of the main content.

Works in one pass over the parser's events without a tree, so deep nesting costs nothing. Used by the loaders
`html`, `epub` and `eml`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from lxml import etree

from ragkit.load.html.selection import mark_forms, mark_other_articles, select_main_blocks
from ragkit.load.shared.access_field import FIELD, access_metadata, is_access_field
from ragkit.load.shared.layout_blocks import LayoutBlock, TextLayout, join_blocks
from ragkit.load.shared.list_numbers import format_number
from ragkit.load.shared.loader_utils import collapse_whitespace
from ragkit.load.shared.math_text import formula_text
from ragkit.load.shared.table_grid import TableCell, TableGrid
from ragkit.records import NO_METADATA, Metadata, Place


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


SKIPPED_TAGS = _word_set(
    "annotation annotation-xml applet audio button canvas datalist embed head iframe map math-annotation noframes "
    "noscript object script select style svg template textarea video"
)
"""Elements without readable text."""

BLOCK_TAGS = _word_set(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu nav ol p pre section summary table tbody "
    "tfoot thead tr td th ul"
)
"""Elements that start a new line."""

LIST_TAGS = ("ul", "ol", "menu", "dir")

DROPPED_CLASSES = _word_set("anchor-link gutter hash-link headerlink lineno linenos mw-editsection")
"""Classes of marks next to the text."""

MENU_CLASSES = _word_set(
    "banner bd-footer bd-header bd-sidebar breadcrumb breadcrumbs catlinks cookie-banner cookie-notice edit-link "
    "footer md-footer md-header md-sidebar menu nav navbar navbox navigation page-footer pagination prev-next-area "
    "printfooter related rst-footer-buttons sidebar site-footer site-header skip-link skip-to-content sphinxsidebar "
    "toc wy-breadcrumbs wy-nav-side"
)
"""Classes and ids of elements around the main content."""

_BESIDE_TEXT = re.compile(
    r"(?:^|[\s_-])(?:ad|ads|advert\w*|bio|biography|bookmarks?|breadcrumbs?|byline"
    r"|comments?(?:list|section|thread)?|consent|cookies?|disqus|dropdown|feedback|footer|gdpr|gform\w*|login|masthead"
    r"|mega-?menu|menu-?item|meta-?nav|most-?(?:popular|read|viewed)|navbar|newsletter|outbrain"
    r"|pag(?:er|ination)|popular|popup|promos?|promobar\w*|rail|recirc\w*|recommend\w*|related\w*|remark"
    r"|replies|share\w*|sharing|shoutbox|sidebar|signup|skyscraper|social\w*|sponsor\w*|sub-?nav|subscri\w*|taboola"
    r"|tags?|teaser|toolbar|tooltip|trending|(?<!elementor-)widget|wpcf7\w*)(?=$|[\s_-])"
)
"""Names of elements beside the text of a page: advertisements, links to other pages, comments, forms, the author."""

_NEVER_TEXT = re.compile(
    r"(?:^|[\s_-])(?:(?:about-)?author-?_?(?:area|bio|block|box|card|desc\w*|details|info|profile|section)|about-(?:the-)?author"
    r"|comments|comment-?list|comment-respond|consent|cookies?|disqus\w*|entry-(?:footer|meta)|gdpr"
    r"|(?:jp|latest|more|popular|recent|recommended|related)[-_]?(?:articles?|news|posts?|products|related-?posts|stories)"
    r"|modal-(?:body|content|dialog|footer|header)|newsletter\w*|outbrain|related[-_]?(?:content|items|links|pages|reading)"
    r"|post-(?:footer|meta|nav\w*)|share-?(?:bar|buttons?)|taboola|tbla|trc|yarpp\w*)(?=$|[\s_-])"
)
"""Names that no element with the text of the page has."""

_MAY_HOLD_TEXT = re.compile(r"article|body|column|content|main|post-text|entry|wrapper|container|layout|page")
"""Names of elements that can hold the text itself, whatever else their names say."""

_SECTION = re.compile(r"(?:^|\s)(?:section|sect\d)(?=$|\s)")
"""Classes of sections with a heading."""

_PLACED_TAGS = _word_set("aside body footer header html title")
"""Elements whose flags depend on those around them."""
_FLAG_ATTRIBUTES = frozenset({"role", "id", "style", "hidden"})
"""Attributes beside `class` that flags depend on."""
_MAX_CACHED_CLASS_CHARS = 200
_NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})

MENU_ROLES = _word_set("alertdialog banner contentinfo dialog menu menubar navigation search toolbar")

_HIDDEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|(?:font-size|opacity)\s*:\s*0(?![.\d]*[1-9])", re.I
)
_LIST_STYLE = re.compile(r"list-style(?:-type)?\s{0,9}:\s{0,9}([\w-]{1,30})")
_INVISIBLE_CHARS = re.compile("[\u00ad\u200b\u2060\ufeff]")
_NEWLINE = "\x00"
"""Represents `<br>` in the buffer; the parser never emits NUL."""


FLAGS = ("skip", "menu", "beside", "main", "article", "pre", "list", "title", "link")
"""What an open element can say about the text inside it."""


@dataclass(frozen=True, slots=True)
class PageText:
    """The content of a page."""

    layout: TextLayout
    title: str
    meta: Mapping[str, str]
    """`<meta name=...>` in lower case -> content; and `lang`."""
    access: Metadata
    """The field `access` of `<meta name="access">`, or of front matter; {} without."""


@dataclass(slots=True)
class _OpenElement:
    """An open element, and the flags that it set."""

    tag: str
    flags: tuple[str, ...]
    first: int
    """The number of its first block."""


@dataclass(slots=True)
class _TableRow:
    """An open table row."""

    cells: list[TableCell] = field(default_factory=list)
    cell: TableCell | None = None
    is_layout: bool = False
    """Its cells contain blocks: a layout table."""
    line: int = 0
    """Of its first text."""


class PageReader:
    """Collects blocks from the events of an lxml parser (`target=`)."""

    def __init__(self) -> None:
        self.blocks: list[LayoutBlock] = []
        self.title = ""
        self.meta: dict[str, str] = {}
        self.access = NO_METADATA
        self.articles: list[range] = []
        """The blocks of each `<article>`."""
        self.forms: list[range] = []
        """The blocks of each `<form>`."""
        self._open_elements: list[_OpenElement] = []
        self._flag_counts = dict.fromkeys(FLAGS, 0)
        self._buffer: list[str] = []
        self._kind_stack: list[tuple[str, int]] = [("p", 0)]
        self._row_stack: list[_TableRow] = []
        self._tables: list[TableGrid] = []
        self._bullet = ""
        self._lists: list[tuple[str, int, int]] = []
        """Numbering, next number and step of each open list; '' for bullets."""
        self._math: etree.TreeBuilder | None = None
        self.line = 0
        """The line of the file that is being parsed, from 1; 0: unknown."""
        self._text_run: list[str] = []
        self._run_line = 0
        self._text_line = 0
        self._link_chars = 0

    # Interface of lxml

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handle a start tag."""
        if self._text_run:
            self._locate_text()
        if tag == "math" or self._math is not None:
            self._math = self._math or etree.TreeBuilder()
            self._math.start(tag, dict(attributes or ()))
            return
        attributes = attributes or _NO_ATTRIBUTES  # that of lxml is slow
        flags = self._flags_for(tag, attributes)
        if tag == "meta":
            self._read_meta(attributes)
        elif tag == "html" and attributes.get("lang"):
            self.meta["lang"] = attributes["lang"]
        if (tag in BLOCK_TAGS or flags) and not self._flag_counts["skip"] and _starts_block(tag, flags):
            self._flush()
            self._begin_element(tag, attributes)
        elif tag == "br":
            self._buffer.append("\n" if self._flag_counts["pre"] else _NEWLINE)
        self._open_elements.append(_OpenElement(tag, flags, len(self.blocks)))
        for flag in flags:
            self._flag_counts[flag] += 1

    def end(self, tag: str) -> None:
        """Handle an end tag; closes the unclosed elements inside it."""
        if self._text_run:
            self._locate_text()
        if self._math is not None:
            self._math.end(tag)
            if tag == "math":
                formula, self._math = self._math.close(), None
                self.data(f" {formula_text(formula)} ")
            return
        while self._open_elements:
            last = self._open_elements.pop()
            if not last.flags and last.tag not in BLOCK_TAGS:
                if last.tag == tag:
                    return
                continue
            if self._flag_counts["skip"] == ("skip" in last.flags) and _starts_block(last.tag, last.flags):
                self._flush()
                self._end_element(last.tag)
                if last.tag in ("article", "form"):
                    ranges = self.articles if last.tag == "article" else self.forms
                    ranges.append(range(last.first, len(self.blocks)))
            for flag in last.flags:
                self._flag_counts[flag] -= 1
            if last.tag == tag:
                return

    def data(self, text: str) -> None:
        """Handle text."""
        if self._math is not None:
            self._math.data(text.strip())
            return
        if self._flag_counts["title"]:
            self.title += text
        elif not self._flag_counts["skip"]:
            self._buffer.append(text)
            if self._flag_counts["link"]:
                self._link_chars += len(collapse_whitespace(text))
            if not self._text_line:
                self._text_run.append(text)
                self._run_line = self.line

    def comment(self, text: str) -> None:
        """Ignore a comment."""

    def close(self) -> PageReader:
        """Handle the end of the page."""
        self._math = None
        while self._open_elements:
            self.end(self._open_elements[-1].tag)
        self._flush()
        self.title = _strip_invisible(self.title)
        return self

    # Elements

    def _flags_for(self, tag: str, attributes: Mapping[str, str]) -> tuple[str, ...]:
        names = attributes.get("class", "")
        if tag in _PLACED_TAGS or len(names) > _MAX_CACHED_CLASS_CHARS or not _FLAG_ATTRIBUTES.isdisjoint(attributes):
            flags = self._find_flags(tag, attributes)
        else:  # most elements: nothing but these two counts
            flags = _known_flags(tag, names)
        if tag == "a" and not (self._kind_stack[-1][0] == "h" and "#" in attributes.get("href", "#")):
            return (*flags, "link")  # a heading that links to itself is none
        return flags

    def _find_flags(self, tag: str, attributes: Mapping[str, str]) -> tuple[str, ...]:
        """The flags of an element, without `link`."""
        flags = []
        if (
            tag == "title"
            and not self.title
            and self._open_elements
            and self._open_elements[-1].tag in ("head", "html", "body")
        ):
            flags.append("title")
        if tag in SKIPPED_TAGS or (tag not in ("html", "body") and is_hidden(attributes)):
            flags.append("skip")
        if tag == "main" or attributes.get("role") == "main":
            flags.append("main")
        if tag == "article":
            flags.append("article")
        if not flags and self._is_menu(tag, attributes):
            flags.append("menu")
        elif not flags and _is_beside_text(tag, attributes):
            flags.append("beside")
        if tag == "pre":
            flags.append("pre")
        if tag in LIST_TAGS:
            flags.append("list")
        return tuple(flags)

    def _is_menu(self, tag: str, attributes: Mapping[str, str]) -> bool:
        if tag in ("html", "body"):
            return False
        role = attributes.get("role", "")
        if tag == "nav" or role in MENU_ROLES:
            return True
        outside = not self._flag_counts["main"] and not self._flag_counts["article"]
        if outside and (tag in ("header", "aside") or role == "complementary"):
            return True
        if tag == "footer" and all(element.tag != "blockquote" for element in self._open_elements):
            return True  # of an article too: its author, tags and neighbours; of a quotation: its source
        names = f"{attributes.get('class', '')} {attributes.get('id', '')}".lower().split()
        return any(name in MENU_CLASSES for name in names[:40])

    def _read_meta(self, attributes: Mapping[str, str]) -> None:
        name = (attributes.get("name") or attributes.get("property") or "").lower()
        content = collapse_whitespace(attributes.get("content", ""))
        if is_access_field(name):
            values = [content, *([self.access[FIELD]] if self.access else [])]
            self.access = access_metadata(values, f"line {self.line}")
        elif name and content and len(content) <= 1000 and len(self.meta) < 50:
            self.meta.setdefault(name, content)

    def _locate_text(self) -> None:
        """Find the line of the first text since the last block. The parser delivers text when a tag follows it."""
        if not self._text_run:
            return
        text = "".join(self._text_run)
        self._text_run.clear()
        if stripped := text.lstrip():
            self._text_line = self._run_line - stripped.count("\n")

    def _begin_element(self, tag: str, attributes: Mapping[str, str]) -> None:
        row = self._row_stack[-1] if self._row_stack else None
        if row and not row.is_layout and (tag in ("table", "pre") or _heading_level(tag)):
            self._convert_row_to_blocks(row)
        if tag == "table":
            self._tables.append(TableGrid())
        elif tag in ("thead", "tbody") and self._tables:
            self._tables[-1].in_head = tag == "thead"
        elif tag == "tr":
            self._row_stack.append(_TableRow())
        elif tag in ("td", "th") and row and not row.is_layout:
            row.cell = TableCell.from_attributes(tag, attributes)
        elif tag == "li":
            self._bullet = "  " * max(0, self._flag_counts["list"] - 1) + self._next_mark(attributes) + " "
        elif tag in LIST_TAGS:
            self._lists.append(_numbering(tag, attributes))
        elif tag in ("pre", "dt", "dd") or _heading_level(tag):
            self._kind_stack.append(("h" if _heading_level(tag) else tag, _heading_level(tag)))

    def _end_element(self, tag: str) -> None:
        row = self._row_stack[-1] if self._row_stack else None
        if tag == "tr" and row:
            self._row_stack.pop()
            if not row.is_layout and any(cell.text for cell in row.cells):
                grid = self._tables[-1] if self._tables else TableGrid()
                text, header = grid.add_row(row.cells)
                self._text_line = row.line
                self._add_block("row", text, header=header)
        elif tag == "table" and self._tables:
            self._tables.pop()
        elif tag == "thead" and self._tables:
            self._tables[-1].in_head = False
        elif tag in ("td", "th") and row and row.cell is not None:
            row.cells.append(row.cell)
            row.cell = None
        elif tag == "li":
            self._bullet = ""
        elif tag in LIST_TAGS and self._lists:
            self._lists.pop()
        elif (tag in ("pre", "dt", "dd") or _heading_level(tag)) and len(self._kind_stack) > 1:
            self._kind_stack.pop()

    def _next_mark(self, attributes: Mapping[str, str]) -> str:
        """The number of a list item with a full stop, or a bullet."""
        style, number, step = self._lists[-1] if self._lists else ("", 0, 0)
        if not style:
            return "-"
        number = _integer(attributes.get("value"), number)
        self._lists[-1] = style, number + step, step
        return f"{format_number(number, style)}."

    def _convert_row_to_blocks(self, row: _TableRow) -> None:
        """Mark a row as layout, and convert its cells to blocks."""
        row.is_layout = True
        self._text_line = self._text_line or row.line
        for cell in [*row.cells, *([row.cell] if row.cell else [])]:
            if cell.text:
                self._add_block("p", cell.text)
        row.cells, row.cell = [], None

    def _flush(self) -> None:
        """Convert the buffer to a block."""
        if not self._buffer:
            return
        raw, self._buffer = "".join(self._buffer), []
        if raw.isspace():
            return
        kind, level = self._kind_stack[-1]
        text = _normalize_preformatted(raw) if kind == "pre" else _normalize_lines(raw)
        if not text.strip():
            return
        row = self._row_stack[-1] if self._row_stack else None
        if row and row.cell is not None:
            row.cell.texts.append(text)
            row.line = row.line or self._text_line
            self._text_line = 0
        elif kind == "h":
            self._add_block("h", collapse_whitespace(text).rstrip(" ¶").rstrip(), level)
        elif kind in ("p", "dd") and self._flag_counts["list"]:
            bullet, self._bullet = self._bullet or "  " * self._flag_counts["list"], ""
            self._add_block("li", bullet + text.replace("\n", "\n" + " " * len(bullet)))
        else:
            self._add_block(kind, text)

    def _add_block(self, kind: str, text: str, level: int = 0, header: str = "") -> None:
        region = next((name for name in ("menu", "beside", "main", "article") if self._flag_counts[name]), "rest")
        place = Place(0, "line", self._text_line) if self._text_line else None
        share = min(1.0, self._link_chars / max(1, len(text)))
        self.blocks.append(LayoutBlock(kind, text, level, region, header, place, share))
        self._text_line = self._link_chars = 0


@lru_cache(maxsize=4096)
def _known_flags(tag: str, names: str) -> tuple[str, ...]:
    """The flags, without `link`, of an element outside `_PLACED_TAGS` with this `class` and no `_FLAG_ATTRIBUTES`."""
    return PageReader()._find_flags(tag, {"class": names} if names else {})


def _starts_block(tag: str, flags: Sequence[str]) -> bool:
    """Whether a new block begins with an element: not with a link, which stands in a line of text."""
    return tag in BLOCK_TAGS or any(flag != "link" for flag in flags)


def extract_page_text(page: PageReader, *, navigation: bool = False) -> PageText:
    """The text of a page.

    Args:
        page: the reader after `close`.
        navigation: keep menus, which are otherwise kept only when the page has nothing else.
    """
    if not navigation:
        mark_forms(page.blocks, page.forms)
        mark_other_articles(page.blocks, page.articles)
    layout = join_blocks(page.blocks if navigation else select_main_blocks(page.blocks))
    first = next((heading.text for heading in layout.headings if heading.level == 1), "")
    return PageText(layout, page.title or first, page.meta, page.access)


def _is_beside_text(tag: str, attributes: Mapping[str, str]) -> bool:
    """Whether the class or id of a block says that it stands beside the text."""
    if tag not in BLOCK_TAGS or tag in ("html", "body", "main", "article") or _heading_level(tag):
        return False
    names = attributes.get("class", "")[:1000].lower()
    # the id of a section is made from its heading: `<section id="cookies">`
    if tag not in ("section", "dt", "dd", "p", "li") and _SECTION.search(names) is None:
        names = f"{names} {attributes.get('id', '')[:1000].lower()}"
    if _NEVER_TEXT.search(names) is not None:
        return True
    return _BESIDE_TEXT.search(names) is not None and _MAY_HOLD_TEXT.search(names) is None


def is_hidden(attributes: Mapping[str, str]) -> bool:
    """Whether a reader does not see an element with these attributes."""
    if "hidden" in attributes and attributes["hidden"] != "until-found":
        return True
    if "style" in attributes and _HIDDEN_STYLE.search(attributes["style"][:2000]):
        return True
    return "class" in attributes and not DROPPED_CLASSES.isdisjoint(attributes["class"][:2000].split())


def _numbering(tag: str, attributes: Mapping[str, str]) -> tuple[str, int, int]:
    """The numbering of a list, its first number and its step."""
    if tag != "ol":
        return "", 0, 0
    found = _LIST_STYLE.search(attributes.get("style", "")[:2000])
    style = found[1].lower() if found else attributes.get("type", "") or "1"
    step = -1 if "reversed" in attributes else 1
    return "" if style in ("none", "disc", "circle", "square") else style, _integer(attributes.get("start"), 1), step


def _integer(value: str | None, default: int) -> int:
    return int(value) if value is not None and value.strip().isdecimal() and len(value) < 9 else default


def _heading_level(tag: str) -> int:
    return int(tag[1]) if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456" else 0


def _strip_invisible(text: str) -> str:
    return collapse_whitespace(text if text.isascii() else _INVISIBLE_CHARS.sub("", text))


def _normalize_lines(raw: str) -> str:
    return "\n".join(line for line in map(_strip_invisible, raw.split(_NEWLINE)) if line)


def _normalize_preformatted(raw: str) -> str:
    return raw.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\n").rstrip()

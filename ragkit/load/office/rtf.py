"""RTF, with striprtf."""

from __future__ import annotations

import re
import sys

from ragkit.errors import LoadError, MissingExtra
from ragkit.load.options import LOADER_VERSIONS
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.records import JSON, Document, Place

try:
    from striprtf.striprtf import rtf_to_text
except ImportError as error:
    raise MissingExtra("the loader 'rtf'", extra="office") from error

_BINARY = re.compile(r"\\bin(\d{1,9}) ?")
_HEX = re.compile(r"(?<=[\s}])[0-9a-fA-F\r\n]{512,}")
"""The data of pictures, which is long and holds no text."""
_PAGE_HEADER = re.compile(r"(\{\s*)\\(?:header|footer)[lrf]?(?![a-z])")
_BRACE = re.compile(r"\\[{}\\]|\{\s*\\footnote(?![a-z])|[{}]")
_STRAY_STAR = re.compile(r"(?<![{\\\s])\\\*")
"""A mark of unknown groups that stands inside a group: Word ignores it, striprtf drops the rest of the group. An empty
group takes its place, since digits after it would become digits of the number before it."""
_CELL_PARAGRAPH = re.compile(r"\\par\b ?(?=[\s{}]{0,20}\\(?:cell|nestcell)\b)")
"""The end of the last paragraph of a cell."""
_CODE = re.compile(r"\\\\|\\u(-?\d{5,})")
"""A backslash of the text, or a character by its number; surrogates are numbers of two halves."""
_PROPERTY = re.compile(r"\{\\(title|author|keywords)[ ]([^{}\\]{1,1000})\}")


class RtfLoader:
    """The paragraphs of a file; the cells of a row are separated by bars."""

    version = LOADER_VERSIONS["rtf"]

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError when it cannot be parsed."""
        raw = _HEX.sub("", _remove_binary(data.decode("latin-1")))
        raw = _move_footnotes(raw)
        raw = _CODE.sub(_known_code, raw)
        raw = _CELL_PARAGRAPH.sub("", raw)
        raw = _STRAY_STAR.sub("{}", _PAGE_HEADER.sub(r"\1\\par ", raw))
        try:
            text = str(rtf_to_text(raw, encoding="cp1252", errors="replace"))  # type: ignore[no-untyped-call]
        except (LookupError, ValueError, OverflowError, TypeError, AttributeError) as error:
            reason = f"invalid RTF ({collapse_whitespace(str(error))[:100]})"
            raise LoadError(source, reason, "open it in its program and save it again") from error
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        blocks: list[LayoutBlock] = []
        for number, line in enumerate(replace_invalid_chars(text).replace("\xad", "").split("\n"), start=1):
            cells = [collapse_whitespace(cell) for cell in line.split("|")]
            place = Place(0, "paragraph", number)
            text = " | ".join(cells).strip(" |")
            blocks.append(LayoutBlock("row" if len(cells) > 1 else "p", text, place=place))
        known: dict[str, JSON] = {key: collapse_whitespace(value) for key, value in _PROPERTY.findall(raw[:20_000])}
        title = str(known.pop("title", ""))
        return build_document("rtf", source, join_blocks(blocks), known, title)


def _known_code(match: re.Match[str]) -> str:
    """The number of a character, or that of the replacement character for one that is none; a backslash as it is."""
    digits = match[1]
    if not digits:
        return match[0]
    return match[0] if len(digits) <= 7 and -65_536 < int(digits) <= sys.maxunicode else r"\u65533"


def _remove_binary(raw: str) -> str:
    """Without the bytes that follow `\\bin`: they may look like groups."""
    kept: list[str] = []
    end = 0
    for match in _BINARY.finditer(raw):
        if match.start() >= end:
            kept.append(raw[end : match.start()])
            end = match.end() + int(match[1])
    return "".join([*kept, raw[end:]])


def _move_footnotes(raw: str) -> str:
    """With footnotes as paragraphs at the end: striprtf leaves them out."""
    kept: list[str] = []
    notes: list[str] = []
    depth = end = note_depth = 0
    for match in _BRACE.finditer(raw):
        brace = match[0]
        if brace[0] == "{":
            depth += 1
            if len(brace) > 1 and not note_depth:
                kept.append(raw[end : match.start()])
                note_depth, end = depth, match.end()
        elif brace == "}":
            if depth == note_depth:
                notes.append(raw[end : match.start()])
                note_depth, end = 0, match.end()
            depth -= 1
    if not notes or note_depth:
        return raw
    body, last, rest = raw[end:].rpartition("}")
    return "".join([*kept, body, *(f"{{\\par {note}}}" for note in notes), last, rest])

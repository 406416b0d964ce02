"""The words of text files that programs write for programs: drawings (DXF) and FrameMaker documents (MIF)."""

from __future__ import annotations

import re
from collections.abc import Iterator

_DRAWING = re.compile(r"\A(?:[ \t]*+999\r?\n[^\n]{0,300}\n){0,20}+[ \t]*+0\r?\n[ \t]*+SECTION\r?\n")
"""How a drawing begins: comments, then the first section; a line with the kind of a value, and one with the value."""
_LABELS = frozenset({"ATTDEF", "ATTRIB", "MTEXT", "TEXT"})
"""Parts of a drawing that are words: their value of kind 1, for long texts behind those of kind 3."""
_WORD = re.compile(r"[^\W\d_]{2}")
_LABEL_MARK = re.compile(r"\\[A-Za-z][^;\\{}\n]{0,60};|[{}]")
_FRAMEMAKER = "<MIFFile "
_FRAMEMAKER_PART = re.compile(r"<(?:(?P<start>Para\b)|String `(?P<text>[^'\n]{0,300}+)'>|Char (?P<sign>\w{1,20}))")
_SIGNS = {"HardReturn": "\n", "HardSpace": " ", "Tab": "\t"}
_ESCAPE = re.compile(r"\\x([0-9A-Fa-f]{2}) ?|\\(.)")
_ESCAPED = {"q": "'", "Q": "`", "t": "\t"}


def written_words(text: str) -> str | None:
    """The paragraphs or labels of such a file; None for any other text."""
    if text.startswith(_FRAMEMAKER):
        return "\n\n".join(_framemaker_paragraphs(text))
    return "\n".join(filter(_WORD.search, _drawing_labels(text))) if _DRAWING.match(text) else None


def _framemaker_paragraphs(text: str) -> Iterator[str]:
    paragraph: list[str] = []
    for part in _FRAMEMAKER_PART.finditer(text):
        if part["start"]:
            yield from filter(None, ["".join(paragraph).strip()])
            paragraph = []
        else:
            paragraph.append(_SIGNS.get(part["sign"], "") if part["sign"] else _ESCAPE.sub(_unescape, part["text"]))
    yield from filter(None, ["".join(paragraph).strip()])


def _unescape(found: re.Match[str]) -> str:
    return bytes.fromhex(found[1]).decode("mac_roman") if found[1] else _ESCAPED.get(found[2], found[2])


def _drawing_labels(text: str) -> Iterator[str]:
    lines = [*text.rstrip().splitlines(), "0", ""]
    part, label = "", ""
    for kind, value in zip(lines[::2], lines[1::2], strict=False):
        if kind.strip() == "0":
            yield _LABEL_MARK.sub("", label.replace("\\P", " ")).strip()
            part, label = value.strip(), ""
        elif part in _LABELS and (kind.strip() == "1" or (kind.strip() == "3" and part == "MTEXT")):
            label += value

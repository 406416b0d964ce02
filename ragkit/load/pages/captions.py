"""Captions of a PDF are paragraphs of their own. Independent of the PDF library."""

from __future__ import annotations

import re

from ragkit.load.pages.layout import PageLayout, PdfLine
from ragkit.load.pages.page import CAPTION

MAX_CAPTION_GAP = 0.6
"""White space inside a caption, at most, as a share of its height."""

_TITLE_BEHIND_SIGN = re.compile(r"[.:](?:\s|$)")
_TITLE = re.compile(r"[.:]?(?:$|\s*[-–—|(]|\s+[^\W_a-z])")
"""What follows the number of a caption: a sign, or words that begin in upper case; a sentence goes on in lower case."""
_FIRST_LETTERS = "TtFfLlAa"
"""Of captions, as in `CAPTION`."""


def mark_captions(page: PageLayout) -> None:
    """Captions of figures and tables begin and end a paragraph."""
    lines = page.lines
    caption: PdfLine | None = None
    for before, line in zip([None, *lines], lines, strict=False):
        if line.table or line.level:
            caption = None
        elif line.text and line.text[0] in _FIRST_LETTERS and _begins_caption(line, before):
            line.new_block, line.is_note, caption = True, True, line
        elif caption is not None and before is not None and (line.new_block or _leaves_caption(caption, before, line)):
            line.new_block, caption = True, None


def _begins_caption(line: PdfLine, before: PdfLine | None) -> bool:
    """Whether a line starts with `Figure 3:`; a sentence that goes on with `Figure 3 shows` does not."""
    found = CAPTION.match(line.text)
    if found is None:
        return False
    behind = line.text[found.end() :]
    if before is None or before.table or line.new_block:
        return _TITLE.match(behind) is not None
    return _TITLE_BEHIND_SIGN.match(behind) is not None and before.text[-1:] in ".:!?"


def _leaves_caption(caption: PdfLine, before: PdfLine, line: PdfLine) -> bool:
    """Whether a line is in another size than the caption above it, or below a gap."""
    if abs(line.height - caption.height) > 0.05 * caption.height:
        return True
    return line.top - before.bottom > MAX_CAPTION_GAP * line.height

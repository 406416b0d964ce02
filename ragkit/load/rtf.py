"""RTF, with striprtf."""

from __future__ import annotations

import re

from ragkit.errors import LoadError, MissingExtra
from ragkit.load.encoding import replace_invalid_chars
from ragkit.load.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.loader_utils import build_document, collapse_whitespace
from ragkit.load.options import LOADER_VERSIONS, RtfOptions
from ragkit.records import JSON, Document, Place

try:
    from striprtf.striprtf import rtf_to_text
except ImportError as error:
    raise MissingExtra("the loader 'rtf'", extra="office") from error

_BINARY = re.compile(r"\\bin\d+ ?|(?<=[\s}])[0-9a-fA-F\r\n]{512,}")
"""The data of pictures, which is long and holds no text."""
_PROPERTY = re.compile(r"\{\\(title|author|keywords)[ ]([^{}\\]{1,1000})\}")


class RtfLoader:
    """The paragraphs of a file; the cells of a row are separated by bars."""

    version = LOADER_VERSIONS["rtf"]

    def __init__(self, options: RtfOptions | None = None) -> None:
        self.options = options or RtfOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError when it cannot be parsed."""
        raw = _BINARY.sub("", data.decode("latin-1"))
        try:
            text = str(rtf_to_text(raw, encoding="cp1252", errors="replace"))  # type: ignore[no-untyped-call]
        except (LookupError, ValueError, TypeError, AttributeError) as error:
            reason = f"invalid RTF ({collapse_whitespace(str(error))[:100]})"
            raise LoadError(source, reason, "open it in its program and save it again") from error
        blocks: list[LayoutBlock] = []
        for number, line in enumerate(replace_invalid_chars(text).replace("\xad", "").split("\n"), start=1):
            cells = [collapse_whitespace(cell) for cell in line.split("|")]
            place = Place(0, "paragraph", number)
            text = " | ".join(cells).strip(" |")
            blocks.append(LayoutBlock("row" if len(cells) > 1 else "p", text, place=place))
        known: dict[str, JSON] = {key: collapse_whitespace(value) for key, value in _PROPERTY.findall(raw[:20_000])}
        title = str(known.pop("title", ""))
        return build_document("rtf", source, join_blocks(blocks), known, title)

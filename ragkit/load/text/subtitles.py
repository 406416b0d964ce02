"""Subtitles (WebVTT and SubRip): one line per cue, with its time as place."""

from __future__ import annotations

import html
import re

from ragkit.load.options import LOADER_VERSIONS, TextOptions
from ragkit.load.shared.encoding import decode_bytes
from ragkit.load.shared.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.records import JSON, Document, Place

_TIME = r"(?:(\d{1,3}):)?(\d{1,2}):(\d{1,2})[.,](\d{1,3})"
_CUE = re.compile(rf"\s*{_TIME}\s+-->\s+{_TIME}")
_VOICE = re.compile(r"<v(?:\.[^\s<>]{0,100})?[ \t]{1,10}([^<>]{1,100})>")
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>|<\d[\d:.]{0,20}>|\{\\[^{}]{0,100}\}")
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")


class SubtitlesLoader:
    """The words that are said, without numbers, times and markup; a repeated line is kept once."""

    version = LOADER_VERSIONS["subtitles"]

    def __init__(self, options: TextOptions | None = None) -> None:
        self.options = options or TextOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The cues of `data`; a file without any keeps its text."""
        decoded = decode_bytes(data, self.options.encoding)
        text = decoded.text.replace("\r\n", "\n").replace("\r", "\n")
        blocks: list[LayoutBlock] = []
        for cue in _BLANK_LINES.split(text):
            block = _read_cue(cue)
            if block is not None and not (blocks and blocks[-1].text == block.text):
                blocks.append(block)
        extra: dict[str, JSON] = {"encoding": decoded.legacy_encoding, "cues": len(blocks) or None}
        return build_document("subtitles", source, join_blocks(blocks) if blocks else text, extra)


def _read_cue(cue: str) -> LayoutBlock | None:
    """The line of one cue; None for a header, a note or a style."""
    lines = cue.split("\n")
    for number, line in enumerate(lines[:3]):
        times = _CUE.match(line)
        if times:
            start, end = _milliseconds(times.groups()[:4]), _milliseconds(times.groups()[4:])
            said = _VOICE.sub(r"\1: ", " ".join(lines[number + 1 :]))
            text = collapse_whitespace(html.unescape(_TAG.sub("", said)))
            return LayoutBlock("line", text, place=Place(0, "time", start, max(start, end))) if text else None
    return None


def _milliseconds(parts: tuple[str | None, ...]) -> int:
    hours, minutes, seconds, fraction = (part or "0" for part in parts)
    return 1000 * (3600 * int(hours) + 60 * int(minutes) + int(seconds)) + int(fraction.ljust(3, "0"))

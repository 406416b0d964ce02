"""Subtitles (WebVTT, SubRip and SBV): one line per cue, with its time as place."""

from __future__ import annotations

import html
import re

from ragkit.load.options import LOADER_VERSIONS, TextOptions
from ragkit.load.shared.encoding import DecodedText, decode_bytes
from ragkit.load.shared.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.records import JSON, Document, Place

_TIME = r"(?:(\d{1,3}):)?(\d{1,2}):(\d{1,2})[.,](\d{1,3})"
_CUE = re.compile(rf"\s*{_TIME}(?:\s+-->\s+|,){_TIME}")
_CUE_LINE = re.compile(rf"^{_TIME}(?:[ \t]{{1,9}}-->[ \t]{{1,9}}|,){_TIME}[ \t]{{0,9}}$", re.MULTILINE)
MIN_CUES = 4
"""Times of cues at the start of a text that make it subtitles, whatever its name."""
START_CHARS = 2000
_NOT_SAID = re.compile(r"(?:WEBVTT|NOTE|STYLE|REGION)\b|\s*\d{1,9}\s*\Z")
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
        return read_subtitles(decode_bytes(data, self.options.encoding), source)


def is_subtitles(text: str) -> bool:
    """Whether a text begins with cues."""
    return len(_CUE_LINE.findall(text[:START_CHARS].replace("\r", ""))) >= MIN_CUES


def read_subtitles(decoded: DecodedText, source: str) -> Document:
    """The document of subtitles."""
    text = decoded.text.replace("\r\n", "\n").replace("\r", "\n")
    blocks: list[LayoutBlock] = []
    for cue in _BLANK_LINES.split(text):
        block = _read_cue(cue)
        if block is not None and not (blocks and blocks[-1].text == block.text):
            blocks.append(block)
    cues = sum(block.place is not None for block in blocks)
    extra: dict[str, JSON] = {"encoding": decoded.legacy_encoding, "cues": cues or None}
    return build_document("subtitles", source, join_blocks(blocks) if cues else text, extra)


def _read_cue(cue: str) -> LayoutBlock | None:
    """The line of one cue, or a text between cues; None for a header, a note, a style or a number."""
    lines = cue.split("\n")
    for number, line in enumerate(lines[:3]):
        times = _CUE.match(line)
        if times:
            start, end = _milliseconds(times.groups()[:4]), _milliseconds(times.groups()[4:])
            said = _VOICE.sub(r"\1: ", " ".join(lines[number + 1 :]))
            text = collapse_whitespace(html.unescape(_TAG.sub("", said)))
            return LayoutBlock("line", text, place=Place(0, "time", start, max(start, end))) if text else None
    said = "" if _NOT_SAID.match(cue) else collapse_whitespace(cue)
    return LayoutBlock("line", said) if said else None


def _milliseconds(parts: tuple[str | None, ...]) -> int:
    hours, minutes, seconds, fraction = (part or "0" for part in parts)
    return 1000 * (3600 * int(hours) + 60 * int(minutes) + int(seconds)) + int(fraction.ljust(3, "0"))

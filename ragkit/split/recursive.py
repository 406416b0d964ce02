"""The default splitter: cuts each document along the structure that its format has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragkit.errors import InvalidOption
from ragkit.records import Document
from ragkit.split.base import CharSpan, TokenStartsFunction
from ragkit.split.code_segments import code_segments
from ragkit.split.options import SplitOptions
from ragkit.split.packing import pack_segments
from ragkit.split.prose import trim_span
from ragkit.split.segments import Segment, SegmentArray
from ragkit.split.structure import heading_blocks, markdown_blocks, structured_segments

_FIRST_SEPARATOR_COST = -200  # the cost of the first separator's border; each further one costs more
_SEPARATOR_COST_STEP = 200
_ROW_FORMATS = frozenset({"csv", "xlsx"})
"""Formats whose lines are rows: the last words of one mean little without the first."""


@dataclass(frozen=True)
class RecursiveOptions(SplitOptions):
    """The options of the default splitter. Raises InvalidOption for a value out of range."""

    separators: tuple[str, ...] = ()
    """Cut behind these, the first ones by preference, instead of by the document's structure; words and
    characters follow of themselves where none fits. Empty: headings, blocks, paragraphs, lines, sentences."""

    def __post_init__(self) -> None:
        super().__post_init__()
        listed = self.separators
        if isinstance(listed, str) or not all(isinstance(separator, str) for separator in listed):
            raise InvalidOption("separators", listed, "a list of strings")
        object.__setattr__(self, "separators", tuple(listed))


class RecursiveSplitter:
    """Markdown along headings, never inside a block that fits; code along definitions; other text along
    headings (where the loader found some), paragraphs, lines, sentences, words and characters, in this order."""

    def __init__(self, options: RecursiveOptions) -> None:
        self._options = options

    @property
    def max_chunk_tokens(self) -> int | None:
        """Most tokens of a chunk; None when characters are counted."""
        return self._options.max_chunk_tokens

    def spans(self, document: Document, token_starts: TokenStartsFunction, reserve: int = 0) -> Sequence[CharSpan]:
        """Where the chunks begin and end; see `Splitter`."""
        ruler, size = self._options.token_index(document, token_starts), self._options.chunk_limits(reserve)
        if self._options.separators:
            return pack_segments(
                SegmentArray.from_segments(_split_at_separators(document.text, self._options.separators)), ruler, size
            )
        if document.format == "code":
            return pack_segments(code_segments(document), ruler, size)
        blocks = markdown_blocks(document) if document.format == "markdown" else heading_blocks(document)
        units = structured_segments(ruler, blocks, size.max_tokens)
        if document.format in _ROW_FORMATS:
            units = replace(units, atomic=np.ones(len(units.starts), bool))
        return pack_segments(units, ruler, size)


def _split_at_separators(text: str, separators: Sequence[str]) -> Iterator[Segment]:
    """What lies between separators; each stays at the end of the piece before it."""
    ranks = {separator: rank for rank, separator in reversed(list(enumerate(separators))) if separator}
    either = re.compile("|".join(re.escape(separator) for separator in sorted(ranks, key=lambda one: ranks[one])))
    start, cost = 0, _FIRST_SEPARATOR_COST
    for found in either.finditer(text) if ranks else ():
        following = _FIRST_SEPARATOR_COST + _SEPARATOR_COST_STEP * ranks[found.group()]
        piece = trim_span(text, (start, found.end()))
        if piece[0] == piece[1]:  # nothing but separators since the last one: the stronger border counts
            cost = min(cost, following)
        else:
            yield Segment(*piece, cost)
            cost = following
        start = found.end()
    piece = trim_span(text, (start, len(text)))
    if piece[0] < piece[1]:
        yield Segment(*piece, cost)

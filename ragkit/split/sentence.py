"""Whole sentences, one border as good as the next: no headings, no paragraphs."""

from __future__ import annotations

from collections.abc import Sequence

from ragkit.records import Document
from ragkit.split.base import Span, TokenStarts
from ragkit.split.options import SplitOptions
from ragkit.split.pack import pack
from ragkit.split.sentences import sentence_spans
from ragkit.split.units import Piece, Units


class SentenceSplitter:
    """Packs sentences; one that is longer than a chunk is cut at clauses, words and characters."""

    def __init__(self, options: SplitOptions) -> None:
        self._options = options

    @property
    def chunk_tokens(self) -> int | None:
        """Most tokens of a chunk; None when characters are counted."""
        return self._options.chunk_tokens

    def spans(self, document: Document, token_starts: TokenStarts, reserve: int = 0) -> Sequence[Span]:
        """Where the chunks begin and end; see `Splitter`."""
        ruler, size = self._options.ruler(document, token_starts), self._options.size(reserve)
        return pack(Units.of(Piece(*sentence, cost=0) for sentence in sentence_spans(document.text)), ruler, size)

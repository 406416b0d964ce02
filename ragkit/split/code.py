"""Every document as source code, whatever format its loader took it for."""

from __future__ import annotations

from collections.abc import Sequence

from ragkit.records import Document
from ragkit.split.base import Span, TokenStarts
from ragkit.split.options import SplitOptions
from ragkit.split.pack import pack
from ragkit.split.source import code_units


class CodeSplitter:
    """Cuts before definitions by preference, then at blank lines, then where lines are indented least."""

    def __init__(self, options: SplitOptions) -> None:
        self._options = options

    @property
    def chunk_tokens(self) -> int | None:
        """Most tokens of a chunk; None when characters are counted."""
        return self._options.chunk_tokens

    def spans(self, document: Document, token_starts: TokenStarts, reserve: int = 0) -> Sequence[Span]:
        """Where the chunks begin and end; see `Splitter`."""
        ruler, size = self._options.ruler(document, token_starts), self._options.size(reserve)
        return pack(code_units(document), ruler, size)

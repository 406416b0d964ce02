"""Token counts of any span of a text, from its token starts; and a token estimate that needs no embedder."""

from __future__ import annotations

import re
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragkit.split.base import TokenStartsFunction

OffsetArray: TypeAlias = NDArray[np.int64]

MAX_TOKEN_CHARS = 32
"""Maximum length of a token. A tokenizer may map a word of a million letters to one unknown token; each further 32
characters without a token start count as one more token, which bounds the length of a chunk."""

_BLOCK = 1 << 16
_EAST_ASIAN = "\u2e80-\u2fdf\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD_PIECE = re.compile(rf"[^\W{_EAST_ASIAN}]{{1,8}}|[^\s]")
_IS_WHITESPACE = np.array([chr(code).isspace() for code in range(0x3002)])
"""By code point; no character from the last one on is white space."""


def estimate_token_starts(text: str) -> OffsetArray:
    """Estimated token starts, without a model; close to a word-piece tokenizer on prose.

    A word has one token per 8 letters or digits, rounded up; each punctuation mark and each Chinese or Japanese
    character is a token.
    """
    return np.fromiter((piece.start() for piece in _WORD_PIECE.finditer(text)), np.int64)


class TokenIndex:
    """Token counts of the spans of a text, by binary search."""

    def __init__(self, text: str, token_starts: TokenStartsFunction) -> None:
        self.text = text
        self.code_points: NDArray[np.uint32] = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        starts = np.asarray(token_starts(text), np.int64)
        self._starts = _fill_long_gaps(self._skip_leading_whitespace(starts), len(text))

    def token_counts_before(self, offsets: OffsetArray) -> OffsetArray:
        """The number of tokens that start before each offset; the tokens of [a, b) are the difference."""
        return np.searchsorted(self._starts, offsets).astype(np.int64)

    def token_count_before(self, offset: int) -> int:
        """`token_counts_before` for one offset."""
        return int(np.searchsorted(self._starts, offset))

    def offset_after(self, tokens: int) -> int:
        """The first token start with at least `tokens` tokens before it; the end of the text if there is none."""
        if tokens <= 0 or tokens > len(self._starts):
            return self.offset_within(max(0, tokens))
        # several tokens may share a start (bytes of one character)
        return self.offset_within(int(np.searchsorted(self._starts, self._starts[tokens - 1], "right")))

    def offset_within(self, tokens: int) -> int:
        """The last token start with at most `tokens` tokens before it; the end of the text if there are no more."""
        return int(self._starts[tokens]) if tokens < len(self._starts) else len(self.text)

    def _skip_leading_whitespace(self, starts: OffsetArray) -> OffsetArray:
        """Move token starts from the space before a word, where some tokenizers place them, to the word."""
        if not len(starts) or not _are_whitespace(self.code_points[starts]).any():
            return starts
        visible = np.flatnonzero(~_are_whitespace(self.code_points))
        if not len(visible):
            return starts
        word = np.append(visible, len(self.text))[np.searchsorted(visible, starts)]
        next_start = np.append(starts[1:], len(self.text))
        return np.where(word < next_start, word, starts)


def _are_whitespace(code_points: NDArray[np.uint32]) -> NDArray[np.bool_]:
    result = np.empty(len(code_points), bool)
    for first in range(0, len(code_points), _BLOCK):  # `take` makes an index of 8 bytes for each character
        block = slice(first, first + _BLOCK)
        _IS_WHITESPACE.take(np.minimum(code_points[block], len(_IS_WHITESPACE) - 1), out=result[block])
    return result


def _fill_long_gaps(starts: OffsetArray, length: int) -> OffsetArray:
    """The starts, plus one for every MAX_TOKEN_CHARS characters without a start."""
    edges = np.concatenate([[0], starts, [length]])
    gaps = edges[1:] - edges[:-1]
    if gaps.max() <= MAX_TOKEN_CHARS:
        return starts
    missing = np.maximum((gaps - 1) // MAX_TOKEN_CHARS, 0)
    owners = np.repeat(edges[:-1], missing)
    firsts = np.repeat(np.cumsum(missing) - missing, missing)
    extra = owners + MAX_TOKEN_CHARS * (np.arange(len(owners)) - firsts + 1)
    return np.sort(np.concatenate([starts, extra]), kind="stable")

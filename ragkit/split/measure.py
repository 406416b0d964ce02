"""How long a piece of text is: token counts of any span from one list of token starts.

Also holds the measure that is used where no embedder is at hand. Cuts nothing.
"""

from __future__ import annotations

import re
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragkit.split.base import TokenStarts

Offsets: TypeAlias = NDArray[np.int64]

LONGEST_TOKEN = 32
"""Characters that one token may stand for. A tokenizer may call a word of a million letters one unknown token;
here every further 32 characters without a token start count as one more, so that no chunk grows without bound."""

_EAST_ASIAN = "\u2e80-\u2fdf\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD_PIECE = re.compile(rf"[^\W{_EAST_ASIAN}]{{1,8}}|[^\s]")
_WHITE_SPACE = np.array([code for code in range(0x3001) if chr(code).isspace()], np.uint32)


def word_piece_starts(text: str) -> Offsets:
    """A measure that needs no model: near to what a word-piece tokenizer finds in prose.

    A word of up to 8 letters or digits is one token, a longer one a token for every 8; so is each
    punctuation mark and each Chinese or Japanese character.
    """
    return np.fromiter((piece.start() for piece in _WORD_PIECE.finditer(text)), np.int64)


class Ruler:
    """Counts the tokens of any span of one text, by binary search."""

    def __init__(self, text: str, token_starts: TokenStarts) -> None:
        self.text = text
        self.codes: NDArray[np.uint32] = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        starts = np.asarray(token_starts(text), np.int64)
        self._starts = _with_long_gaps_filled(self._behind_white_space(starts), len(text))

    def tokens_before(self, offsets: Offsets) -> Offsets:
        """How many tokens start before each offset: the tokens of [a, b) are the difference of b's and a's."""
        return np.searchsorted(self._starts, offsets).astype(np.int64)

    def count_before(self, offset: int) -> int:
        """`tokens_before` of one offset."""
        return int(np.searchsorted(self._starts, offset))

    def offset_after(self, tokens: int) -> int:
        """The first token start with at least `tokens` tokens before it; the end of the text if there is none."""
        if tokens <= 0 or tokens > len(self._starts):
            return self.offset_within(max(0, tokens))
        # several tokens may share a start: the bytes of one character
        return self.offset_within(int(np.searchsorted(self._starts, self._starts[tokens - 1], "right")))

    def offset_within(self, tokens: int) -> int:
        """The last token start with at most `tokens` tokens before it; the end of the text if they are no more."""
        return int(self._starts[tokens]) if tokens < len(self._starts) else len(self.text)

    def _behind_white_space(self, starts: Offsets) -> Offsets:
        """Some tokenizers let a word's token begin at the space before it: move it to the word."""
        if not len(starts) or not np.isin(self.codes[starts], _WHITE_SPACE).any():
            return starts
        visible = np.flatnonzero(~np.isin(self.codes, _WHITE_SPACE))
        if not len(visible):
            return starts
        place = np.searchsorted(visible, starts)
        word = np.append(visible, len(self.text))[place]
        next_start = np.append(starts[1:], len(self.text))
        return np.where(word < next_start, word, starts)


def _with_long_gaps_filled(starts: Offsets, length: int) -> Offsets:
    """The starts, and one more for every LONGEST_TOKEN characters in which none lies."""
    edges = np.concatenate([[0], starts, [length]])
    missing = (np.diff(edges) - 1) // LONGEST_TOKEN
    np.maximum(missing, 0, out=missing)
    if not missing.any():
        return starts
    owners = np.repeat(edges[:-1], missing)
    firsts = np.repeat(np.cumsum(missing) - missing, missing)
    extra = owners + LONGEST_TOKEN * (np.arange(len(owners)) - firsts + 1)
    return np.sort(np.concatenate([starts, extra]), kind="stable")

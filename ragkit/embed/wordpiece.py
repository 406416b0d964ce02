"""The tokenizer of the bundled models. Adapts the package `tokenizers`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from ragkit.embed.base import replace_surrogates

MAX_TEXT_CHARS = 30_000
"""Characters of a text that are tokenized for a vector: more than 254 tokens of at most 100 characters."""
OFFSET_PIECE_CHARS = 8_192
"""Characters tokenized at once for offsets. The tokenizer needs about 160 bytes per character."""
OFFSET_BATCH_PIECES = 16

_LAST_SPACE = re.compile(r"\s(?=\S*\Z)")


class WordPieceTokenizer:
    """Token ids and token offsets of texts. Thread-safe."""

    def __init__(self, settings: bytes, max_tokens: int) -> None:
        self._tokenizer = Tokenizer.from_buffer(settings)
        # "[SEP]" in a text is plain text, not a special token
        self._tokenizer.encode_special_tokens = True
        self._max_tokens = max_tokens

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of every text, including special tokens, truncated to `max_tokens`."""
        encodings = self._tokenizer.encode_batch_fast([replace_surrogates(text[:MAX_TEXT_CHARS]) for text in texts])
        return [self._truncate(encoding.ids) for encoding in encodings]

    def _truncate(self, ids: list[int]) -> list[int]:
        return ids if len(ids) <= self._max_tokens else [*ids[: self._max_tokens - 1], ids[-1]]

    def token_starts(self, text: str) -> NDArray[np.int64]:
        """Character offset of each token: (n_tokens,), non-decreasing, in [0, len(text))."""
        offsets: list[NDArray[np.int64]] = []
        pieces = list(_split_pieces(replace_surrogates(text)))
        for first in range(0, len(pieces), OFFSET_BATCH_PIECES):
            batch = pieces[first : first + OFFSET_BATCH_PIECES]
            encodings = self._tokenizer.encode_batch([piece for _, piece in batch], add_special_tokens=False)
            for (offset, _), encoding in zip(batch, encodings, strict=True):
                offsets.append(np.array([start for start, _ in encoding.offsets], np.int64) + offset)
        return np.concatenate(offsets) if offsets else np.empty(0, np.int64)


def _split_pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield (offset, piece): pieces of at most OFFSET_PIECE_CHARS characters, split at white space if possible."""
    start = 0
    while start < len(text):
        piece = text[start : start + OFFSET_PIECE_CHARS]
        if start + OFFSET_PIECE_CHARS < len(text) and (space := _LAST_SPACE.search(piece)):
            piece = piece[: space.end()]
        yield start, piece
        start += len(piece)

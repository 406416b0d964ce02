"""The tokenizer of the shipped model. Adapts the package `tokenizers`; knows nothing of vectors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

MAX_TEXT_CHARS = 30_000
"""Characters of one text that are looked at for a vector: more than the model can read (254 tokens of at most 100)."""
OFFSET_PIECE_CHARS = 8_192
"""Characters that are tokenised in one go for offsets. The tokenizer needs about 160 bytes a character."""
OFFSET_BATCH_PIECES = 16

_SURROGATE = re.compile("[\ud800-\udfff]")
_LAST_SPACE = re.compile(r"\s(?=\S*\Z)")


def replace_surrogates(text: str) -> str:
    """The text with every lone surrogate, which UTF-8 cannot hold, replaced by U+FFFD. Offsets stay the same."""
    return _SURROGATE.sub("\ufffd", text)


class WordPieceTokenizer:
    """Token ids and token offsets of texts. Safe to call from several threads."""

    def __init__(self, settings: bytes, max_tokens: int) -> None:
        self._tokenizer = Tokenizer.from_buffer(settings)
        # "[SEP]" in a text is three characters and a word, never a command to the model
        self._tokenizer.encode_special_tokens = True
        self._max_tokens = max_tokens

    def token_ids(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Token ids of every text, special tokens included, at most `max_tokens`; and how many texts were cut."""
        shown = [replace_surrogates(text[:MAX_TEXT_CHARS]) for text in texts]
        rows: list[list[int]] = []
        cut = 0
        for text, encoding in zip(texts, self._tokenizer.encode_batch_fast(shown), strict=True):
            ids: list[int] = encoding.ids
            if len(ids) > self._max_tokens:
                ids = [*ids[: self._max_tokens - 1], ids[-1]]
                cut += 1
            elif len(text) > MAX_TEXT_CHARS:
                cut += 1
            rows.append(ids)
        return rows, cut

    def token_starts(self, text: str) -> NDArray[np.int64]:
        """Character offset of each token's start: (n_tokens,), never falling, in [0, len(text))."""
        found: list[NDArray[np.int64]] = []
        pieces = list(_split_pieces(replace_surrogates(text)))
        for first in range(0, len(pieces), OFFSET_BATCH_PIECES):
            batch = pieces[first : first + OFFSET_BATCH_PIECES]
            encodings = self._tokenizer.encode_batch([piece for _, piece in batch], add_special_tokens=False)
            for (offset, _), encoding in zip(batch, encodings, strict=True):
                found.append(np.array([start for start, _ in encoding.offsets], np.int64) + offset)
        return np.concatenate(found) if found else np.empty(0, np.int64)


def _split_pieces(text: str) -> Iterator[tuple[int, str]]:
    """The text in pieces of at most PIECE characters with their offsets, cut at white space where there is any."""
    start = 0
    while start < len(text):
        piece = text[start : start + OFFSET_PIECE_CHARS]
        if start + OFFSET_PIECE_CHARS < len(text) and (space := _LAST_SPACE.search(piece)):
            piece = piece[: space.end()]
        yield start, piece
        start += len(piece)

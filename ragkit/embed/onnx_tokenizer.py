"""Tokenizers of models that are not shipped. Adapts the package `tokenizers`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from ragkit.embed.base import replace_surrogates
from ragkit.embed.onnx_folder import OnnxFolder
from ragkit.errors import InvalidOption

Ids = list[int]

_MIN_CHARS = 30_000
_CHARS_PER_TOKEN = 20
"""Characters of a text that are tokenized for a vector."""
_PIECE_CHARS = 8_192
"""Characters tokenized at once for offsets. The tokenizer needs about 160 bytes per character."""
_BATCH_PIECES = 16
_LAST_SPACE = re.compile(r"\s(?=\S*\Z)")


class TextTokenizer:
    """Token ids and token offsets of texts. Thread-safe."""

    def __init__(self, whole: Tokenizer, cutting: Tokenizer, max_tokens: int) -> None:
        """`whole` gives offsets, `cutting` ids, which it may truncate."""
        self._whole, self._cutting = whole, cutting
        # "[SEP]" in a text is plain text, not a special token
        self._whole.encode_special_tokens = self._cutting.encode_special_tokens = True
        self._max_chars = max(_MIN_CHARS, max_tokens * _CHARS_PER_TOKEN)

    def token_ids(self, texts: Sequence[str]) -> list[Ids]:
        """Token ids of every text, including special tokens."""
        encodings = self._cutting.encode_batch_fast([self._cut(text) for text in texts])
        return [encoding.ids for encoding in encodings]

    def pair_ids(self, first: str, others: Sequence[str]) -> list[tuple[Ids, Ids]]:
        """(token ids, types of the tokens) of `first` with each of the others, truncated to the limit."""
        pairs = [(self._cut(first), self._cut(other)) for other in others]
        return [(encoding.ids, encoding.type_ids) for encoding in self._cutting.encode_batch(pairs)]

    def token_starts(self, text: str) -> NDArray[np.int64]:
        """Character offset of each token: (n_tokens,), non-decreasing, in [0, len(text))."""
        offsets: list[NDArray[np.int64]] = []
        pieces = list(_split_pieces(replace_surrogates(text)))
        for first in range(0, len(pieces), _BATCH_PIECES):
            batch = pieces[first : first + _BATCH_PIECES]
            encodings = self._whole.encode_batch([piece for _, piece in batch], add_special_tokens=False)
            for (offset, _), encoding in zip(batch, encodings, strict=True):
                offsets.append(np.array([start for start, _ in encoding.offsets], np.int64) + offset)
        return np.concatenate(offsets) if offsets else np.empty(0, np.int64)

    def _cut(self, text: str) -> str:
        return replace_surrogates(text[: self._max_chars])


class FolderTokenizer(TextTokenizer):
    """The tokenizer of a folder: ids are truncated to the limit of the model."""

    def __init__(self, folder: OnnxFolder, max_tokens: int, option: str) -> None:
        """Raises InvalidOption."""
        path = folder.path / "tokenizer.json"
        try:
            whole, cutting = Tokenizer.from_file(str(path)), Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises bare exceptions
            raise InvalidOption(option, str(path), f"the tokenizer of a model ({error})") from error
        cutting.no_padding()
        cutting.enable_truncation(max_tokens)
        super().__init__(whole, cutting, max_tokens)


def _split_pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield (offset, piece): pieces of at most _PIECE_CHARS characters, split at white space if possible."""
    start = 0
    while start < len(text):
        piece = text[start : start + _PIECE_CHARS]
        if start + _PIECE_CHARS < len(text) and (space := _LAST_SPACE.search(piece)):
            piece = piece[: space.end()]
        yield start, piece
        start += len(piece)

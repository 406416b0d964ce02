"""The tokenizer of the bundled models: BERT's word pieces, with the ids and offsets of the package `tokenizers`.

A text is split into words at white space, punctuation and ideographs; each word is decomposed, loses its accents and
control characters, changes to lower case, and is cut into the longest pieces of the vocabulary, from the left. Most
words of a text have occurred before, so that a word costs one look-up.

One difference is left: `tokenizers` sorts combining marks, also 83 rare ones that it does not remove (U+08D4 to U+08E1,
U+302E, U+A9C0, ...). A word that begins with several marks, with one of these among them, may begin at another of these
marks there. Its ids are the same.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain
from operator import itemgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragkit.embed import bert_characters

MAX_TEXT_CHARS = 30_000
"""Characters of a text that are tokenized for a vector: more than 254 tokens of at most 100 characters."""

Pieces: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""The token ids of a word, and the offset of each token in the word."""

_PART_CHARS = 50_000
"""Offsets are computed for so many characters at once, up to the next boundary, at most twice as many."""
_CHARS_PER_TOKEN = 6
"""More than the mean of most texts, so that the ids of a long text need few steps."""
_MAX_WORDS, _MAX_WORD_CHARS = 32_768, 48
"""Words that are kept, about 300 bytes each."""
_MAX_CHARACTERS = 16_384
_AT_ONCE = (0,)
"""The offsets of a word of one token, shared to save memory."""
_NORMALIZER = {
    "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True
}  # fmt: skip
_SPLITTER = {
    "type": "Sequence",
    "pretokenizers": [
        {"type": "BertPreTokenizer"},
        {"type": "Split", "pattern": {"Regex": ".{100}"}, "behavior": "Isolated", "invert": False},
    ],
}
_WORD = re.compile("[^ ]{1,100}")
"""A word of a normalized text. Longer words are cut, which bounds the time for a word."""


class WordPieceTokenizer:
    """Token ids and token offsets of texts. Thread-safe."""

    def __init__(self, settings: bytes, max_tokens: int) -> None:
        """`settings`: the content of a tokenizer.json. Raises ValueError for another tokenizer than BERT's."""
        self._first, self._last, self._words = _read_settings(settings)
        self._max_tokens = max_tokens

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of every text, including special tokens, truncated to `max_tokens`."""
        return [self._ids(text[:MAX_TEXT_CHARS]) for text in texts]

    def token_starts(self, text: str) -> NDArray[np.int64]:
        """Character offset of each token: (n_tokens,), non-decreasing, in [0, len(text))."""
        parts = [self._starts(part, offset) for offset, part in _split(text, _PART_CHARS)]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _ids(self, text: str) -> list[int]:
        ids, find = [self._first], self._words.__getitem__
        for _, part in _split(text, self._max_tokens * _CHARS_PER_TOKEN):
            ids += chain.from_iterable(map(itemgetter(0), map(find, _word_pattern().findall(part))))
            if len(ids) >= self._max_tokens:
                del ids[self._max_tokens - 1 :]
                break
        ids.append(self._last)
        return ids

    def _starts(self, text: str, offset: int) -> NDArray[np.int64]:
        parts = _words_and_gaps_pattern().split(text)  # gap, word, gap, ..., gap: faster than an object for each match
        words = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))[:-1:2]
        starts = list(map(itemgetter(1), map(self._words.__getitem__, parts[1::2])))
        counts = np.fromiter(map(len, starts), np.int64, len(starts))
        return np.repeat(words + offset, counts) + np.fromiter(chain.from_iterable(starts), np.int64)


class _WordCache(dict[str, Pieces]):
    """The pieces of words, computed when a word is first looked up. Bounded."""

    def __init__(self, vocabulary: dict[str, int], unknown: str) -> None:
        super().__init__()
        self._unknown: Pieces = (vocabulary[unknown],), _AT_ONCE
        self._first = _Entries(vocabulary)
        self._further = _Entries({piece[2:]: number for piece, number in vocabulary.items() if piece.startswith("##")})
        self._characters = _CharacterCache()

    def __missing__(self, word: str) -> Pieces:
        is_plain = word.isascii() and word.isalnum() and len(word) <= _MAX_WORD_CHARS
        pieces = self._pieces(word.lower()) if is_plain else self._normalized_pieces(word)
        if len(word) <= _MAX_WORD_CHARS:
            if len(self) >= _MAX_WORDS:
                self.clear()
            self[word] = pieces
        return pieces

    def _normalized_pieces(self, word: str) -> Pieces:
        """The pieces of a word with any characters. Normalized, it may be several words, or none."""
        parts = list(map(self._characters.__getitem__, word))
        text = "".join(parts)
        if len(text) == len(parts) <= _MAX_WORD_CHARS and "" not in parts and " " not in text:
            return self._pieces(text)
        found = [(match.start(), self._pieces(match[0])) for match in _WORD.finditer(text)]
        origins = [place for place, part in enumerate(parts) for _ in part]
        return (
            tuple(number for _, (ids, _) in found for number in ids),
            tuple(origins[first + start] for first, (_, starts) in found for start in starts),
        )

    def _pieces(self, word: str) -> Pieces:
        """The pieces of a normalized word."""
        ids: list[int] = []
        starts: list[int] = []
        entries, start, size = self._first, 0, len(word)
        while start < size:
            for end in range(min(size, start + entries.longest), start, -1):
                number = entries.numbers.get(word[start:end])
                if number is not None:
                    break
            else:
                return self._unknown
            ids.append(number)
            starts.append(start)
            entries, start = self._further, end
        return tuple(ids), tuple(starts) if len(starts) > 1 else _AT_ONCE


class _Entries:
    """Numbers of pieces, and the length of the longest piece."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self.numbers = numbers
        self.longest = max(map(len, numbers), default=0)


class _CharacterCache(dict[str, str]):
    """What characters become: nothing, a space, or text with spaces around words. Bounded."""

    def __missing__(self, character: str) -> str:
        if len(self) >= _MAX_CHARACTERS:
            self.clear()
        self[character] = normal = _normalize(character)
        return normal


@lru_cache(maxsize=2)
def _read_settings(settings: bytes) -> tuple[int, int, _WordCache]:
    """The ids of the first and last token of a text, and the words: shared by `minilm` and `static`."""
    values = json.loads(settings)
    if values["normalizer"] != _NORMALIZER or values["pre_tokenizer"] != _SPLITTER:
        raise ValueError("tokenizer.json must be of an uncased BERT model whose words are cut after 100 characters")
    special = values["post_processor"]["special_tokens"]
    words = _WordCache(values["model"]["vocab"], values["model"]["unk_token"])
    return special["[CLS]"]["ids"][0], special["[SEP]"]["ids"][0], words


def _normalize(character: str) -> str:
    if _is_in(character, "REMOVED"):
        return ""
    if _is_in(character, "WHITESPACE"):
        return " "
    normal = _lower_case().get(character, character)
    if _is_in(character, "CHANGED"):
        decomposed = unicodedata.normalize("NFD", character)
        normal = "".join(part.lower() for part in decomposed if not _is_in(part, "REMOVED"))
    normal = "".join(f" {part} " if _is_in(part, "PUNCTUATION") else part for part in normal)
    return f" {normal} " if _is_in(character, "IDEOGRAPHS") else normal


def _is_in(character: str, table: str) -> bool:
    """Whether a table of `bert_characters` has a character."""
    firsts, lasts = _ranges(table)
    place = bisect_right(firsts, ord(character)) - 1
    return place >= 0 and ord(character) <= lasts[place]


@cache
def _ranges(table: str) -> tuple[list[int], list[int]]:
    """The first and the last code points of the ranges of a table."""
    ranges = [part.partition("-") for part in getattr(bert_characters, table).split()]
    return [int(first, 16) for first, _, _ in ranges], [int(last or first, 16) for first, _, last in ranges]


@cache
def _lower_case() -> dict[str, str]:
    pairs = (pair.partition(":") for pair in bert_characters.LOWER_CASE.split())
    return {chr(int(upper, 16)): chr(int(lower, 16)) for upper, _, lower in pairs}


def _character_class(*tables: str) -> str:
    """The characters up to U+FFFF of tables, as the inside of a class of a regular expression.

    Python tests these in constant time, and each range above U+FFFF one by one.
    """
    ranges = (pair for table in tables for pair in zip(*_ranges(table), strict=True))
    return "".join(rf"\u{first:04x}-\u{last:04x}" for first, last in ranges if last <= 0xFFFF)


@cache
def _boundary_pattern() -> re.Pattern[str]:
    """Characters at which a text can be divided."""
    return re.compile(f"[{_character_class('WHITESPACE', 'PUNCTUATION', 'IDEOGRAPHS')}]")


@cache
def _word_pattern() -> re.Pattern[str]:
    """A punctuation mark, an ideograph, or all between these and white space."""
    words = _character_class("PUNCTUATION", "IDEOGRAPHS")
    return re.compile(f"[^{_character_class('WHITESPACE')}{words}]+|[{words}]")


@cache
def _words_and_gaps_pattern() -> re.Pattern[str]:
    """Splits a text into what is between words, and words."""
    return re.compile(f"({_word_pattern().pattern})")


def _split(text: str, size: int) -> Iterator[tuple[int, str]]:
    """(offset, part): parts of at least `size` characters, divided at the first boundary after these.

    A part has at most 100,000 characters: a longer word is cut, which bounds the memory.
    """
    start = 0
    while start < len(text):
        end = min(len(text), start + 2 * _PART_CHARS)
        boundary = _boundary_pattern().search(text, start + size, end)
        end = boundary.start() if boundary else end
        yield start, text[start:end]
        start = end

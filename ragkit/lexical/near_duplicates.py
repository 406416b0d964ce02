"""Find passages that say the same: MinHash signatures, and the exact comparison of two passages.

Two passages say the same if they share most word shingles, and hold the same numbers, names, symbols, negations and
words like `only` in the same order: otherwise they are different statements, however alike they look.
Source: Broder, On the resemblance and containment of documents, SEQUENCES 1997.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragkit.lexical.analyzer import extract_terms
from ragkit.lexical.document_fields import passage_version
from ragkit.lexical.stopwords import STOP_WORDS

DIGESTS_VERSION = "1"
"""Changes whenever `digest_passages` may return other digests."""

LIKENESS = 0.8
"""Share of common shingles among all shingles of two passages (Jaccard) from which they may say the same."""
SHINGLE_WORDS = 3
"""Words per shingle. A shorter passage is one shingle."""
MIN_LETTERS = 100
"""Letters and digits from which a passage is compared. What a shorter one is about stands elsewhere."""
BANDS, BAND_ROWS = 8, 4
"""Two passages are compared if the minima of one band are equal: at a likeness of 0.8 in 98 of 100 cases."""

_TOKEN = re.compile(r"\w+|[<>=≤≥≠±+%$€£¥]|!(?==)|[-−](?<![\w-].)(?=\d)")
_FREE_WORDS_TEXT = """
a an the this that these those of to in on at for and also then which who is are was were be been has have had do does
did will would by with as it its their his her our your we you they
"""
_FREE_WORDS = frozenset(_FREE_WORDS_TEXT.split())
"""Stop words that a revision adds and drops; other ones (`not`, `only`, `until`) change the statement."""
_NUMBER_WORDS_TEXT = """
two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty seventy eighty ninety hundred
thousand million billion half double twice first second third fourth fifth last next non monday tuesday wednesday
thursday friday saturday sunday january february march april may june july august september october november december
"""
_NUMBER_WORDS = frozenset(_NUMBER_WORDS_TEXT.split())
_MAX_KNOWN_TOKENS = 1 << 16

Bands: TypeAlias = NDArray[np.uint32]
"""(n, BANDS): a hash of each band and of what must be equal. Equal values mean that two passages may say the same."""


@dataclass(frozen=True, eq=False)
class PassageDigests:
    """Digests of passages."""

    exact: NDArray[np.int64]
    """(n,): a hash of the words and headings; 0 for a passage that is too short to be compared."""
    bands: Bands


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a group, with what tells its age."""

    key: int
    chunk_id: str
    group: int
    source: str
    title: str
    metadata_json: str

    @property
    def version(self) -> tuple[str, tuple[str, ...]]:
        """What versions of its document have in common, and its version: greater is newer; see `document_version`."""
        return passage_version(self.source, json.loads(self.metadata_json))


class _TokenHashes(dict[str, int]):
    """Token -> 64-bit hash of its lower case; odd if two passages that say the same must share it."""

    def __missing__(self, token: str) -> int:
        if len(self) >= _MAX_KNOWN_TOKENS:
            self.clear()
        digest = int.from_bytes(blake2b(token.lower().encode("utf-8", "replace"), digest_size=8).digest(), "little")
        value = self[token] = digest | 1 if _must_be_equal(token) else digest & ~1
        return value


def _must_be_equal(token: str) -> bool:
    """Whether a token is a number, name, symbol, identifier, or a word that changes a statement."""
    lower = token.lower()
    if lower in _FREE_WORDS:
        return False
    if lower in STOP_WORDS or lower in _NUMBER_WORDS:
        return True
    # capital letters, and letters of scripts without them
    return not token.isalpha() or token != lower or lower == token.upper()


_HASHES = _TokenHashes()
_SHINGLE_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)


@cache
def _multipliers() -> NDArray[np.uint64]:
    """Odd factors, one for each value of a signature; computed on first use, since searches need none."""
    drawn = np.random.default_rng(17).integers(0, 1 << 63, BANDS * BAND_ROWS, np.uint64)
    return drawn * np.uint64(2) + np.uint64(1)


def digest_passages(texts: Sequence[str], headings: Sequence[str]) -> PassageDigests:
    """The digests of passages. Passages under different headings never say the same. Linear time."""
    exact = np.zeros(len(texts), np.int64)
    bands = np.zeros((len(texts), BANDS), np.uint32)
    chosen: list[int] = []
    lengths: list[int] = []
    tokens: list[str] = []
    for number, text in enumerate(texts):
        own = _TOKEN.findall(text)
        if sum(map(len, own)) >= MIN_LETTERS:
            chosen.append(number)
            lengths.append(len(own))
            tokens += own
    if not chosen:
        return PassageDigests(exact, bands)
    hashes = np.fromiter(map(_HASHES.__getitem__, tokens), np.uint64, len(tokens))
    keys = [" ".join(_TOKEN.findall(headings[number])).lower().encode("utf-8", "replace") for number in chosen]
    ends = np.cumsum(lengths)
    is_fixed = hashes & np.uint64(1) == 1
    fixed_ends = np.cumsum(is_fixed)[ends - 1]
    exact[chosen] = [value or 1 for value in _hash_slices(hashes, ends, keys)]
    seeds = np.array(_hash_slices(hashes[is_fixed], fixed_ends, keys), np.int64).view(np.uint64)
    bands[chosen] = _band_hashes(hashes, ends, seeds)
    return PassageDigests(exact, bands)


def _hash_slices(values: NDArray[np.uint64], ends: NDArray[np.int64], keys: Sequence[bytes]) -> list[int]:
    """The hash of each run of values, up to each end, with its key."""
    raw, found, start = values.tobytes(), list[int](), 0
    for end, key in zip((ends * values.itemsize).tolist(), keys, strict=True):
        found.append(_hash(raw[start:end], key))
        start = end
    return found


def _hash(*parts: bytes) -> int:
    """A signed 64-bit hash."""
    state = blake2b(digest_size=8)
    for part in parts:
        state.update(len(part).to_bytes(8, "little") + part)
    return int.from_bytes(state.digest(), "little", signed=True)


def _band_hashes(tokens: NDArray[np.uint64], ends: NDArray[np.int64], seeds: NDArray[np.uint64]) -> Bands:
    """The bands of passages. `tokens`: of all passages, each up to its end; `seeds`: (n,), what must be equal."""
    shingles, starts = _shingle_hashes(tokens, ends)
    mixed, multipliers = _mix(shingles), _multipliers()
    permuted = np.empty_like(mixed)
    bands = np.empty((len(ends), BANDS), np.uint32)
    for band in range(BANDS):
        value = seeds + np.uint64(band)
        for row in range(BAND_ROWS):
            np.multiply(mixed, multipliers[band * BAND_ROWS + row], out=permuted)
            value = _mix(value ^ (np.minimum.reduceat(permuted, starts) >> np.uint64(32)))
        bands[:, band] = value >> np.uint64(32)
    return bands


def _shingle_hashes(
    tokens: NDArray[np.uint64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The hash of each shingle of all passages, and the place of the first one of each passage."""
    starts = np.append(0, ends[:-1])
    widths = np.minimum(ends - starts, SHINGLE_WORDS)
    padded = np.append(tokens, np.zeros(SHINGLE_WORDS - 1, np.uint64))
    total = np.zeros(len(tokens), np.uint64)
    for place in range(SHINGLE_WORDS):
        total += padded[place : place + len(tokens)] * np.uint64(_SHINGLE_FACTORS[place])
    is_shingle = np.ones(len(tokens), bool)
    for place in range(1, SHINGLE_WORDS):  # the last tokens of a passage begin none
        is_shingle[(ends - place)[widths > place]] = False
    for number in np.flatnonzero(widths < SHINGLE_WORDS).tolist():  # the whole passage is one
        own = tokens[starts[number] : ends[number]]
        total[starts[number]] = np.sum(own * np.array(_SHINGLE_FACTORS[: len(own)], np.uint64))
    counts = ends - starts - widths + 1
    return total[is_shingle], np.cumsum(counts) - counts


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread the bits of each value (the finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def likeness(first: str, second: str) -> float:
    """The share of common word shingles among all shingles of two texts (Jaccard), in [0, 1]."""
    a, b = _shingles(_TOKEN.findall(first.lower())), _shingles(_TOKEN.findall(second.lower()))
    return len(a & b) / len(a | b) if a or b else 1.0


def _shingles(tokens: list[str]) -> set[tuple[str, ...]]:
    width = min(SHINGLE_WORDS, len(tokens))
    return {tuple(tokens[start : start + width]) for start in range(len(tokens) - width + 1)}


def says_the_same(first: str, second: str) -> bool:
    """Whether two texts are alike, hold the same numbers, names and so on in the same order, and replace no word by
    one of another stem (`open` by `closed`)."""
    a, b = _TOKEN.findall(first), _TOKEN.findall(second)
    if [t.lower() for t in a if _HASHES[t] & 1] != [t.lower() for t in b if _HASHES[t] & 1]:
        return False
    if likeness(first, second) < LIKENESS:
        return False
    a, b = [token.lower() for token in a], [token.lower() for token in b]
    changes = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    return all(kind != "replace" or _only_rewords(a[i:j], b[k:m]) for kind, i, j, k, m in changes)


def _only_rewords(old: list[str], new: list[str]) -> bool:
    """Whether two runs of words have the same stems, or one of them only words without a meaning of their own."""
    old_stems, new_stems = ({t for w in run if w not in _FREE_WORDS for t in extract_terms(w)} for run in (old, new))
    return not old_stems or not new_stems or old_stems == new_stems

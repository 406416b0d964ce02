"""The lexical index: postings in SQLite FTS5 tables, BM25 scores computed with numpy.

Works on any sqlite3 connection and starts no transaction: writes belong to the caller's transaction. Keys are ints
below 2**43, chosen by the caller.

FTS5 stores and merges the postings. Its own `bm25()` is not used: reading postings through `fts5vocab` and scoring
with numpy takes 12 ms instead of 40 (100,000 chunks, questions of 7 terms), scores all chunks at once, supports
adjacent term pairs, and gives a term in half of the chunks a weight above 0.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragkit.errors import InvalidOption
from ragkit.lexical.base import NO_EXTRA_TERMS, Bm25Scores, ChunkBoosts, ChunkKeys, ExtraTerms, OneOf
from ragkit.lru_cache import LruCache
from ragkit.sqlite_columns import read_integer_columns

K1 = 1.2
"""Term frequency saturation."""
B = 0.75
"""Length normalization, from 0 (none) to 1 (full)."""
PAIR_WEIGHT = 0.3
"""Weight of an adjacent term pair, relative to a term; 0.2 to 0.6 make little difference."""
MAX_EXTRA_TERM_CHUNKS = 20_000
"""Chunks with an additional term, from which it is left out: it says little, and takes long to score."""


_POSITIONS_PER_KEY = 1 << 20  # more terms than any chunk has; later terms match, but not as pairs

_UNCHANGED_TERM = re.compile("[0-9a-z\x80-\ud7ff\ue001-\U0010ffff]+")


def encode_term(term: str) -> str:
    """Encode a term so that FTS5's `ascii` tokenizer keeps it as one unchanged token. Injective.

    Terms of digits, lower-case letters and non-ASCII characters stay unchanged. Any other term becomes U+E000 and the
    hexadecimal digits of its UTF-8 bytes.
    """
    if _UNCHANGED_TERM.fullmatch(term):
        return term
    return "\ue000" + term.encode("utf-8", "surrogatepass").hex()


class _EncodedTerms(dict[str, str]):
    """Term -> `encode_term`. Faster than `lru_cache`, which orders its entries at every hit."""

    def __missing__(self, term: str) -> str:
        if len(self) >= _MAX_ENCODED_TERMS:
            self.clear()
        encoded = self[term] = encode_term(term)
        return encoded


_MAX_ENCODED_TERMS = 1 << 16
_ENCODED_TERMS = _EncodedTerms()


@dataclass(frozen=True, eq=False)
class _Postings:
    """Where a term occurs, and what it adds to the scores."""

    positions: ChunkKeys
    """Ascending: key * 2**20 + the index in the chunk."""
    rows: NDArray[np.intp]
    """The chunks that contain it: their rows in the table of lengths, ascending."""
    scores: NDArray[np.float64]
    """The BM25 score of each of these chunks."""

    @property
    def size(self) -> int:
        """Bytes in memory, about."""
        return self.positions.nbytes + self.rows.nbytes + self.scores.nbytes + 1000


@dataclass(frozen=True, eq=False)
class _LengthTable:
    """Length penalty of each chunk for BM25, in one state of the index."""

    stamp: int
    keys: ChunkKeys
    """Ascending."""
    penalty: NDArray[np.float64]
    """k1 * (1 - b + b * length / mean length) of each key, aligned with `keys`."""
    recent_postings: LruCache[str, _Postings] = field(
        default_factory=lambda: LruCache(_MAX_RECENT_POSTINGS_BYTES, lambda postings: postings.size)
    )
    """By term. They belong to this state of the index, and are dropped with it."""

    def rows_of(self, keys: ChunkKeys) -> NDArray[np.intp]:
        """Where these ascending keys are in `keys`, or would be: a subtraction if no number is missing there."""
        own = self.keys
        if len(own) and len(keys) and own[-1] - own[0] + 1 == len(own) and keys[0] >= own[0]:
            return np.asarray(keys - own[0], np.intp)
        return np.searchsorted(own, keys)


class Bm25Index:
    """BM25 over terms and adjacent term pairs of chunks, stored in the caller's database."""

    def __init__(self, connection: sqlite3.Connection, table: str = "lexicon") -> None:
        """`table` is the prefix of the table names; `create_tables` creates them. Raises InvalidOption."""
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", table):
            raise InvalidOption("table", table, "an identifier of ASCII letters, digits and _")
        self._connection = connection
        self._table = table
        self._last_scores: tuple[tuple[object, ...], _LengthTable, Bm25Scores] | None = None

    def create_tables(self) -> None:
        """Create empty tables, in the caller's transaction."""
        for statement in (
            "CREATE VIRTUAL TABLE @ USING fts5(terms, tokenize = 'ascii', columnsize = 0)",
            "CREATE VIRTUAL TABLE @_postings USING fts5vocab(@, instance)",
            "CREATE TABLE @_lengths (key INTEGER PRIMARY KEY, length INTEGER NOT NULL) STRICT",
            "CREATE TABLE @_stamp (stamp INTEGER NOT NULL) STRICT",
            "INSERT INTO @_stamp VALUES (random())",
        ):
            self._execute(statement)

    def add(self, keys: Sequence[int], term_lists: Sequence[Sequence[str]]) -> None:
        """Index one list of terms per key; an existing key is replaced."""
        texts = [" ".join(map(_ENCODED_TERMS.__getitem__, terms)) for terms in term_lists]
        lengths = [len(terms) for terms in term_lists]
        self._execute_many("INSERT OR REPLACE INTO @ (rowid, terms) VALUES (?, ?)", zip(keys, texts, strict=True))
        self._execute_many("INSERT OR REPLACE INTO @_lengths VALUES (?, ?)", zip(keys, lengths, strict=True))
        self._renew_stamp()

    def restore(self, rows: Sequence[tuple[int, str, int]]) -> None:
        """Write rows of another index: (key, its encoded terms, their number)."""
        self._execute_many("INSERT OR REPLACE INTO @ (rowid, terms) VALUES (?, ?)", [row[:2] for row in rows])
        self._execute_many("INSERT OR REPLACE INTO @_lengths VALUES (?, ?)", [(row[0], row[2]) for row in rows])
        self._renew_stamp()

    def remove(self, keys: Sequence[int]) -> None:
        """Delete these keys; unknown keys are ignored."""
        self._execute_many("DELETE FROM @ WHERE rowid = ?", [(key,) for key in keys])
        self._execute_many("DELETE FROM @_lengths WHERE key = ?", [(key,) for key in keys])
        self._renew_stamp()

    def purge(self) -> None:
        """Rewrite the postings without those of deleted keys: FTS5 keeps their words until segments are merged."""
        self._execute("INSERT INTO @ (@) VALUES ('optimize')")

    def search(
        self,
        terms: Sequence[str],
        top_k: int,
        allowed: Callable[[ChunkKeys], NDArray[np.bool_]] | None = None,
        extra: ExtraTerms = NO_EXTRA_TERMS,
        boosts: ChunkBoosts | None = None,
    ) -> list[tuple[int, float]]:
        """The best chunks, as `LexicalIndex.search`; `top_k` >= 1."""
        lengths, scores = self._score_all(terms, extra)
        matches = np.flatnonzero(scores != 0)  # six times as fast as the numbers themselves
        if allowed is not None and len(matches):
            matches = matches[allowed(lengths.keys[matches])]
        ranked = scores[matches] if boosts is None else scores[matches] + boosts(lengths.keys[matches])
        best = matches[_top_positions(ranked, top_k)]
        return list(zip(lengths.keys[best].tolist(), scores[best].tolist(), strict=True))

    def scores(self, terms: Sequence[str], keys: Sequence[int], extra: ExtraTerms = NO_EXTRA_TERMS) -> Bm25Scores:
        """BM25 scores of these chunks, (len(keys),); 0 without a match and for unknown keys."""
        lengths, scores = self._score_all(terms, extra)
        requested = np.asarray(keys, np.int64)
        result = np.zeros(len(requested), np.float32)
        if not len(lengths.keys):
            return result
        positions = np.minimum(np.searchsorted(lengths.keys, requested), len(lengths.keys) - 1)
        known = lengths.keys[positions] == requested
        result[known] = scores[positions[known]]
        return result

    def idf(self, terms: Sequence[str]) -> Bm25Scores:
        """Inverse document frequency of each term: (len(terms),)."""
        lengths = self._load_lengths()
        counts = [len(self._find_postings(term, lengths).rows) for term in terms]
        return np.asarray(inverse_document_frequency(counts, len(lengths.keys)), np.float32)

    def missing_terms(self, terms: Sequence[str]) -> list[str]:
        """Those of the terms that no chunk contains, in order."""
        lengths = self._load_lengths()
        return [term for term in terms if not len(self._find_postings(term, lengths).rows)]  # a search needs them too

    def find_terms(self, prefixes: Sequence[str]) -> dict[str, int]:
        """The terms that begin with one of the prefixes, each with the number of chunks that contain it.

        Only terms of digits, lower-case letters and non-ASCII characters. Takes time in proportion to these chunks.
        """
        self._execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.@_terms USING fts5vocab(main, @, row)")
        statement = "SELECT term, doc FROM temp.@_terms WHERE term >= ? AND term < ?"
        return {
            str(term): int(chunks)
            for prefix in prefixes
            for term, chunks in self._execute(statement, (prefix, prefix + "\U0010ffff"))
        }

    def count(self) -> int:
        """Number of chunks."""
        return int(self._execute("SELECT count(*) FROM @_lengths").fetchone()[0])

    def keys(self) -> ChunkKeys:
        """The keys of all chunks, ascending."""
        return self._load_lengths().keys

    def find_problems(self) -> list[str]:
        """Inconsistencies of the tables, one line each. Takes the write lock for a moment."""
        try:
            self._execute("INSERT INTO @(@) VALUES ('integrity-check')")
        except sqlite3.DatabaseError as error:
            return [f"the postings do not match the terms of the chunks ({error})"]
        count = self._execute(
            "SELECT (SELECT count(*) FROM @ WHERE rowid NOT IN (SELECT key FROM @_lengths))"
            " + (SELECT count(*) FROM @_lengths WHERE key NOT IN (SELECT rowid FROM @))"
        ).fetchone()[0]
        return [f"{count} chunks have terms without a length, or a length without terms"] if count else []

    def _score_all(self, terms: Sequence[str], extra: Mapping[str, float]) -> tuple[_LengthTable, Bm25Scores]:
        """The scores of all chunks, aligned with the keys.

        BM25 as in Robertson and Zaragoza, Foundations and Trends in Information Retrieval 3(4), 2009,
        doi:10.1561/1500000019, with 1 added inside the logarithm of the idf, as in Lucene, so that no weight is
        negative. Adjacent terms of the question that are adjacent in the chunk count as an additional, rarer term: the
        ordered pairs of Metzler and Croft, SIGIR 2005, doi:10.1145/1076034.1076115.
        """
        asked, lengths = tuple(terms), self._load_lengths()
        rare = self._find_rare(extra)
        extra = {term: weight for term, weight in sorted(extra.items()) if term in rare}
        query = (*asked, *extra.items())
        last = self._last_scores
        if last is not None and last[0] == query and last[1].stamp == lengths.stamp:
            return lengths, last[2]
        scores = np.zeros(len(lengths.keys))
        postings = {term: self._find_postings(term, lengths) for term in dict.fromkeys((*asked, *extra))}
        for term, weight in (*Counter(asked).items(), *extra.items()):
            scores[postings[term].rows] += weight * postings[term].scores
        for (first, second), times in Counter(pairwise(asked)).items():
            adjacent = _intersect_sorted(postings[first].positions + 1, postings[second].positions)
            pair = _score_postings(adjacent, lengths)
            scores[pair.rows] += times * PAIR_WEIGHT * pair.scores
        rounded = scores.astype(np.float32)
        self._last_scores = (query, lengths, rounded)
        return lengths, rounded

    def _find_rare(self, terms: Iterable[str]) -> frozenset[str]:
        """Those of the terms that are in some chunks, and in at most `MAX_EXTRA_TERM_CHUNKS`."""
        joined = frozenset(term for term in terms if isinstance(term, OneOf))
        encoded = {encode_term(term): term for term in terms if term not in joined}
        if not encoded:
            return joined
        self._execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.@_terms USING fts5vocab(main, @, row)")
        statement = "SELECT term FROM temp.@_terms WHERE term IN (SELECT value FROM json_each(?)) AND doc <= ?"
        found = self._execute(statement, (json.dumps(list(encoded)), MAX_EXTRA_TERM_CHUNKS))
        return joined.union(encoded[term] for (term,) in found)

    def _find_postings(self, term: str, lengths: _LengthTable) -> _Postings:
        """The postings of a term. They are kept: the searches of one question share terms, questions common words."""
        known = lengths.recent_postings.get(term)
        if known is None:
            known = _score_postings(self._read_positions(term), lengths)
            lengths.recent_postings.set(term, known)
        return known

    def _read_positions(self, term: str) -> ChunkKeys:
        """Positions of the term, ascending: key * 2**20 + its index in the chunk."""
        if isinstance(term, OneOf):
            return np.sort(np.concatenate([self._read_positions(form) for form in term.terms]))
        # One string for all rows: fetching single rows takes three times as long.
        statement = "SELECT group_concat(doc * ? + min(offset, ?)) FROM @_postings WHERE term = ?"
        joined = self._execute(statement, (_POSITIONS_PER_KEY, _POSITIONS_PER_KEY - 1, encode_term(term))).fetchone()[0]
        return np.sort(np.fromstring(joined or "", np.int64, sep=","), kind="stable")

    def _load_lengths(self) -> _LengthTable:
        stamp = int(self._execute("SELECT stamp FROM @_stamp").fetchone()[0])
        with _RECENT_LENGTHS_LOCK:
            known = next((lengths for lengths in _RECENT_LENGTHS if lengths.stamp == stamp), None)
        return known or _cache_lengths(self._read_lengths(stamp))

    def _read_lengths(self, stamp: int) -> _LengthTable:
        keys, lengths = read_integer_columns(self._connection, ("key", "length"), f"{self._table}_lengths")
        mean = max(1.0, float(lengths.mean())) if len(lengths) else 1.0
        return _LengthTable(stamp, keys, np.asarray(K1 * (1 - B + B * lengths / mean), np.float64))

    def _renew_stamp(self) -> None:
        """Set a new unique stamp, which invalidates cached lengths."""
        self._execute("UPDATE @_stamp SET stamp = random()")

    def _execute(self, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        """Execute a statement; @ is replaced by the table name."""
        return self._connection.execute(statement.replace("@", self._table), values)

    def _execute_many(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        self._connection.executemany(statement.replace("@", self._table), rows)


_RECENT_LENGTHS: list[_LengthTable] = []
"""Cached lengths, newest first. Stamps are random 64-bit numbers, hence unique across databases."""
_RECENT_LENGTHS_LOCK = Lock()
_MAX_RECENT_LENGTHS = 4
_MAX_RECENT_POSTINGS_BYTES = 32_000_000
"""Of one table of lengths."""


def _cache_lengths(lengths: _LengthTable) -> _LengthTable:
    with _RECENT_LENGTHS_LOCK:
        _RECENT_LENGTHS.insert(0, lengths)
        del _RECENT_LENGTHS[_MAX_RECENT_LENGTHS:]
    return lengths


def inverse_document_frequency(counts: ArrayLike, total: int) -> NDArray[np.float64]:
    """ln(1 + (N - n + 0.5) / (n + 0.5)) of terms that n of N chunks contain: as the shape of `counts`."""
    matching = np.asarray(counts, np.float64)
    return np.asarray(np.log1p((total - matching + 0.5) / (matching + 0.5)), np.float64)


def _score_postings(positions: ChunkKeys, lengths: _LengthTable) -> _Postings:
    """The BM25 scores of a term (or a pair) that occurs at these positions."""
    keys, counts = np.unique(positions // _POSITIONS_PER_KEY, return_counts=True)
    rows = lengths.rows_of(keys)
    if len(keys) and (rows[-1] >= len(lengths.keys) or not np.array_equal(lengths.keys[rows], keys)):
        # An error of SQLite, as for its own tables: the owner of the connection translates it.
        raise sqlite3.DatabaseError("the lexical index has terms of chunks without a length")
    idf = inverse_document_frequency(len(keys), len(lengths.keys))
    return _Postings(positions, rows, idf * counts * (K1 + 1) / (counts + lengths.penalty[rows]))


def _intersect_sorted(left: ChunkKeys, right: ChunkKeys) -> ChunkKeys:
    """The intersection of two ascending arrays, ascending."""
    short, long = sorted((left, right), key=len)
    indexes = np.searchsorted(long, short)
    indexes[indexes == len(long)] = 0
    return short[long[indexes] == short] if len(long) else short


def _top_positions(scores: Bm25Scores, top_k: int) -> NDArray[np.intp]:
    """Indexes of the `top_k` highest scores, highest first; ties by index."""
    if top_k < len(scores):
        least = np.partition(scores, len(scores) - top_k)[len(scores) - top_k]
        chosen = np.flatnonzero(scores >= least)
    else:
        chosen = np.arange(len(scores))
    return chosen[np.argsort(-scores[chosen], kind="stable")][:top_k]

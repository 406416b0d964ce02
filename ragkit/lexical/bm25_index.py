"""The lexical index: postings in SQLite FTS5 tables, BM25 computed here.

Works on any sqlite3 connection and begins no transaction of its own, so that its writes belong to the caller's.
Keys are ints below 2**43 that the caller chooses; what they stand for, and how text becomes terms, is not known here.

FTS5 stores and merges the postings; its own `bm25()` is not used: reading them through `fts5vocab` and scoring with
numpy takes 12 ms where `bm25()` takes 40 (100,000 chunks, questions of 7 terms), gives the scores of all chunks at
once, sees which terms stand side by side, and keeps a term that half of the chunks hold from weighing nothing.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from threading import Lock
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import InvalidOption

ChunkKeys: TypeAlias = NDArray[np.int64]
Bm25Scores: TypeAlias = NDArray[np.float32]

K1 = 1.2
"""How soon more occurrences of a term stop counting."""
B = 0.75
"""How much long chunks are held back; 0 is not at all, 1 in full."""
PAIR_WEIGHT = 0.3
"""What a pair of neighbouring terms counts, beside its two terms; from 0.2 to 0.6 makes little difference."""

_NO_EXTRA_TERMS: Mapping[str, float] = MappingProxyType({})

_POSITIONS_PER_KEY = 1 << 20  # more than the terms of any chunk; what stands behind is found, but not as a pair

_UNCHANGED_TERM = re.compile("[0-9a-z\x80-\ud7ff\ue001-\U0010ffff]+")


@lru_cache(maxsize=1 << 16)
def encode_term(term: str) -> str:
    """A term as FTS5's `ascii` tokenizer keeps it whole and unchanged; no two terms share a code.

    Digits, small letters and what is not ASCII stand for themselves. A term that holds anything else becomes
    U+E000 and the hexadecimal digits of its UTF-8 bytes.
    """
    if _UNCHANGED_TERM.fullmatch(term):
        return term
    return "\ue000" + term.encode("utf-8", "surrogatepass").hex()


@dataclass(frozen=True, eq=False)
class _LengthTable:
    """The number of terms of each chunk: what BM25 needs to know of those that match."""

    stamp: int
    keys: ChunkKeys
    """Rising."""
    penalty: NDArray[np.float64]
    """k1 * (1 - b + b * length / mean length) of the chunk with the key at the same place."""


class Bm25Index:
    """BM25 over chunks and what stands side by side in them, inside a database of the caller's."""

    def __init__(self, connection: sqlite3.Connection, table: str = "lexicon") -> None:
        """`table` names the tables, and is a plain identifier. They need not exist yet: see `create`."""
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", table):
            raise InvalidOption("table", table, "a plain identifier")
        self._connection = connection
        self._table = table
        self._last_scores: tuple[tuple[object, ...], _LengthTable, Bm25Scores] | None = None

    def create_tables(self) -> None:
        """Lay out empty tables, in the caller's transaction."""
        for statement in (
            "CREATE VIRTUAL TABLE @ USING fts5(terms, tokenize = 'ascii', columnsize = 0)",
            "CREATE VIRTUAL TABLE @_postings USING fts5vocab(@, instance)",
            "CREATE TABLE @_lengths (key INTEGER PRIMARY KEY, length INTEGER NOT NULL) STRICT",
            "CREATE TABLE @_stamp (stamp INTEGER NOT NULL) STRICT",
            "INSERT INTO @_stamp VALUES (random())",
        ):
            self._execute(statement)

    def add(self, keys: Sequence[int], term_lists: Sequence[Sequence[str]]) -> None:
        """Index one list of terms for each key; a key that is there is replaced."""
        texts = [" ".join(map(encode_term, terms)) for terms in term_lists]
        lengths = [len(terms) for terms in term_lists]
        self._execute_many("INSERT OR REPLACE INTO @ (rowid, terms) VALUES (?, ?)", zip(keys, texts, strict=True))
        self._execute_many("INSERT OR REPLACE INTO @_lengths VALUES (?, ?)", zip(keys, lengths, strict=True))
        self._renew_stamp()

    def remove(self, keys: Sequence[int]) -> None:
        """Forget these keys; those that are not there are passed over."""
        self._execute_many("DELETE FROM @ WHERE rowid = ?", [(key,) for key in keys])
        self._execute_many("DELETE FROM @_lengths WHERE key = ?", [(key,) for key in keys])
        self._renew_stamp()

    def search(
        self,
        terms: Sequence[str],
        top_k: int,
        allowed: Callable[[ChunkKeys], NDArray[np.bool_]] | None = None,
        extra: Mapping[str, float] = _NO_EXTRA_TERMS,
    ) -> list[tuple[int, float]]:
        """The best chunks that hold one of the terms and are allowed: (key, score > 0), best first, ties by key.

        Complete: `min(top_k, how many match)` of them; `top_k` is at least 1. `allowed` is called once, with the (n,)
        rising keys of every chunk that holds a term, and says of each whether it may be given. `extra` are further
        terms, each with what it counts where one of `terms` counts 1.
        """
        lengths, scores = self._score_all(terms, extra)
        at = np.flatnonzero(scores)
        if allowed is not None and len(at):
            at = at[allowed(lengths.keys[at])]
        best = at[_top_positions(scores[at], top_k)]
        return list(zip(lengths.keys[best].tolist(), scores[best].tolist(), strict=True))

    def scores(
        self, terms: Sequence[str], keys: Sequence[int], extra: Mapping[str, float] = _NO_EXTRA_TERMS
    ) -> Bm25Scores:
        """BM25 of these chunks, as `search` gives it: (len(keys),); 0 where no term matches or no such key is there."""
        lengths, scores = self._score_all(terms, extra)
        wanted = np.asarray(keys, np.int64)
        known = np.isin(wanted, lengths.keys)
        found = np.zeros(len(wanted), np.float32)
        found[known] = scores[np.searchsorted(lengths.keys, wanted[known])]
        return found

    def idf(self, terms: Sequence[str]) -> Bm25Scores:
        """How rare each term is among the chunks: (len(terms),), ln(1 + (N - n + 0.5) / (n + 0.5)), n of N hold it."""
        total = self.count()
        return np.array(
            [_idf(len(np.unique(self._term_positions(term) // _POSITIONS_PER_KEY)), total) for term in terms],
            np.float32,
        )

    def count(self) -> int:
        """How many chunks are here."""
        return int(self._execute("SELECT count(*) FROM @_lengths").fetchone()[0])

    def keys(self) -> ChunkKeys:
        """The keys of all chunks, rising."""
        return self._load_lengths().keys

    def find_problems(self) -> list[str]:
        """What is wrong with the index, a line each; empty when its tables agree. Takes the write lock for a moment."""
        try:
            self._execute("INSERT INTO @(@) VALUES ('integrity-check')")
        except sqlite3.DatabaseError as error:
            return [f"the postings do not agree with the terms of the chunks ({error})"]
        odd = self._execute(
            "SELECT (SELECT count(*) FROM @ WHERE rowid NOT IN (SELECT key FROM @_lengths))"
            " + (SELECT count(*) FROM @_lengths WHERE key NOT IN (SELECT rowid FROM @))"
        ).fetchone()[0]
        return [f"{odd} chunks have terms and no length, or the other way round"] if odd else []

    def _score_all(self, terms: Sequence[str], extra: Mapping[str, float]) -> tuple[_LengthTable, Bm25Scores]:
        """The score of every chunk: one for each of the keys.

        BM25 as in Robertson and Zaragoza, Foundations and Trends in Information Retrieval 3(4), 2009,
        doi:10.1561/1500000019; its idf has 1 added inside the logarithm, as Lucene does, so that no term weighs less
        than nothing. Neighbours of the question that are neighbours in the chunk count as one more, rarer term: the
        ordered pairs of Metzler and Croft, SIGIR 2005, doi:10.1145/1076034.1076115.
        """
        asked, lengths = tuple(terms), self._load_lengths()
        whole = (*asked, *sorted(extra.items()))
        if (
            self._last_scores is not None
            and self._last_scores[0] == whole
            and self._last_scores[1].stamp == lengths.stamp
        ):
            return lengths, self._last_scores[2]
        scores = np.zeros(len(lengths.keys))
        places = {term: self._term_positions(term) for term in dict.fromkeys(asked)}
        for term, times in Counter(asked).items():
            _add_bm25(scores, lengths, places[term], times)
        for (first, second), times in Counter(pairwise(asked)).items():
            _add_bm25(scores, lengths, _intersect_sorted(places[first] + 1, places[second]), times * PAIR_WEIGHT)
        for term, weight in extra.items():
            _add_bm25(scores, lengths, places[term] if term in places else self._term_positions(term), weight)
        self._last_scores = (whole, lengths, scores.astype(np.float32))
        return lengths, self._last_scores[2]

    def _term_positions(self, term: str) -> ChunkKeys:
        """Where the term stands, rising: key * 2**20 + the number of terms before it in the chunk."""
        # One string for all of them: rows that come one by one into Python cost three times as much.
        query = "SELECT group_concat(doc * ? + min(offset, ?)) FROM @_postings WHERE term = ?"
        found = self._execute(query, (_POSITIONS_PER_KEY, _POSITIONS_PER_KEY - 1, encode_term(term))).fetchone()[0]
        return np.sort(np.fromstring(found or "", np.int64, sep=","), kind="stable")

    def _load_lengths(self) -> _LengthTable:
        stamp = int(self._execute("SELECT stamp FROM @_stamp").fetchone()[0])
        with _RECENT_LENGTHS_LOCK:
            known = next((lengths for lengths in _RECENT_LENGTHS if lengths.stamp == stamp), None)
        return known or _cache_lengths(self._read_lengths(stamp))

    def _read_lengths(self, stamp: int) -> _LengthTable:
        rows = self._execute("SELECT key, length FROM @_lengths ORDER BY key").fetchall()
        table = np.array(rows, np.int64).reshape(-1, 2)
        mean = max(1.0, float(table[:, 1].mean())) if len(table) else 1.0
        return _LengthTable(stamp, table[:, 0].copy(), np.asarray(K1 * (1 - B + B * table[:, 1] / mean), np.float64))

    def _renew_stamp(self) -> None:
        """Give the index a stamp that no index had before: lengths that were read under another one are out of date."""
        self._execute("UPDATE @_stamp SET stamp = random()")

    def _execute(self, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        """Execute a statement in which @ stands for the name of the table."""
        return self._connection.execute(statement.replace("@", self._table), values)

    def _execute_many(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        self._connection.executemany(statement.replace("@", self._table), rows)


_RECENT_LENGTHS: list[_LengthTable] = []
"""Lengths that were read last, newest first. Stamps are random and 64 bits wide: they tell databases apart too."""
_RECENT_LENGTHS_LOCK = Lock()
_MAX_RECENT_LENGTHS = 4


def _cache_lengths(lengths: _LengthTable) -> _LengthTable:
    with _RECENT_LENGTHS_LOCK:
        _RECENT_LENGTHS.insert(0, lengths)
        del _RECENT_LENGTHS[_MAX_RECENT_LENGTHS:]
    return lengths


def _idf(holders: int, total: int) -> float:
    return float(np.log1p((total - holders + 0.5) / (holders + 0.5)))


def _add_bm25(scores: NDArray[np.float64], lengths: _LengthTable, places: ChunkKeys, weight: float) -> None:
    """Add the BM25 score of one term, which stands at these places, to the scores of all chunks."""
    keys, counts = np.unique(places // _POSITIONS_PER_KEY, return_counts=True)
    at = np.searchsorted(lengths.keys, keys)
    if len(keys) and (at[-1] == len(scores) or not np.array_equal(lengths.keys[at], keys)):
        # As SQLite says it of its own tables: whoever owns the connection knows the file, and what to do about it.
        raise sqlite3.DatabaseError("the lexical index holds terms of chunks that it has no length of")
    scores[at] += weight * _idf(len(keys), len(scores)) * counts * (K1 + 1) / (counts + lengths.penalty[at])


def _intersect_sorted(left: ChunkKeys, right: ChunkKeys) -> ChunkKeys:
    """The numbers that are in both; each is rising, and so is the result."""
    short, long = sorted((left, right), key=len)
    at = np.searchsorted(long, short)
    at[at == len(long)] = 0
    return short[long[at] == short] if len(long) else short


def _top_positions(scores: Bm25Scores, top_k: int) -> NDArray[np.intp]:
    """Places of the `top_k` highest scores, highest first; equal scores in the order of their places."""
    if top_k < len(scores):
        least = np.partition(scores, len(scores) - top_k)[len(scores) - top_k]
        chosen = np.flatnonzero(scores >= least)
    else:
        chosen = np.arange(len(scores))
    return chosen[np.argsort(-scores[chosen], kind="stable")][:top_k]

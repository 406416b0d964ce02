"""The BM25 index in SQLite, compared with a brute-force implementation."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from math import log, log1p
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragkit.errors import InvalidOption
from ragkit.lexical.base import ChunkKeys, OneOf
from ragkit.lexical.bm25_index import _MAX_RECENT_LENGTHS, Bm25Index, _Postings, encode_term

Texts = Mapping[int, Sequence[str]]

any_character = st.characters(exclude_categories=())  # includes surrogates
words = st.sampled_from(["wing", "tail", "v1.2", "c++", "東京"])
texts = st.dictionaries(st.integers(0, 40), st.lists(words, max_size=6), max_size=12)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    yield connection
    connection.close()


@pytest.fixture
def lexicon(connection: sqlite3.Connection) -> Bm25Index:
    lexicon = Bm25Index(connection)
    lexicon.create_tables()
    return lexicon


@contextmanager
def in_memory(texts: Texts) -> Iterator[Bm25Index]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        lexicon = Bm25Index(connection)
        lexicon.create_tables()
        lexicon.add(list(texts), list(texts.values()))
        yield lexicon


def brute_force(texts: Texts, question: Sequence[str]) -> dict[int, float]:
    """Every score above 0 by definition: BM25 of the terms plus 0.3 times BM25 of adjacent pairs."""
    mean = max(1.0, sum(map(len, texts.values())) / max(1, len(texts)))
    scores: dict[int, float] = dict.fromkeys(texts, 0.0)
    weighted = [((term,), 1.0) for term in question] + [(pair, 0.3) for pair in pairwise(question)]
    for phrase, weight in weighted:
        counts = {
            key: sum(tuple(text[start : start + len(phrase)]) == phrase for start in range(len(text)))
            for key, text in texts.items()
        }
        matches = sum(count > 0 for count in counts.values())
        idf = log1p((len(texts) - matches + 0.5) / (matches + 0.5))
        for key, count in counts.items():
            scores[key] += weight * idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(texts[key]) / mean))
    return {key: score for key, score in scores.items() if score > 0}


def test_terms_that_stand_for_one_count_as_one_term() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        lexicon = Bm25Index(connection)
        lexicon.create_tables()
        lexicon.add([1, 2, 3], [["chose", "mill"], ["chosen", "mill"], ["mill", "mill"]])
        same = Bm25Index(connection, "same")
        same.create_tables()
        same.add([1, 2, 3], [["choose", "mill"], ["choose", "mill"], ["mill", "mill"]])
        for query, wanted in ((["mill", OneOf(("chose", "chosen"))], ["mill", "choose"]), ([], [])):
            assert lexicon.search(query, 3) == same.search(wanted, 3)
        assert lexicon.search([], 3, extra={OneOf(("chose", "chosen")): 0.5}) == same.search(
            [], 3, extra={"choose": 0.5}
        )


@given(st.text(any_character, min_size=1))
@example("v1.2")
@example("C++")
@example("a b")
@example("\0")
@example("\ue000")
@example('"; DROP TABLE lexicon')
@example("\ud800")
def test_fts5_stores_every_term_as_one_token(term: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        lexicon = Bm25Index(connection)
        lexicon.create_tables()
        lexicon.add([1], [[term]])
        tokens = connection.execute("SELECT term, offset FROM lexicon_postings").fetchall()
        found = [key for key, _ in lexicon.search([term], 5)]
    assert tokens == [(encode_term(term), 0)]
    assert found == [1]


@given(st.text(any_character, min_size=1), st.text(any_character, min_size=1))
@example("A", "a")
@example("\ue00041", "A")
@example("a.b", "ab")
def test_no_two_terms_share_a_code(first: str, second: str) -> None:
    assert (encode_term(first) == encode_term(second)) == (first == second)


def test_only_the_chunk_with_the_term_is_found(lexicon: Bm25Index) -> None:
    lexicon.add([1, 2], [["wing"], ["tail"]])
    [(key, score)] = lexicon.search(["wing"], 5)
    assert key == 1
    assert score == pytest.approx(log(2))  # idf ln(1 + 1.5 / 1.5); the rest of the formula is 2.2 / 2.2


def test_adjacent_terms_of_the_question_add_a_score_for_adjacent_terms_of_the_chunk(lexicon: Bm25Index) -> None:
    lexicon.add([1, 2, 3], [["tail", "wing"], ["wing", "tail"], ["fin", "fin"]])
    (best, high), (second, low) = lexicon.search(["wing", "tail"], 5)
    assert (best, second) == (2, 1)
    assert low == pytest.approx(2 * log(1 + 1.5 / 2.5))
    assert high - low == pytest.approx(0.3 * log(1 + 2.5 / 1.5))


@given(texts, st.lists(words, max_size=5))
def test_search_matches_brute_force(texts: Texts, question: list[str]) -> None:
    with in_memory(texts) as lexicon:
        found = lexicon.search(question, 50)
    assert dict(found) == pytest.approx(brute_force(texts, question), rel=1e-5)
    assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))


@given(texts, st.lists(words, max_size=4), st.integers(1, 6), st.integers(1, 3))
def test_results_are_complete_under_every_filter(texts: Texts, question: list[str], top_k: int, modulus: int) -> None:
    with in_memory(texts) as lexicon:
        everything = lexicon.search(question, 50)
        allowed = lexicon.search(question, top_k, lambda keys: keys % modulus == 0)
    assert allowed == [pair for pair in everything if pair[0] % modulus == 0][:top_k]


@given(texts, st.lists(words, max_size=4))
def test_scores_are_those_of_search_and_0_elsewhere(texts: Texts, question: list[str]) -> None:
    keys = [*texts, 1000, 999]
    with in_memory(texts) as lexicon:
        found = dict(lexicon.search(question, 50))
        assert lexicon.scores(question, keys).tolist() == [found.get(key, 0.0) for key in keys]


@given(texts, texts, st.sets(st.integers(0, 40)))
def test_after_replacing_and_removing_the_index_equals_a_new_one(
    first: Texts, second: Texts, removed: set[int]
) -> None:
    remaining = {key: text for key, text in {**first, **second}.items() if key not in removed}
    question = ["wing", "v1.2", "東京"]
    with in_memory(first) as lexicon, in_memory(remaining) as fresh:
        lexicon.add(list(second), list(second.values()))
        lexicon.remove(sorted(removed))
        assert lexicon.search(question, 50) == fresh.search(question, 50)
        assert lexicon.keys().tolist() == sorted(remaining)
        assert lexicon.count() == len(remaining)
        assert lexicon.find_problems() == []


def test_equal_scores_are_ordered_by_key(lexicon: Bm25Index) -> None:
    lexicon.add([9, 4, 7, 2], [["wing"]] * 3 + [["tail"]])
    assert [key for key, _ in lexicon.search(["wing"], 2)] == [4, 7]


def test_a_term_in_every_chunk_has_a_positive_score(lexicon: Bm25Index) -> None:
    lexicon.add([1, 2], [["wing"], ["wing", "wing"]])
    assert [key for key, _ in lexicon.search(["wing"], 5)] == [2, 1]


def test_the_filter_is_called_once_with_all_matches(lexicon: Bm25Index) -> None:
    filter_calls: list[list[int]] = []

    def reject_all(keys: ChunkKeys) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        filter_calls.append(keys.tolist())
        return np.zeros(len(keys), np.bool_)

    lexicon.add([3, 5, 8], [["wing"], ["tail"], ["wing"]])
    assert lexicon.search(["wing"], 1, reject_all) == []
    assert filter_calls == [[3, 8]]


def test_an_empty_index_finds_nothing(lexicon: Bm25Index) -> None:
    assert lexicon.search(["wing"], 5) == []
    assert lexicon.scores(["wing"], [1, 2]).tolist() == [0, 0]
    assert lexicon.count() == 0
    assert lexicon.find_problems() == []


def test_chunks_without_terms_are_kept_and_never_found(lexicon: Bm25Index) -> None:
    lexicon.add([1, 2], [[], []])
    assert lexicon.search(["wing"], 5) == []
    assert lexicon.keys().tolist() == [1, 2]


def test_rarer_terms_have_a_higher_idf(lexicon: Bm25Index) -> None:
    lexicon.add([1, 2, 3], [["wing", "tail", "wing"], ["wing"], ["fin"]])
    expected = [log(1 + 1.5 / 2.5), log(1 + 2.5 / 1.5), log(1 + 3.5 / 0.5)]
    assert lexicon.idf(["wing", "tail", "missing"]).tolist() == pytest.approx(expected)


def test_terms_are_listed_by_prefix_with_the_number_of_their_chunks(lexicon: Bm25Index) -> None:
    lexicon.add([1, 2, 3], [["wing", "wind", "wing", "v1.2"], ["wing", "東京"], ["window", "c++"]])
    assert lexicon.find_terms(["win"]) == {"wind": 1, "window": 1, "wing": 2}
    assert lexicon.find_terms(["wing", "東"]) == {"wing": 2, "東京": 1}
    assert lexicon.find_terms(["x", "wings"]) == lexicon.find_terms([]) == {}
    assert lexicon.missing_terms(["wing", "wings", "v1.2", "v1", "c++", "win"]) == ["wings", "v1", "win"]
    lexicon.remove([1])
    assert lexicon.find_terms(["win"]) == {"window": 1, "wing": 1}
    assert lexicon.missing_terms(["wind", "wing"]) == ["wind"]


def test_a_repeated_term_of_the_question_counts_twice(lexicon: Bm25Index) -> None:
    lexicon.add([1, 2], [["wing"], ["tail"]])
    once, twice = lexicon.scores(["wing"], [1]), lexicon.scores(["wing", "fin", "wing"], [1])
    assert twice.tolist() == pytest.approx((2 * once).tolist())


def test_a_question_of_thousands_of_terms_is_answered(lexicon: Bm25Index) -> None:
    lexicon.add([1], [["t1999"]])
    assert [key for key, _ in lexicon.search([f"t{n}" for n in range(2000)], 5)] == [1]


def test_rolled_back_chunks_are_not_found(lexicon: Bm25Index, connection: sqlite3.Connection) -> None:
    lexicon.add([1], [["wing"]])
    connection.execute("BEGIN")
    lexicon.add([2], [["wing"]])
    lexicon.remove([1])
    assert [key for key, _ in lexicon.search(["wing"], 5)] == [2]
    connection.execute("ROLLBACK")
    assert [key for key, _ in lexicon.search(["wing"], 5)] == [1]


def test_a_reader_sees_one_state_until_its_transaction_ends(tmp_path: Path) -> None:
    writing, reading = (sqlite3.connect(tmp_path / "catalog.sqlite", isolation_level=None) for _ in range(2))
    writing.execute("PRAGMA journal_mode=WAL")
    writer, reader = Bm25Index(writing), Bm25Index(reading)
    writer.create_tables()
    writer.add([1], [["wing"]])
    reading.execute("BEGIN")
    assert [key for key, _ in reader.search(["wing"], 5)] == [1]
    writer.add([2], [["wing", "wing"]])
    assert [key for key, _ in reader.search(["wing"], 5)] == [1]
    reading.execute("COMMIT")
    assert [key for key, _ in reader.search(["wing"], 5)] == [2, 1]
    writing.close()
    reading.close()


def test_the_index_survives_a_restart(tmp_path: Path) -> None:
    found = []
    for first in (True, False):
        connection = sqlite3.connect(tmp_path / "catalog.sqlite", isolation_level=None)
        lexicon = Bm25Index(connection)
        if first:
            lexicon.create_tables()
            lexicon.add([1, 2], [["wing", "v1.2"], ["tail"]])
        found.append(lexicon.search(["v1.2"], 5))
        connection.close()
    assert found[0] == found[1] != []


def test_postings_of_earlier_states_are_dropped(lexicon: Bm25Index) -> None:
    def count_cached() -> int:
        return sum(isinstance(each, _Postings) for each in gc.get_objects())

    states, terms = 30, ["wing", "tail"]
    before = count_cached()
    for key in range(states):
        lexicon.add([key], [terms])
        assert lexicon.search(terms, 1)
    assert count_cached() - before <= len(terms) * _MAX_RECENT_LENGTHS


def test_a_changed_copy_does_not_share_cached_lengths(tmp_path: Path) -> None:
    original, copy = (sqlite3.connect(tmp_path / name, isolation_level=None) for name in ("a", "b"))
    Bm25Index(original).create_tables()
    Bm25Index(original).add([1], [["wing"]])
    original.backup(copy)
    Bm25Index(original).add([2], [["tail"]])
    Bm25Index(copy).add([3], [["tail"]])
    assert [key for key, _ in Bm25Index(original).search(["tail"], 5)] == [2]
    assert [key for key, _ in Bm25Index(copy).search(["tail"], 5)] == [3]
    original.close()
    copy.close()


def test_a_chunk_without_a_length_is_an_error(lexicon: Bm25Index, connection: sqlite3.Connection) -> None:
    lexicon.add([1, 2], [["wing"], ["tail"]])
    connection.execute("DELETE FROM lexicon_lengths WHERE key = 2")
    connection.execute("UPDATE lexicon_stamp SET stamp = 0")
    with pytest.raises(sqlite3.DatabaseError, match="terms of chunks without a length"):
        lexicon.search(["tail"], 5)
    assert lexicon.find_problems() == ["1 chunks have terms without a length, or a length without terms"]


def test_find_problems_reports_terms_without_postings(lexicon: Bm25Index, connection: sqlite3.Connection) -> None:
    lexicon.add([1], [["wing"]])
    connection.execute("UPDATE lexicon_content SET c0 = 'tail'")
    [problem] = lexicon.find_problems()
    assert problem.startswith("the postings do not match the terms of the chunks")


def test_one_database_can_have_two_indexes(connection: sqlite3.Connection) -> None:
    first, second = Bm25Index(connection, "first"), Bm25Index(connection, "second")
    first.create_tables()
    second.create_tables()
    first.add([1], [["wing"]])
    assert second.search(["wing"], 5) == []
    assert [key for key, _ in first.search(["wing"], 5)] == [1]


def test_a_table_name_that_is_no_identifier_is_rejected(connection: sqlite3.Connection) -> None:
    with pytest.raises(InvalidOption, match="table must be an identifier"):
        Bm25Index(connection, "a; b")


def test_every_list_of_terms_needs_its_key(lexicon: Bm25Index) -> None:
    with pytest.raises(ValueError, match="argument 2 is longer"):
        lexicon.add([1], [["wing"], ["tail"]])


def test_extra_terms_count_unless_many_chunks_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragkit.lexical.bm25_index.MAX_EXTRA_TERM_CHUNKS", 2)
    with in_memory({1: ["wing", "C++"], 2: ["wing"], 3: ["wing", "東京"]}) as lexicon:
        common = lexicon.search(["wing"], 3)
        assert lexicon.search(["wing"], 3, extra={"wing": 5.0, "none": 5.0}) == common
        assert lexicon.search((), 3, extra={"wing": 5.0, "none": 5.0}) == []
        assert [key for key, _ in lexicon.search((), 3, extra={"C++": 1.0, "東京": 2.0})] == [3, 1]
        assert lexicon.scores((), [1, 2, 3, 9], {"C++": 1.0}).tolist()[1:] == [0, 0, 0]
        assert lexicon.scores((), [9, 1], {"C++": 1.0})[1] > 0


def test_an_empty_index_scores_nothing(lexicon: Bm25Index) -> None:
    assert lexicon.scores(["wing"], [1, 2]).tolist() == [0, 0]

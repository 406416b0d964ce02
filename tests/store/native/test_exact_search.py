"""Exact search: plain, with the 8-bit copy, and with the scanner that chooses between them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragkit.store.base import Rows
from ragkit.store.native.exact_search import AllowedRows, SortKeys, find_nearest, kth_score_floor, rank_rows
from ragkit.store.native.int8_index import Int8Index, quantize
from ragkit.store.native.scanner import BUILD_AFTER_SEARCHES, MIN_ROWS, Scanner
from ragkit.testing.store_factory import unit_rows

SearchOutcome = tuple[list[int], list[float]]
Search = Callable[[Rows, Rows, int, AllowedRows, SortKeys | None], SearchOutcome]


def search_plain(matrix: Rows, query: Rows, k: int, allowed: AllowedRows, order: SortKeys | None) -> SearchOutcome:
    rows, scores = find_nearest(matrix, query, k, allowed, order)
    return rows.tolist(), scores.tolist()


def search_int8(matrix: Rows, query: Rows, k: int, allowed: AllowedRows, order: SortKeys | None) -> SearchOutcome:
    result = Int8Index.from_matrix(matrix).find_candidates(query, k, allowed, len(matrix))
    rows, scores = rank_rows(matrix, query, k, result, order)
    return rows.tolist(), scores.tolist()


def search_by_sorting(matrix: Rows, query: Rows, k: int, allowed: AllowedRows, order: SortKeys | None) -> SearchOutcome:
    """The reference result, computed by sorting."""
    rows = np.arange(len(matrix)) if allowed is None else np.arange(len(matrix))[allowed]
    scores = np.clip((matrix[rows] * query.astype(np.float64)).sum(axis=1), -1, 1)
    keys = [order(rows[[i]])[0] for i in range(len(rows))] if order else ["" for _ in rows]
    ranked = sorted(range(len(rows)), key=lambda i: (-scores[i], keys[i], rows[i]))[:k]
    return [int(rows[i]) for i in ranked], [float(scores[i]) for i in ranked]


def clustered(n: int, dimension: int, seed: int) -> Rows:
    """Rows in tight clusters: many scores are nearly equal, some rows are equal."""
    chance = np.random.default_rng(seed)
    rows = unit_rows(20, dimension, seed)[chance.integers(0, 20, n)] + chance.normal(0, 0.02, (n, dimension))
    rows[chance.integers(0, n, n // 10)] = rows[0]
    unit: Rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


searches = pytest.mark.parametrize("search", [search_plain, search_int8])


@searches
@pytest.mark.parametrize("share", [None, 0.001, 0.01, 0.1, 0.4, 0.9])
@pytest.mark.parametrize("as_rows", [False, True])
def test_the_nearest_rows_are_found_for_any_set_of_allowed_rows(
    search: Search, share: float | None, as_rows: bool
) -> None:
    matrix = clustered(5000, 24, seed=2)
    mask = np.ones(5000, bool) if share is None else np.random.default_rng(3).random(5000) < share
    allowed: AllowedRows = None if share is None else np.flatnonzero(mask) if as_rows else mask
    for query in (*clustered(3, 24, seed=2), matrix[0]):
        for k in (1, 10, 200):
            assert search(matrix, query, k, allowed, None) == search_by_sorting(matrix, query, k, mask, None)


@searches
@settings(max_examples=150)
@given(
    n=st.integers(0, 60),
    dimension=st.integers(1, 12),
    k=st.integers(1, 70),
    seed=st.integers(0, 999),
    share=st.sampled_from([None, 0.0, 0.2, 0.8, 1.0]),
)
def test_any_small_matrix_is_searched_exactly(
    search: Search, n: int, dimension: int, k: int, seed: int, share: float | None
) -> None:
    chance = np.random.default_rng(seed)
    pool = unit_rows(8, dimension, seed)
    matrix, query = pool[chance.integers(0, 8, n)], pool[0]
    mask: NDArray[np.bool_] = chance.random(n) < (1.0 if share is None else share)
    names = [f"{place}" for place in chance.permutation(n)]
    expected = search_by_sorting(matrix, query, k, mask, lambda rows: [names[row] for row in rows])
    assert (
        search(matrix, query, k, None if share is None else mask, lambda rows: [names[row] for row in rows]) == expected
    )


@searches
def test_ties_at_the_end_are_cut_in_the_requested_order(search: Search) -> None:
    matrix = np.repeat(unit_rows(2, 8, seed=1), 3000, axis=0)

    def reverse(rows: NDArray[np.int64]) -> list[str]:
        return [f"{9999 - row:06}" for row in rows.tolist()]

    assert search(matrix, matrix[0], 3, None, None)[0] == [0, 1, 2]
    assert search(matrix, matrix[0], 3, None, reverse)[0] == [2999, 2998, 2997]
    assert search(matrix, matrix[0], 3001, None, reverse)[0] == [*range(2999, -1, -1), 5999]


def signs(n: int, dimension: int, seed: int) -> Rows:
    """Rows of one positive or negative number: 8 bits represent them exactly."""
    drawn = np.random.default_rng(seed).choice([-1.0, 1.0], (n, dimension))
    rows: Rows = (drawn / dimension**0.5).astype(np.float32)
    return rows


@searches
@pytest.mark.parametrize("k", [1, 10, 100])
@pytest.mark.parametrize(
    ("matrix", "queries"),
    [
        pytest.param(unit_rows(1, 384, 1) + 2e-8 * unit_rows(4000, 384, 2), unit_rows(3, 384, 3), id="rounding"),
        pytest.param(signs(4000, 16, 1), unit_rows(30, 16, 2), id="error of the query"),
        pytest.param(unit_rows(4000, 16, 1), signs(30, 16, 2), id="errors of the rows"),
    ],
)
def test_rows_closer_than_the_quantization_error_are_distinguished(
    search: Search, matrix: Rows, queries: Rows, k: int
) -> None:
    unit: Rows = (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)
    for query in queries:
        assert search(unit, query, k, None, None) == search_by_sorting(unit, query, k, None, None)


def test_the_tie_order_is_not_computed_without_ties() -> None:
    def order(rows: NDArray[np.int64]) -> list[str]:
        raise AssertionError("no two scores are equal")

    matrix = unit_rows(50, 8, seed=1)
    assert find_nearest(matrix, matrix[7], 5, None, order)[0][0] == 7


@searches
def test_a_score_does_not_depend_on_the_row_number(search: Search) -> None:
    row, query = unit_rows(2, 384, seed=1)
    scores = set()
    for place in (0, 1, 6, 63, 500, 1000):
        matrix = unit_rows(1001, 384, seed=2)
        matrix[place] = row
        [score] = search(matrix, query, 1, np.array([place]), None)[1]
        scores.add(score)
    assert scores == {float((row * query.astype(np.float64)).sum())}


@searches
def test_scores_are_never_above_one(search: Search) -> None:
    matrix = unit_rows(3000, 384, seed=1) * np.float32(1.0005)
    assert search(matrix, matrix[5], 1, None, None) == ([5], [1.0])
    assert search(matrix, -matrix[5], 3000, None, None)[1][-1] == -1.0


@searches
def test_scores_clipped_to_one_tie(search: Search) -> None:
    row = unit_rows(1, 16, seed=1)[0]
    matrix = row * np.linspace(1.0001, 1.0008, 200, dtype=np.float32)[:, None]
    assert search(matrix, row, 3, None, None) == ([0, 1, 2], [1.0, 1.0, 1.0])


@settings(max_examples=200)
@given(st.integers(0, 2000), st.integers(1, 40), st.integers(0, 99), st.booleans())
def test_the_floor_is_below_k_scores(n: int, k: int, seed: int, has_gaps: bool) -> None:
    scores = np.random.default_rng(seed).random(n, np.float32).round(2)
    if has_gaps:
        scores[scores < 0.9] = -np.inf
    floor = kth_score_floor(scores, k)
    assert np.count_nonzero(scores >= floor) >= min(k, n)


@settings(max_examples=100)
@given(st.integers(1, 40), st.integers(0, 999), st.sampled_from([0.0, 1.0, 5.0]))
def test_the_error_of_the_copy_is_within_its_bound(dimension: int, seed: int, spike: float) -> None:
    rows = unit_rows(30, dimension, seed).astype(np.float64)
    rows[:, 0] += spike  # one large number makes the quantization of all others coarse
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    matrix = rows.astype(np.float32)
    codes, scales, errors = quantize(matrix)
    off = np.linalg.norm(matrix - codes * scales[:, None].astype(np.float64), axis=1)
    assert (off <= errors).all()
    assert (errors < 0.005 * dimension**0.5 + 1e-6).all()


def test_a_grown_copy_equals_a_new_copy() -> None:
    matrix = unit_rows(7000, 16, seed=1)
    index = Int8Index.from_matrix(matrix[:3000])
    for rows in (3001, 3001, 5000, 7000):
        index.grow(matrix[:rows])
    complete = Int8Index.from_matrix(matrix)
    assert np.array_equal(index.codes, complete.codes)
    assert np.array_equal(index.scales, complete.scales)
    assert np.array_equal(index.errors, complete.errors)
    assert index.find_candidates(matrix[10], 1, None, 3000).tolist() == [10]


class Caching:
    """A scanner over a matrix in a directory, as in a store."""

    def __init__(self, directory: Path, matrix: Rows) -> None:
        self.path, self.matrix = directory / "vectors.i8", matrix

    def search(self, scanner: Scanner, rows: int | None = None) -> None:
        """Compare three searches with the reference result."""
        matrix = self.matrix[:rows]
        for query in matrix[[0, 5, len(matrix) - 1]]:
            result, _ = scanner.search(matrix, query, 10)
            assert result.tolist() == search_by_sorting(matrix, query, 10, None, None)[0]

    def scanner(self, file_id: bytes = b"i" * 16) -> Scanner:
        return Scanner(self.path, file_id)


@pytest.fixture
def caching(tmp_path: Path) -> Caching:
    return Caching(tmp_path, clustered(MIN_ROWS + 3000, 10, seed=4))


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each quantization."""
    counts: list[int] = []
    grow = Int8Index.grow

    def counted(index: Int8Index, matrix: Rows) -> None:
        counts.append(len(matrix) - index.rows)
        grow(index, matrix)

    monkeypatch.setattr(Int8Index, "grow", counted)
    return counts


def test_the_copy_is_built_after_repeated_searches(caching: Caching, built: list[int]) -> None:
    scanner = Scanner()
    for search in range(BUILD_AFTER_SEARCHES + 2):
        assert built == ([MIN_ROWS] if search >= BUILD_AFTER_SEARCHES else [])
        scanner.search(caching.matrix[:MIN_ROWS], caching.matrix[0], 3)


def test_small_matrices_are_searched_without_a_copy(caching: Caching, built: list[int]) -> None:
    scanner = caching.scanner()
    for _ in range(5):
        caching.search(scanner, MIN_ROWS - 1)
    assert built == []
    assert not caching.path.exists()


def test_the_copy_grows_with_the_matrix_and_older_views_stay_searchable(caching: Caching, built: list[int]) -> None:
    scanner = Scanner()
    for rows in (MIN_ROWS, MIN_ROWS + 10, MIN_ROWS, MIN_ROWS + 3000):
        caching.search(scanner, rows)
    assert built == [MIN_ROWS, 10, 2990]


def test_the_copy_is_saved_and_loaded(caching: Caching, built: list[int]) -> None:
    caching.search(caching.scanner(), MIN_ROWS)
    caching.search(caching.scanner(), MIN_ROWS)
    caching.search(caching.scanner(), MIN_ROWS + 50)
    assert built == [MIN_ROWS, 50]
    assert [path.name for path in caching.path.parent.iterdir()] == ["vectors.i8"]


def test_an_outdated_saved_copy_is_rewritten(caching: Caching, built: list[int]) -> None:
    caching.search(caching.scanner(), MIN_ROWS)
    size = caching.path.stat().st_size
    caching.search(caching.scanner(), MIN_ROWS + 500)
    assert caching.path.stat().st_size == size
    caching.search(caching.scanner(), MIN_ROWS + 3000)
    assert caching.path.stat().st_size == pytest.approx(size * (MIN_ROWS + 3000) / MIN_ROWS, rel=0.01)
    caching.search(caching.scanner(), MIN_ROWS + 3000)
    assert built == [MIN_ROWS, 500, 3000]


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: os.truncate(path, 70_000),
        lambda path: os.truncate(path, 10),
        lambda path: os.truncate(path, 0),
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\x55"),
        lambda path: path.write_bytes(path.read_bytes()[:500] + b"\x55\x55" + path.read_bytes()[502:]),
        lambda path: path.write_bytes(b"something else" * 10_000),
    ],
)
def test_a_truncated_saved_copy_is_rebuilt(
    caching: Caching, built: list[int], damage: Callable[[Path], object]
) -> None:
    caching.search(caching.scanner())
    damage(caching.path)
    caching.search(caching.scanner())
    caching.search(caching.scanner())
    assert built == [MIN_ROWS + 3000] * 2


def test_a_saved_copy_of_another_matrix_is_not_used(caching: Caching, built: list[int]) -> None:
    caching.search(caching.scanner())
    caching.search(caching.scanner(b"j" * 16))
    assert built == [MIN_ROWS + 3000] * 2
    caching.search(caching.scanner(b"j" * 16), MIN_ROWS)  # it has more rows than the matrix: not its copy
    assert built == [MIN_ROWS + 3000] * 2 + [MIN_ROWS]


def test_a_directory_that_cannot_be_written_is_no_error(caching: Caching, built: list[int]) -> None:
    caching.path = caching.path.parent / "missing" / "vectors.i8"
    caching.search(caching.scanner())
    assert built == [MIN_ROWS + 3000]


def test_a_copy_that_covers_the_matrix_is_used_without_waiting(caching: Caching, built: list[int]) -> None:
    scanner = Scanner()
    caching.search(scanner)
    with scanner._lock:
        assert scanner._get_index(caching.matrix) is scanner._index is not None
    assert built == [MIN_ROWS + 3000]


def test_while_one_thread_builds_the_copy_others_search_without_it(caching: Caching) -> None:
    scanner = Scanner()
    with scanner._lock:
        caching.search(scanner)
    caching.search(scanner)

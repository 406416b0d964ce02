"""The in-memory index."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ragkit.errors import InvalidVector
from ragkit.retrieve.in_memory_index import InMemoryChunkIndex
from tests.retrieve.passages import chunk

ROWS = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)
CHUNKS = [chunk("wing"), chunk("tail"), chunk("wing tail")]


def test_the_key_of_a_chunk_is_its_list_index() -> None:
    passages = InMemoryChunkIndex(CHUNKS, ROWS)
    assert passages.chunks([2, 0]) == [CHUNKS[2], CHUNKS[0]]
    assert [key for key, _ in passages.search_terms(["tail"], 5)] == [1, 2]


def test_cosines_are_those_of_search() -> None:
    passages = InMemoryChunkIndex(CHUNKS, ROWS)
    assert passages.search_dense(ROWS[0], 2) == [(0, 1), (2, pytest.approx(0.6))]
    assert passages.cosines(ROWS[0], [2, 1, 0]).tolist() == pytest.approx([0.6, 0, 1])


def test_a_missing_row_is_rejected() -> None:
    with pytest.raises(InvalidVector, match=r"has shape \(2, 2\) instead of \(3, dimension\)"):
        InMemoryChunkIndex(CHUNKS, ROWS[:2])


def test_concurrent_searches_return_the_results_of_a_single_thread() -> None:
    passages = InMemoryChunkIndex([chunk(f"wing part{n} part{n + 1}") for n in range(50)], np.tile(ROWS[:1], (50, 1)))
    alone = [passages.search_terms(["wing", f"part{n}"], 3) for n in range(50)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda n: passages.search_terms(["wing", f"part{n}"], 3), range(50)))
    assert together == alone

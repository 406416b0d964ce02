"""Hits with context: the right text, at exact offsets, without overlaps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ragkit.errors import InvalidOption
from ragkit.records import Chunk, Hit, Where
from ragkit.retrieve.base import ChunkIndex, Explanation
from ragkit.retrieve.context import ContextRetriever, clip_to_uncovered
from ragkit.retrieve.in_memory_index import InMemoryChunkIndex
from ragkit.retrieve.options import ContextMethod, ContextOptions

TEXT = "zero\n\none\n  two\nthree\n\nfour\nfive\n"
"""One chunk per word, separated by white space."""
WORDS = TEXT.split()


def passages(headings: str = "", *, texts: bool = True) -> InMemoryChunkIndex:
    """The words of TEXT as chunks; each has the heading at its position in `headings`."""
    chunks = [
        Chunk(word, "d", "d.txt", word, at, at + len(word), line, line, heading=tuple(headings[n : n + 1]))
        for n, word in enumerate(WORDS)
        for at in [TEXT.index(word)]
        for line in [TEXT.count("\n", 0, at) + 1]
    ]
    rows = np.tile(np.array([[1, 0]], np.float32), (len(chunks), 1))
    return InMemoryChunkIndex(chunks, rows, {"d": TEXT} if texts else None)


class FixedRetriever:
    """A retriever that finds these words, in this order."""

    def __init__(self, found: ChunkIndex, *words: str) -> None:
        self._chunks = found.chunks([WORDS.index(word) for word in words])

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The first hits."""
        return [
            Explanation(Hit(item, 9.0 - rank, {"dense": 0.5}, rank))
            for rank, item in enumerate(self._chunks[:top_k], 1)
        ]

    def retrieve(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The first hits."""
        return [item.hit for item in self.explain(question, top_k, where)]


def hits(
    name: ContextMethod, chunks: int | None, *words: str, headings: str = "", top_k: int = 9, texts: bool = True
) -> list[Hit]:
    result = passages(headings, texts=texts)
    return ContextRetriever(FixedRetriever(result, *words), result, ContextOptions(name, chunks), 9).retrieve(
        "?", top_k
    )


def shown(*arguments: object, **named: object) -> list[list[str]]:
    return [hit.chunk.text.split() for hit in hits(*arguments, **named)]  # type: ignore[arg-type]


def test_a_hit_includes_its_neighbours_and_the_text_between_them() -> None:
    [hit] = hits("neighbours", 1, "two")
    assert hit.chunk.text == "one\n  two\nthree"
    assert (hit.chunk.start, hit.chunk.end) == (6, 21)
    assert TEXT[hit.chunk.start : hit.chunk.end] == hit.chunk.text
    assert (hit.chunk.start_line, hit.chunk.end_line) == (3, 5)
    assert (hit.chunk.id, hit.score, dict(hit.scores), hit.rank) == ("two", 8.0, {"dense": 0.5}, 1)


def test_there_are_no_neighbours_beyond_the_ends_of_a_document() -> None:
    assert shown("neighbours", 1, "zero") == [["zero", "one"]]
    assert shown("neighbours", 2, "five") == [["three", "four", "five"]]
    assert shown("neighbours", 99, "three") == [WORDS]


def test_texts_do_not_overlap_and_higher_hits_take_precedence() -> None:
    assert shown("neighbours", 1, "one", "three", "four") == [["zero", "one", "two"], ["three", "four"]]
    assert shown("neighbours", 1, "four", "one") == [["three", "four", "five"], ["zero", "one", "two"]]
    assert shown("neighbours", 1, "two", "five") == [["one", "two", "three"], ["four", "five"]]


def test_a_hit_inside_the_text_of_a_higher_one_is_dropped_without_gaps_in_ranks() -> None:
    result = hits("neighbours", 1, "one", "two", "five")
    assert [(hit.chunk.id, hit.rank, hit.score) for hit in result] == [("one", 1, 8.0), ("five", 2, 6.0)]


def test_lower_hits_fill_the_list_up_to_top_k() -> None:
    assert shown("neighbours", 1, "one", "two", "zero", "five", top_k=2) == [["zero", "one", "two"], ["four", "five"]]


def test_parents_are_grouped_from_the_first_chunk_under_a_heading() -> None:
    assert shown("parent", 2, "zero") == [["zero", "one"]]
    assert shown("parent", 2, "one", "four") == [["zero", "one"], ["four", "five"]]
    assert shown("parent", None, "five", "two") == [["four", "five"], ["zero", "one", "two", "three"]]


def test_a_parent_ends_where_its_heading_ends() -> None:
    assert shown("parent", 4, "two", headings="AABBBB") == [["two", "three", "four", "five"]]
    assert shown("parent", 4, "one", headings="AABBBB") == [["zero", "one"]]
    assert shown("parent", 2, "three", headings="ABBBBB") == [["three", "four"]]


def test_children_of_one_parent_are_one_hit_with_the_score_of_the_best() -> None:
    result = hits("parent", 3, "four", "five", "three")
    assert [(hit.chunk.id, hit.chunk.text, hit.score) for hit in result] == [("four", "three\n\nfour\nfive", 8.0)]


def test_without_the_text_of_its_document_a_chunk_is_not_extended() -> None:
    assert shown("neighbours", 1, "one", "two", texts=False) == [["one"], ["two"]]


def test_a_chunk_without_a_known_span_is_not_extended() -> None:
    result = passages()
    odd = replace(result.chunks([1])[0], end=8, text="on")
    inner = FixedRetriever(result)
    inner._chunks = [odd]
    assert ContextRetriever(inner, result, ContextOptions(), 9).retrieve("?")[0].chunk is odd


def test_covered_ranges_clip_the_limits_but_never_the_hit() -> None:
    assert clip_to_uncovered((0, 100), (40, 60), []) == (0, 100)
    assert clip_to_uncovered((0, 100), (40, 60), [(70, 90), (5, 20)]) == (20, 70)
    assert clip_to_uncovered((0, 100), (40, 60), [(50, 90), (5, 45)]) == (40, 60)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "uncles"}, "context.name must be one of neighbours, parent"),
        ({"chunks": 0}, "context.chunks must be an integer >= 1, or null"),
    ],
)
def test_options_out_of_range_are_rejected(options: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        ContextOptions(**options)  # type: ignore[arg-type]  # on purpose of any kind

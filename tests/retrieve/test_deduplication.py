"""Near-duplicates: their detection, and filling the list with lower hits."""

from __future__ import annotations

import pytest

from ragkit.errors import InvalidOption
from ragkit.records import Hit, Where
from ragkit.retrieve.base import Explanation
from ragkit.retrieve.deduplication import DeduplicatingRetriever, deduplicate, shingles
from ragkit.retrieve.options import DistinctOptions
from tests.retrieve.passages import chunk


class FixedRetriever:
    """A retriever that finds these texts, in this order."""

    def __init__(self, *texts: str) -> None:
        self.texts, self.asked = texts, list[int]()

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The first hits."""
        assert top_k is not None
        self.asked.append(top_k)
        hits = [Hit(chunk(text), -at, {}, at) for at, text in enumerate(self.texts, start=1)]
        return [Explanation(hit) for hit in hits[:top_k]]

    def retrieve(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The first hits."""
        return [item.hit for item in self.explain(question, top_k, where)]


def found_ids(inner: FixedRetriever, top_k: int, likeness: float = 0.8) -> list[tuple[str, int]]:
    retriever = DeduplicatingRetriever(inner, DistinctOptions(likeness), 8)
    return [(hit.chunk.text, hit.rank) for hit in retriever.retrieve("?", top_k)]


def test_shingles_are_lower_case_word_trigrams() -> None:
    assert shingles("One two, THREE four") == {"one two three", "two three four"}
    assert shingles("one, two") == {"one two"}
    assert shingles("?!") == {"?!"}


def test_of_two_texts_that_contain_each_other_the_higher_ranked_is_kept() -> None:
    long, part, other = "a b c d e f g h", "b c d e f", "x y z"
    assert deduplicate([long, part, other], 1.0) == [0, 2]
    assert deduplicate([part, long, other], 1.0) == [0, 2]


def test_similarity_is_the_share_of_shingles_of_the_shorter_text() -> None:
    first, second = "a b c d e f", "c d e f x y z"  # 4 and 5 shingles, 2 of them shared: half of the shorter
    assert deduplicate([first, second], 0.5) == [0]
    assert deduplicate([first, second], 0.51) == [0, 1]


def test_chunks_that_overlap_by_a_fifth_are_not_duplicates() -> None:
    words = [f"w{n}" for n in range(180)]
    assert deduplicate([" ".join(words[:100]), " ".join(words[80:180])], 0.8) == [0, 1]


def test_texts_without_words_are_duplicates_if_equal() -> None:
    assert deduplicate(["", "?!", "", "!?", "?!"], 0.8) == [0, 1, 3]


def test_lower_hits_replace_duplicates() -> None:
    inner = FixedRetriever("one two three", "One two three.", "ONE two three", "one, two three", "four", "five", "six")
    assert found_ids(inner, 3) == [("one two three", 1), ("four", 2), ("five", 3)]
    assert inner.asked == [6]
    assert found_ids(inner, 4) == [("one two three", 1), ("four", 2), ("five", 3), ("six", 4)]
    assert inner.asked == [6, 8]


def test_the_search_continues_until_there_are_enough_hits_or_no_more() -> None:
    inner = FixedRetriever(*["one two three"] * 9, "four")
    assert found_ids(inner, 2) == [("one two three", 1), ("four", 2)]
    assert inner.asked == [4, 8, 16]
    assert found_ids(FixedRetriever("one two three", "one two three"), 5) == [("one two three", 1)]


@pytest.mark.parametrize("likeness", [0.0, 1.5, -1.0])
def test_a_likeness_out_of_range_is_rejected(likeness: float) -> None:
    with pytest.raises(InvalidOption, match=r"distinct.likeness must be > 0 and <= 1"):
        DistinctOptions(likeness)


def test_less_than_one_hit_is_rejected() -> None:
    with pytest.raises(InvalidOption, match="top_k must be an integer >= 1"):
        found_ids(FixedRetriever("a"), 0)


def test_templated_documents_are_searched_to_a_bounded_depth() -> None:
    inner = FixedRetriever(*["the same line"] * 10_000)
    assert found_ids(inner, 8) == [("the same line", 1)]
    assert inner.asked == [16, 32, 64, 128]
    inner = FixedRetriever(*["the same line"] * 10_000)
    assert found_ids(inner, 20) == [("the same line", 1)]
    assert inner.asked[-1] == 320

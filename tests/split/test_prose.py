"""The default splitter on running text: boundaries, overlap, and the effect of an edit."""

from __future__ import annotations

import random
from bisect import bisect_left
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragkit.errors import InvalidOption
from ragkit.records import Document
from ragkit.split.base import CharSpan, character_starts
from ragkit.split.options import RecursiveOptions
from ragkit.split.recursive import RecursiveSplitter
from ragkit.split.sentence_segmentation import sentence_spans
from tests.split.samples import paragraph, prose, recursive, sentence, texts, word_starts


def words(text: str) -> int:
    return len(text.split())


def overlaps(document: Document, spans: list[CharSpan]) -> list[str]:
    """The overlap of each chunk with the previous one."""
    return [document.text[after[0] : max(after[0], before[1])] for before, after in pairwise(spans)]


def separated(text: str, separators: tuple[str, ...], chunk_size: int) -> list[str]:
    document = Document(text)
    splitter = RecursiveSplitter(RecursiveOptions(chunk_size, 0, "characters", separators))
    return texts(document, list(splitter.spans(document, character_starts)))


def test_a_text_that_fits_is_one_chunk() -> None:
    assert recursive(Document("One sentence. Another one.\n\nA paragraph.")) == [(0, 40)]


def test_paragraphs_are_preferred_to_sentences() -> None:
    rng = random.Random(1)
    paragraphs = [" ".join(sentence(rng, 15, 15) for _ in range(4)) for _ in range(3)]
    document = Document("\n\n".join(paragraphs))
    assert texts(document, recursive(document, 80, 0)) == paragraphs


def test_sentences_are_preferred_to_words() -> None:
    document = Document(" ".join(sentence(random.Random(seed), 9, 9) for seed in range(40)))
    assert all(text.endswith(".") for text in texts(document, recursive(document, 25, 0)))


def test_the_text_after_a_colon_stays_with_it() -> None:
    filling = [sentence(random.Random(seed), 12, 12) for seed in range(5)]
    text = f"{filling[0]} {filling[1]}\n\n{filling[2]}\n\nThe steps are:\n\n{filling[3]} {filling[4]}"
    document = Document(text)
    assert texts(document, recursive(document, 39, 0))[1].startswith("The steps are:\n\n")


def test_a_sentence_longer_than_a_chunk_is_cut_at_clauses_or_words() -> None:
    long = " ".join(f"word{number}{',' if number % 12 == 0 else ''}" for number in range(300))
    document = Document(long)
    pieces = texts(document, recursive(document, 40, 0))
    assert " ".join(pieces) == long
    assert sum(piece.endswith(",") for piece in pieces[:-1]) >= 0.8 * (len(pieces) - 1)


def test_a_word_longer_than_a_chunk_is_cut_between_characters() -> None:
    document = Document("x" * 1000)
    spans = list(RecursiveSplitter(RecursiveOptions(100, 0, "characters")).spans(document, word_starts))
    assert "".join(texts(document, spans)) == document.text


def test_a_long_word_is_split_even_if_it_is_one_token() -> None:
    spans = recursive(Document("x" * 100_000))
    assert max(end - start for start, end in spans) <= 200 * 32


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("overlap", [20, 40, 60])
def test_the_overlap_has_as_many_whole_sentences_as_fit(seed: int, overlap: int) -> None:
    document = Document(prose(seed, paragraphs=60))
    spans = recursive(document, 200, overlap)
    sentences = sentence_spans(document.text)
    starts = [start for start, _ in sentences]
    for before, after in pairwise(spans):
        assert after[0] in starts
        repeated = words(document.text[after[0] : before[1]])
        earlier = starts[bisect_left(starts, after[0]) - 1]
        longer = words(document.text[earlier : before[1]])
        is_one = bisect_left(starts, before[1]) == bisect_left(starts, after[0]) + 1
        assert repeated <= overlap < longer or (is_one and overlap < repeated <= 2 * overlap)


@pytest.mark.parametrize(("size", "overlap", "repeated"), [(100, 15, 30), (100, 14, 0), (59, 16, 0)])
def test_the_overlap_has_a_whole_sentence_or_nothing(size: int, overlap: int, repeated: int) -> None:
    document = Document(" ".join(sentence(random.Random(seed), 30, 30) for seed in range(20)))
    found = [words(text) for text in overlaps(document, recursive(document, size, overlap))]
    assert found.count(repeated) > 0.8 * len(found)
    assert set(found) <= {0, repeated}


def test_the_overlap_has_whole_table_rows_or_nothing() -> None:
    rows = [f"name: item {number}; " + "; ".join(["note: words of it"] * (3 + number % 9)) for number in range(40)]
    document = Document("\n".join(rows), format="csv")
    starts = {document.text.index(row) for row in rows}
    assert {start for start, _ in recursive(document, 100, 20)} <= starts


def test_chunks_do_not_overlap_with_an_overlap_of_zero() -> None:
    document = Document(prose(5, paragraphs=30))
    assert set(overlaps(document, recursive(document, 100, 0))) == {""}


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(5, 80), st.data())
def test_no_chunk_is_only_overlap(seed: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    document = Document(prose(seed, paragraphs=8))
    spans = recursive(document, size, overlap)
    assert all(document.text[before[1] : after[1]].strip() for before, after in pairwise(spans))
    longest = max(overlap, min(2 * overlap, size // 2))
    assert all(words(text) <= longest for text in overlaps(document, spans))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("edit", ["A new sentence stands here. ", "New.\n\n", "One. Two, three and four. Five, six. "])
def test_an_edit_at_the_top_of_a_plain_text_changes_few_chunks(seed: int, edit: str) -> None:
    old = Document(prose(seed))
    new = Document(edit + old.text)
    before, after = texts(old, recursive(old)), texts(new, recursive(new))
    assert len(set(after) - set(before)) < 0.1 * len(after)
    assert sum(words(text) for text in after) / len(after) > 160  # of 200: stable boundaries do not reduce the fill


@pytest.mark.parametrize("position", [0.25, 0.5, 0.99])
def test_an_edit_within_a_text_keeps_the_chunks_on_both_sides(position: float) -> None:
    paragraphs = prose(7).split("\n\n")
    index = int(position * len(paragraphs))
    old = Document("\n\n".join(paragraphs))
    new = Document("\n\n".join([*paragraphs[:index], paragraph(random.Random(99)), *paragraphs[index + 1 :]]))
    before, after = texts(old, recursive(old)), texts(new, recursive(new))
    assert len(set(after) - set(before)) < 0.1 * len(after)


@pytest.mark.parametrize("stop", [". ", " "])
def test_an_edit_at_the_top_of_one_long_line_changes_few_chunks(stop: str) -> None:
    old = Document(prose(8).replace("\n\n", " ").replace(". ", stop))
    new = Document(f"Something new{stop}" + old.text)
    before, after = texts(old, recursive(old)), texts(new, recursive(new))
    assert len(set(after) - set(before)) < 0.2 * len(after)


def test_chinese_is_split_after_end_punctuation() -> None:
    document = Document("今天天气很好，我们去公园散步。" * 40)
    splitter = RecursiveSplitter(RecursiveOptions(100, 20, "characters"))
    pieces = texts(document, list(splitter.spans(document, word_starts)))
    assert all(piece.endswith("。") and piece.startswith("今天") for piece in pieces)


def test_thai_is_split_between_grapheme_clusters() -> None:
    line = "ที่นี่มีน้ำใจ" * 60
    spans = RecursiveSplitter(RecursiveOptions(50, 0, "characters")).spans(Document(line), word_starts)
    marks = {position for position, character in enumerate(line) if character in "ี่้ำ"}
    assert {start for start, _ in spans} & marks == set()
    assert "".join(line[start:end] for start, end in spans) == line


def test_every_kind_of_line_break_separates_paragraphs() -> None:
    rng = random.Random(3)
    paragraphs = [" ".join(sentence(rng, 15, 15) for _ in range(4)) for _ in range(3)]
    for end in ("\n", "\r\n", "\r"):
        document = Document(f"{end}{end}".join(paragraphs))
        assert texts(document, recursive(document, 80, 0)) == paragraphs


def test_separators_are_used_in_order_of_preference() -> None:
    assert separated("aaa;bb;c|ddd;ee;f|ggg;hh", ("|", ";"), 9) == ["aaa;bb;c|", "ddd;ee;f|", "ggg;hh"]
    assert separated("aaa;bb;c|ddd;ee;f|ggg;hh", (";", "|"), 9) == ["aaa;bb;", "c|ddd;ee;", "f|ggg;hh"]


def test_separators_are_kept_and_may_be_consecutive() -> None:
    assert separated("aa--bb----cc--", ("--",), 4) == ["aa--", "bb--", "--", "cc--"]


def test_text_without_separators_is_split_at_words_and_characters() -> None:
    assert separated("one two three|abcdefghij", ("|", ""), 10) == ["one two", "three|", "abcdefghij"]
    assert "".join(separated("abcdefghijklm|", ("|", ""), 5)) == "abcdefghijklm|"


def test_separators_must_be_a_list_of_strings() -> None:
    with pytest.raises(InvalidOption, match=r"separators must be a list of strings \(got 'abc'\)"):
        RecursiveOptions(separators="abc")  # type: ignore[arg-type]  # invalid type on purpose


def test_a_separator_at_the_end_of_a_line_leaves_no_empty_chunk() -> None:
    assert texts(Document("a，\nriver."), recursive(Document("a，\nriver."), 1, 0)) == ["a，", "river."]

"""Chunk records: ids, offsets, headers, and the text that is embedded."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragkit.records import Chunk, Document, Heading
from ragkit.split.chunks import MAX_HEADER_TOKENS, SPECIAL_TOKENS, build_chunks, embedding_text
from ragkit.split.options import RecursiveOptions, SplitOptions
from ragkit.split.recursive import RecursiveSplitter
from ragkit.split.sentence import SentenceSplitter
from tests.split.samples import handbook, prose, word_starts


def chunks(document: Document, chunk_size: int = 200, chunk_overlap: int = 40, fingerprint: str = "r") -> list[Chunk]:
    return build_chunks(
        document, RecursiveSplitter(RecursiveOptions(chunk_size, chunk_overlap)), word_starts, fingerprint
    )


def with_headings(text: str, title: str = "") -> Document:
    headings, offset = [], 0
    for line in text.split("\n"):
        if line.startswith("#"):
            marks, words = line.split(" ", 1)
            headings.append(Heading(offset, len(marks), words))
        offset += len(line) + 1
    return Document(text, format="markdown", source="/docs/a.md", title=title, headings=tuple(headings))


def test_a_chunk_is_a_span_of_its_document() -> None:
    document = with_headings(handbook(1, sections=10))
    for chunk in chunks(document):
        assert document.text[chunk.start : chunk.end] == chunk.text
        assert (chunk.source, chunk.document_id) == (document.source, document.id)


def test_metadata_and_title_are_those_of_the_document() -> None:
    document = Document("Some text.", metadata={"lang": "en"}, title="A title", source="/a.txt")
    [chunk] = chunks(document)
    assert (chunk.metadata, chunk.title, chunk.source) == ({"lang": "en"}, "A title", "/a.txt")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_numbers_start_at_one_for_every_line_break(end: str) -> None:
    document = Document(end.join(["", "one two", "three four", "", "five six", ""]))
    result = chunks(document, 4, 0)
    assert [(chunk.text, chunk.start_line, chunk.end_line) for chunk in result] == [
        (f"one two{end}three four", 2, 3),
        ("five six", 5, 5),
    ]


def test_the_page_is_that_of_the_first_new_character() -> None:
    first, second = "One two three four. Five six.", "Seven eight nine ten eleven twelve."
    document = Document(f"{first}\n\n{second}", page_starts=(0, len(first) + 2))
    assert [(chunk.page, chunk.text) for chunk in chunks(document, 8, 2)] == [(1, first), (2, f"Five six.\n\n{second}")]


def test_without_pages_there_is_no_page() -> None:
    assert [chunk.page for chunk in chunks(Document("Text."))] == [None]


def test_the_heading_path_is_that_of_the_first_new_character() -> None:
    filling = " ".join(["word"] * 20) + "."
    document = with_headings(f"# Book\n\n## One\n\n{filling}\n\n### Part\n\n{filling}\n\n## Two\n\n{filling}", "Book")
    assert [chunk.heading for chunk in chunks(document, 30, 5)] == [("Book",), ("Book", "One", "Part"), ("Book", "Two")]
    assert [chunk.header for chunk in chunks(document, 30, 5)] == ["Book", "Book > One > Part", "Book > Two"]


@settings(max_examples=40)
@given(st.integers(0, 1000))
def test_heading_paths_equal_those_of_the_document(seed: int) -> None:
    document = with_headings(handbook(seed, sections=8))
    splitter = SentenceSplitter(SplitOptions(30, 0))
    for chunk in build_chunks(document, splitter, word_starts, ""):
        assert chunk.heading == document.heading_path_at(chunk.start)


def test_ids_are_stable_and_unique_within_a_document() -> None:
    document = with_headings(handbook(2))
    ids = [chunk.id for chunk in chunks(document)]
    assert ids == [chunk.id for chunk in chunks(document)]
    assert len(set(ids)) == len(ids)


def test_a_chunk_that_moves_keeps_its_id() -> None:
    text = handbook(3)
    old = chunks(with_headings(text))
    new = chunks(with_headings(text.replace("# The handbook\n\n", "# The handbook\n\nA new sentence is here. ")))
    assert len({chunk.id for chunk in new} - {chunk.id for chunk in old}) < 0.05 * len(new)
    assert new[-1].start > old[-1].start
    assert new[-1].id == old[-1].id


def test_equal_chunks_of_a_document_have_different_ids() -> None:
    result = chunks(Document("Same words here.\n\n" * 3, source="/a"), 3, 0)
    assert [chunk.text for chunk in result] == ["Same words here."] * 3
    assert len({chunk.id for chunk in result}) == 3


@pytest.mark.parametrize(
    "other",
    [
        Document("Some text.", source="/b"),
        Document("Some texts.", source="/a"),
        Document("Some text.", source="/a", title="Title"),
    ],
)
def test_an_id_depends_on_source_text_and_header(other: Document) -> None:
    assert chunks(other)[0].id != chunks(Document("Some text.", source="/a"))[0].id


def test_an_id_depends_on_the_fingerprint() -> None:
    document = Document("Some text.", source="/a")
    assert chunks(document, fingerprint="1")[0].id != chunks(document, fingerprint="2")[0].id


def test_documents_without_a_source_are_identified_by_their_id() -> None:
    assert chunks(Document("Text.", id="1"))[0].id != chunks(Document("Text.", id="2"))[0].id


def test_an_empty_document_has_no_chunks() -> None:
    assert chunks(Document(" \n ")) == []


def chunk_with(title: str, *heading: str) -> Chunk:
    return Chunk("id", "d", "/a", "The text.", 0, 9, 1, 1, heading=heading, title=title)


def test_the_header_is_a_line_before_the_text() -> None:
    assert embedding_text(chunk_with("Title", "Title", "Part")) == "Title > Part\nThe text."
    assert embedding_text(chunk_with("")) == "The text."


def test_a_long_header_loses_headings_from_its_middle_first() -> None:
    long = " ".join(["middle"] * 40)
    assert embedding_text(chunk_with("Title", long, "Section", "Detail")) == "Title > Section > Detail\nThe text."


def test_a_long_header_is_cut_at_words() -> None:
    header, text = embedding_text(chunk_with(" ".join(f"w{number}" for number in range(100)))).split("\n")
    assert header == " ".join(f"w{number}" for number in range(MAX_HEADER_TOKENS))
    assert text == "The text."


@given(st.text(max_size=400), st.lists(st.text(max_size=100), max_size=5))
def test_a_header_never_exceeds_its_limit(title: str, heading: list[str]) -> None:
    header = embedding_text(chunk_with(title, *heading), word_starts).removesuffix("The text.")
    assert len(word_starts(header)) <= MAX_HEADER_TOKENS
    assert header.count("\n") <= 1


def test_a_title_of_a_million_letters_is_cut() -> None:
    assert len(embedding_text(chunk_with("x" * 1_000_000))) < 1500


@pytest.mark.parametrize(
    ("header_tokens", "room"), [(MAX_HEADER_TOKENS, 256 - SPECIAL_TOKENS - MAX_HEADER_TOKENS), (0, 254)]
)
def test_chunks_leave_room_for_header_and_special_tokens(header_tokens: int, room: int) -> None:
    document = Document(prose(1))
    splitter = RecursiveSplitter(RecursiveOptions(400, 40))
    result = build_chunks(document, splitter, word_starts, "", header_tokens, max_tokens=256)
    assert room - 20 < max(len(chunk.text.split()) for chunk in result) <= room


def test_the_default_chunk_size_leaves_room_for_the_header() -> None:
    document = Document(prose(1))
    splitter = RecursiveSplitter(RecursiveOptions())
    assert build_chunks(document, splitter, word_starts, "r", max_tokens=256) == chunks(document)


def test_chunks_measured_in_characters_reserve_nothing() -> None:
    document = Document(prose(1))
    splitter = RecursiveSplitter(RecursiveOptions(1000, 100, "characters"))
    assert build_chunks(document, splitter, word_starts, "", max_tokens=256) == build_chunks(
        document, splitter, word_starts, ""
    )

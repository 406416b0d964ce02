"""The public text splitters."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ragkit.errors import InvalidOption
from ragkit.records import Document, Heading
from ragkit.split.text_splitters import RecursiveTextSplitter, TextSplitter
from ragkit.split.token_index import estimate_token_starts
from tests.split.samples import prose


def test_chunks_do_not_exceed_the_chunk_size() -> None:
    text = prose(1, paragraphs=20)
    for splitter in (TextSplitter(300, 50), RecursiveTextSplitter(300, 50)):
        pieces = splitter.split_text(text)
        assert 200 < max(map(len, pieces)) <= 300


def test_tokens_are_estimated_without_a_model() -> None:
    pieces = RecursiveTextSplitter(50, 10, unit="tokens").split_text(prose(2, paragraphs=20))
    assert 45 < max(len(estimate_token_starts(piece)) for piece in pieces) <= 50


def test_chunks_overlap() -> None:
    pieces = RecursiveTextSplitter(600, 120).split_text(prose(3, paragraphs=20))
    for before, after in pairwise(pieces):
        shared = max(size for size in range(241) if before.endswith(after[:size]))
        assert shared > 5


def test_a_text_is_split_after_its_separator() -> None:
    splitter = TextSplitter(chunk_size=12, chunk_overlap=0, separator="|")
    assert splitter.split_text("first one|second one|third one") == ["first one|", "second one|", "third one"]


def test_separators_are_tried_in_order() -> None:
    splitter = RecursiveTextSplitter(chunk_size=12, chunk_overlap=0, separators=["|", ","])
    assert splitter.split_text("a,b,c,d,e|f,g,h,i,j|k") == ["a,b,c,d,e|", "f,g,h,i,j|k"]


def test_separators_may_be_a_string() -> None:
    splitter = RecursiveTextSplitter(12, 0, separators="|")
    assert splitter.split_text("first one|second one") == ["first one|", "second one"]


def test_a_chunk_has_the_offsets_and_metadata_of_its_document() -> None:
    text = prose(4, paragraphs=10)
    document = Document(text, metadata={"lang": "en"}, source="/a.txt", title="A", format="text", language="")
    pieces = RecursiveTextSplitter(400, 50).split_documents([document])
    for piece in pieces:
        start, end = piece.metadata["start"], piece.metadata["end"]
        assert isinstance(start, int)
        assert isinstance(end, int)
        assert piece.text == text[start:end]
        assert (piece.source, piece.title, piece.metadata["lang"]) == ("/a.txt", "A", "en")
    assert document.metadata == {"lang": "en"}


def test_the_chunks_of_several_documents_are_in_order() -> None:
    documents = [Document("First text.", source="/1"), Document(" \n"), Document("Second text.", source="/2")]
    pieces = TextSplitter().split_documents(documents)
    assert [(piece.source, piece.text) for piece in pieces] == [("/1", "First text."), ("/2", "Second text.")]


def test_ids_of_chunks_are_stable_and_unique() -> None:
    document = Document("Same words.\n\nSame words.\n\nOther words.", source="/a")
    splitter = TextSplitter(12, 0)
    ids = [piece.id for piece in splitter.split_documents([document])]
    assert ids == [piece.id for piece in splitter.split_documents([document])]
    assert len(set(ids)) == 3


def test_markdown_documents_are_split_at_headings() -> None:
    text = "## One\n\n" + "word " * 30 + "\n\n## Two\n\n" + "word " * 30
    pieces = RecursiveTextSplitter(200, 40).split_documents([Document(text, format="markdown")])
    assert [piece.text[:6] for piece in pieces] == ["## One", "## Two"]


@pytest.mark.parametrize("kind", [TextSplitter, RecursiveTextSplitter])
def test_sizes_out_of_range_are_rejected(kind: type[TextSplitter]) -> None:
    with pytest.raises(
        InvalidOption, match=r"chunk_overlap must be an integer from 0 to 99 \(chunk_size - 1\) \(got 100\)"
    ):
        kind(100, 100)


def test_an_empty_text_has_no_chunks() -> None:
    assert TextSplitter().split_text("") == []


def test_a_chunk_keeps_pages_headings_and_line_numbers() -> None:
    text = "# One\nfirst line\nsecond line\n\n## Two\nthird line\nfourth line\n"
    two = text.index("## Two")
    document = Document(
        text, source="/a.pdf", page_starts=(0, two), headings=(Heading(0, 1, "One"), Heading(two, 2, "Two"))
    )
    first, second = RecursiveTextSplitter(40, 0).split_documents([document])
    assert (second.page_at(0), second.heading_path_at(0)) == (2, ("One", "Two"))
    places = [
        (part.metadata["start_line"], part.metadata["end_line"], part.metadata["page"]) for part in (first, second)
    ]
    assert places == [(1, 3, 1), (5, 7, 2)]
    assert second.metadata["heading"] == ["One", "Two"]
    [again] = RecursiveTextSplitter(400, 0).split_documents([second])
    assert (again.page_at(0), again.heading_path_at(0), again.metadata["start_line"]) == (2, ("One", "Two"), 5)


def test_pages_of_one_source_with_equal_text_are_two_chunks() -> None:
    pages = [Document("Page footer.", {"source": "/a.pdf", "page": page}) for page in (1, 2)]
    chunks = RecursiveTextSplitter().split_documents(pages)
    assert [(chunk.source, chunk.page_at(0)) for chunk in chunks] == [("/a.pdf", 1), ("/a.pdf", 2)]
    assert chunks[0].id != chunks[1].id

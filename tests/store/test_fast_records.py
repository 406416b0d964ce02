"""Records created without their constructors equal constructed ones."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from ragkit.records import Document, Heading, SearchResult
from ragkit.store.fast_records import build_document, build_results


def test_a_fast_document_equals_a_constructed_one_field_by_field() -> None:
    headings = (Heading(0, 1, "top"),)
    created = build_document("text", {"a": 1}, "source", "title", (0, 7), headings, "pdf", "python", "id")
    assert created == Document(
        text="text",
        metadata={"a": 1},
        source="source",
        title="title",
        page_starts=(0, 7),
        headings=headings,
        format="pdf",
        language="python",
        id="id",
    )


def test_a_fast_document_is_frozen() -> None:
    created = build_document("text", {}, "", "", (), (), "", "", "id")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'text'"):
        created.text = "other"  # type: ignore[misc]  # on purpose


def test_fast_results_pair_documents_with_scores() -> None:
    documents = [Document("a", id="1"), Document("b", id="2")]
    assert build_results(documents, [0.5, 0.25]) == [SearchResult(documents[0], 0.5), SearchResult(documents[1], 0.25)]
    assert build_results([], []) == []


def test_results_of_fewer_scores_than_documents_are_rejected() -> None:
    with pytest.raises(ValueError, match="shorter"):
        build_results([Document("a", id="1")], [])

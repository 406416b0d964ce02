"""Construct documents and results in a third of the time of their constructors.

A frozen dataclass sets each field with `object.__setattr__`; here the slot descriptors set them. This matters for
searches that take half a millisecond in total.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ragkit.records import Document, Heading, Metadata, SearchResult


def _slot_setters(record: type[Any]) -> list[Any]:
    return [record.__dict__[field.name].__set__ for field in fields(record)]


(
    _set_text,
    _set_metadata,
    _set_source,
    _set_title,
    _set_page_starts,
    _set_headings,
    _set_format,
    _set_language,
    _set_id,
    _set_places,
    _set_parts,
) = _slot_setters(Document)
_set_document, _set_score = _slot_setters(SearchResult)
_new = object.__new__


def build_document(  # noqa: PLR0913, PLR0917  # the fields of a document
    text: str,
    metadata: Metadata,
    source: str,
    title: str,
    page_starts: tuple[int, ...],
    headings: tuple[Heading, ...],
    format: str,
    language: str,
    id: str,
) -> Document:
    """`Document(...)` with all fields, the id included, and without places and parts, which no store keeps."""
    document = _new(Document)
    _set_text(document, text)
    _set_metadata(document, metadata)
    _set_source(document, source)
    _set_title(document, title)
    _set_page_starts(document, page_starts)
    _set_headings(document, headings)
    _set_format(document, format)
    _set_language(document, language)
    _set_id(document, id)
    _set_places(document, ())
    _set_parts(document, ())
    return document


def build_results(documents: Sequence[Document], scores: Sequence[float]) -> list[SearchResult]:
    """A `SearchResult(document, score)` for each pair."""
    results = [_new(SearchResult) for _ in documents]
    for result, document, score in zip(results, documents, scores, strict=True):
        _set_document(result, document)
        _set_score(result, score)
    return results

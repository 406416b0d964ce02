"""Utilities of the adapters: portable forms of documents, batches, and complete results from any engine.

Independent of any engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

from ragkit.errors import StoreError
from ragkit.records import Document, Heading, SearchResult
from ragkit.store.base import Rows
from ragkit.store.fast_records import build_document
from ragkit.store.filters.language import FilterNode, evaluate

ItemT = TypeVar("ItemT")


def document_to_json(document: Document) -> str:
    """A document as one line of ASCII JSON, in which lone surrogates and NUL are escaped, so that any engine stores it.

    Raises:
        StoreError: an integer in the metadata exceeds Python's limit of digits.
    """
    headings = [heading.to_row() for heading in document.headings]
    values: dict[str, object] = {
        "id": document.id,
        "text": document.text,
        "metadata": document.metadata,
        "source": document.source,
        "title": document.title,
        "page_starts": list(document.page_starts),
        "headings": headings,
        "format": document.format,
        "language": document.language,
    }
    try:
        return json.dumps({name: value for name, value in values.items() if value or name == "id"})
    except ValueError as error:
        raise StoreError(f"the metadata of document {document.id!r} cannot be stored: {error}") from error


_decode_json = json.JSONDecoder().raw_decode
"""`json.loads` without skipping white space, which `json.dumps` does not write."""


def document_from_json(text: str) -> Document:
    """The inverse of `document_to_json`."""
    values = _decode_json(text)[0]
    return build_document(
        values.get("text", ""),
        values.get("metadata", {}),
        values.get("source", ""),
        values.get("title", ""),
        tuple(values.get("page_starts", ())),
        tuple([Heading(*heading) for heading in values.get("headings", ())]),
        values.get("format", ""),
        values.get("language", ""),
        values["id"],
    )


def deduplicate_by_id(documents: Sequence[Document], rows: Rows) -> tuple[list[Document], Rows]:
    """The last document of each id, ordered by id, with their rows."""
    positions = {document.id: position for position, document in enumerate(documents)}
    selected = [positions[name] for name in sorted(positions)]
    return [documents[position] for position in selected], rows[selected]


def expected_dimension(
    stored: int, shape: tuple[int, ...], is_empty: Callable[[], bool], option: int | None
) -> int | None:
    """The dimension that vectors of `shape` must have; None for any.

    An empty collection does not fix the dimension. It is counted only if its dimension differs.
    """
    return option if not stored or (stored not in shape[-1:] and is_empty()) else stored


def batches(items: Sequence[ItemT], size: int) -> Iterator[Sequence[ItemT]]:
    """Batches of at most `size` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def normalize_number(value: float) -> int | float:
    """An integral float as an int, so that its decimal digits are exact: 1e23 is 99999999999999991611392."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def escape_text(text: str) -> str:
    """Escape NUL and lone surrogates, which most engines reject; other texts are unchanged.

    The escaped texts are distinct, and have the same order by code point.
    """
    if text.isascii() and "\0" not in text and "\1" not in text:
        return text
    return "".join(_ESCAPES.get(character) or _escape_surrogate(character) for character in text)


_ESCAPES = {"\0": "\1\1", "\1": "\1\2", "\ue000": "\ue000\uf000"}


def _escape_surrogate(character: str) -> str:
    """A lone surrogate as U+E000, the first character above the surrogates, and a character below U+F000."""
    code = ord(character)
    return "\ue000" + chr(0x1000 + code - 0xD800) if 0xD800 <= code < 0xE000 else character


SCORE_TOLERANCE = 2e-6
"""Maximum error of the float32 scores of an engine; documents with closer scores may be in the wrong order."""
_EXTRA_RESULTS = 1
"""Documents fetched beyond `top_k`, to detect ties with the last result."""
_MIN_REFETCH = 64
"""Minimum number of documents of a second fetch."""


def collect_top_k(
    fetch: Callable[[int], Sequence[SearchResult]],
    node: FilterNode,
    top_k: int,
    exact: Callable[[Sequence[Document]], Sequence[float]] | None = None,
) -> list[SearchResult]:
    """The best `top_k` documents that match the filter, ties ordered by id, with scores clipped to [-1, 1].

    Args:
        fetch: returns up to the given number of the best candidates; fewer only if there are no more. The candidates
            include all documents that match the filter, and possibly others.
        node: the filter; the reference evaluator applies it.
        top_k: the number of results.
        exact: returns the float64 scores of some documents, if `fetch` returns the scores of the engine. It is called
            for documents whose scores are so close that the engine may have confused their order.
    """
    limit = top_k + _EXTRA_RESULTS
    while True:
        candidates = fetch(limit)
        matches = [result for result in candidates if evaluate(node, result.document.metadata)]
        matches.sort(key=_sort_key)
        is_all = len(candidates) < limit
        # a document that was not fetched may tie with the last result, and have a lower id
        worst = min((result.score for result in candidates), default=0.0)
        if is_all or (len(matches) >= top_k and worst < matches[top_k - 1].score - SCORE_TOLERANCE):
            if exact is not None:
                matches = _rescore_near_ties(matches, top_k, exact)
            return [SearchResult(result.document, max(-1.0, min(1.0, result.score))) for result in matches[:top_k]]
        limit = max(4 * limit, _MIN_REFETCH)


def _sort_key(result: SearchResult) -> tuple[float, str]:
    return -result.score, result.document.id


def _rescore_near_ties(
    ranked: Sequence[SearchResult], top_k: int, exact: Callable[[Sequence[Document]], Sequence[float]]
) -> list[SearchResult]:
    """The first `top_k` results and those that nearly tie with the last; near ties get exact scores."""
    results = list(ranked[:1])
    for previous, result in pairwise(ranked):
        if len(results) >= top_k and previous.score - result.score > SCORE_TOLERANCE:
            break
        results.append(result)
    ties = [index for index, (a, b) in enumerate(pairwise(results)) if a.score - b.score <= SCORE_TOLERANCE]
    positions = sorted({*ties, *(index + 1 for index in ties)})
    if positions:
        scores = exact([results[position].document for position in positions])
        for position, score in zip(positions, scores, strict=True):
            results[position] = SearchResult(results[position].document, score)
        results.sort(key=_sort_key)
    return results

"""What stores that live in somebody else's engine have in common: documents and metadata in forms that any engine
takes, and answers that are complete although the engine's own may not be.

Nothing here knows an engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from ragkit.errors import StoreError
from ragkit.records import Document, Heading, SearchResult
from ragkit.store.base import Rows
from ragkit.store.fast_records import build_document
from ragkit.store.filters.language import FilterNode, evaluate

ItemT = TypeVar("ItemT")


def document_to_json(document: Document) -> str:
    """A document as one line of ASCII JSON: lone surrogates and NUL are escaped, so that any engine can hold it.

    Raises:
        StoreError: a number in its metadata has more digits than Python reads.
    """
    headings = [[heading.start, heading.level, heading.text] for heading in document.headings]
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
"""`json.loads` without its look for blanks, of which `json.dumps` leaves none."""


def document_from_json(text: str) -> Document:
    """The document that `document_to_json` made a text of."""
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
    """Of documents with one id only the last, in the order of the ids, with their rows."""
    places = {document.id: place for place, document in enumerate(documents)}
    kept = [places[name] for name in sorted(places)]
    return [documents[place] for place in kept], rows[kept]


def batches(items: Sequence[ItemT], size: int) -> Iterator[Sequence[ItemT]]:
    """The items in runs of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def batches_by_size(
    items: Sequence[ItemT], sizes: Sequence[int], max_items: int, max_size: int
) -> Iterator[list[ItemT]]:
    """The items in runs of at most `max_items`, and of at most `max_size` together, but for one that is larger."""
    run: list[ItemT] = []
    total = 0
    for item, size in zip(items, sizes, strict=True):
        if run and (total + size > max_size or len(run) == max_items):
            yield run
            run, total = [], 0
        run.append(item)
        total += size
    if run:
        yield run


def normalize_number(value: float) -> int | float:
    """A whole number as an int, so that its decimal digits are exact: 1e23 is 99999999999999991611392."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def escape_text(text: str) -> str:
    """A text without NUL and lone surrogates, which few engines take; other texts stay as they are.

    Distinct texts stay distinct, and in the order of their code points.
    """
    if text.isascii() and "\0" not in text and "\1" not in text:
        return text
    return "".join(_ESCAPES.get(each) or _escape_surrogate(each) for each in text)


_ESCAPES = {"\0": "\1\1", "\1": "\1\2", "\ue000": "\ue000\uf000"}


def _escape_surrogate(character: str) -> str:
    """A lone surrogate as U+E000, the first character above them, and one below U+F000 in their order."""
    code = ord(character)
    return "\ue000" + chr(0x1000 + code - 0xD800) if 0xD800 <= code < 0xE000 else character


@dataclass(frozen=True, slots=True)
class EngineHit:
    """What an engine found."""

    document: Document
    score: float


SCORE_TOLERANCE = 2e-6
"""Scores of engines, which count in float32, may be off by this much: what is so near may stand in another order."""


_EXTRA_RESULTS = 1
"""Documents asked for beyond those that are wanted, to see whether the last of these ties with more."""
_MIN_REFETCH = 64
"""Documents asked for when those were too few, at least."""


def collect_top_k(
    fetch: Callable[[int], Sequence[EngineHit]],
    node: FilterNode,
    top_k: int,
    exact: Callable[[Sequence[Document]], Sequence[float]] | None = None,
) -> list[SearchResult]:
    """The best `top_k` that the filter lets through, ties by id.

    Args:
        fetch: gives the best of what may match, up to so many; fewer only where there are no more. It may give
            documents that the filter does not let through, but leaves none out that it does.
        node: the filter; what it says is decided by the reference evaluator.
        top_k: how many are wanted.
        exact: gives the scores of some documents in float64, where `fetch` gives the engine's own. It is asked about
            those that stand so near to one another that the engine may have confused them.
    """
    limit = top_k + _EXTRA_RESULTS
    while True:
        found = fetch(limit)
        kept = [each for each in found if evaluate(node, each.document.metadata)]
        kept.sort(key=_sort_key)
        is_all = len(found) < limit
        # what was cut off may tie with the last that is wanted, and have a lower id
        if is_all or (
            len(kept) >= top_k and min(each.score for each in found) < kept[top_k - 1].score - SCORE_TOLERANCE
        ):
            if exact is not None:
                kept = _rescore_near_ties(kept, top_k, exact)
            return [SearchResult(each.document, max(-1.0, min(1.0, each.score))) for each in kept[:top_k]]
        limit = max(4 * limit, _MIN_REFETCH)


def _sort_key(found: EngineHit) -> tuple[float, str]:
    return -found.score, found.document.id


def _rescore_near_ties(
    ranked: Sequence[EngineHit], top_k: int, exact: Callable[[Sequence[Document]], Sequence[float]]
) -> list[EngineHit]:
    """The first `top_k`, and what stands near to the last of them, with exact scores for all that have a neighbour."""
    kept = list(ranked[:1])
    for last, each in pairwise(ranked):
        if len(kept) >= top_k and last.score - each.score > SCORE_TOLERANCE:
            break
        kept.append(each)
    near = {
        place + side
        for place, (a, b) in enumerate(pairwise(kept))
        if a.score - b.score <= SCORE_TOLERANCE
        for side in (0, 1)
    }
    places = sorted(near)
    if places:
        scores = exact([kept[place].document for place in places])
        for place, score in zip(places, scores, strict=True):
            kept[place] = EngineHit(kept[place].document, score)
        kept.sort(key=_sort_key)
    return kept

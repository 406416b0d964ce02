"""A store under test, and the reference it is compared with: exact search over a dict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ragkit.records import JSON, Document
from ragkit.store.base import Filter, Rows, Store
from ragkit.store.filters.language import evaluate, parse_filter
from ragkit.testing.store_factory import unit_rows

DIMENSION = 8
SCORE_TOLERANCE = 1e-5
"""Maximum deviation of a score from the float64 product, due to float32 arithmetic."""


@dataclass(frozen=True)
class StoreUnderTest:
    """A store under test."""

    open: Callable[[], Store]
    """Opens the store: empty the first time, and the same store with its content later."""
    name: str = ""
    """Its name in the registry, for checks with several processes."""
    directory: Path = Path()
    """The directory of the store, for checks with several processes."""
    examples: int = 300
    """Number of random cases of a property."""
    counters: Counter[str] = field(default_factory=Counter)
    """Counts of random `cases`, and of the `searches` in them."""


Check = Callable[[StoreUnderTest], None]
StoreContents = dict[str, tuple[Document, Rows]]
"""The expected contents of a store: id -> document and vector."""


def sample_vectors() -> Rows:
    """Twelve unit vectors far from one another: random choices of them have exact ties, but no near ties."""
    return unit_rows(12, DIMENSION, seed=7)


def make_documents(ids: Iterable[str], metadata: JSON = None) -> list[Document]:
    """Short documents with these ids."""
    return [Document(f"text of {name}", metadata if isinstance(metadata, dict) else {}, id=name) for name in ids]


def exact_search(
    contents: StoreContents, query: Rows, top_k: int, filter: Filter | None = None
) -> list[tuple[str, float]]:
    """(id, score) by exact search, best first, ties by id."""
    node = parse_filter(filter)
    scored = [
        (name, min(1.0, max(-1.0, float(np.dot(row.astype(np.float64), query.astype(np.float64))))))
        for name, (document, row) in contents.items()
        if evaluate(node, document.metadata)
    ]
    return sorted(scored, key=lambda pair: (-round(pair[1], 9), pair[0]))[:top_k]


def check_search(store: Store, contents: StoreContents, query: Rows, top_k: int, filter: Filter | None = None) -> None:
    """Check that a search returns the ids, scores and documents of an exact search."""
    expected = exact_search(contents, query, top_k, filter)
    results = store.search(query, top_k, filter)
    assert_equal(
        [result.document.id for result in results],
        [name for name, _ in expected],
        f"ids found with the filter {filter!r}",
    )
    for result, (name, score) in zip(results, expected, strict=True):
        assert_equal(result.document, contents[name][0], "document found")
        if not math.isclose(result.score, score, abs_tol=SCORE_TOLERANCE) or abs(result.score) > 1:
            raise AssertionError(f"score of {name!r}: expected {score!r}, got {result.score!r}")


def check_contents(store: Store, contents: StoreContents) -> None:
    """Check that `scan` and `count` return exactly these documents, ordered by id."""
    scanned = list(store.scan())
    assert_equal([name for name, _, _ in scanned], sorted(contents), "ids in the order of scan")
    assert_equal(store.count(), len(contents), "count")
    for name, document, row in scanned:
        assert_equal(document, contents[name][0], "document scanned")
        if row.shape != contents[name][1].shape or np.abs(row - contents[name][1]).max() > 1e-6:
            raise AssertionError(f"the vector of {name!r} was changed")


def assert_equal(actual: object, expected: object, what: str) -> None:
    """Raise AssertionError unless both are equal."""
    if actual != expected:
        raise AssertionError(f"{what}: expected {expected!r}, got {actual!r}")


def assert_raises(kind: type[Exception], text: str, call: Callable[[], object]) -> None:
    """Raise AssertionError unless the call raises this error, with `text` in its message."""
    try:
        call()
    except kind as error:
        if text not in str(error):
            raise AssertionError(f"the message {str(error)!r} does not contain {text!r}") from error
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def fill_store(store: Store, documents: Sequence[Document], rows: Rows) -> StoreContents:
    """Add documents to the store; returns its expected contents if it was empty."""
    assert_equal(store.add_documents(documents, rows), [document.id for document in documents], "ids returned")
    return {document.id: (document, row) for document, row in zip(documents, rows, strict=True)}

"""A store under test, and exact search over a plain dict to hold it against."""

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
"""How far a score may be from the float64 product: what float32 arithmetic may cost."""


@dataclass(frozen=True)
class StoreUnderTest:
    """A store under test."""

    open: Callable[[], Store]
    """Opens the store: empty at first, and the same one, with what is in it, when called again."""
    name: str = ""
    """Its name in the registry; the checks that start other processes need it."""
    directory: Path = Path()
    """Where `open` opens it; the checks that start other processes need it."""
    examples: int = 300
    """How many random cases a property is tried on."""
    counters: Counter[str] = field(default_factory=Counter)
    """What the checks that try random cases count: `cases`, and the `searches` in them."""


Check = Callable[[StoreUnderTest], None]
StoreContents = dict[str, tuple[Document, Rows]]
"""What a store should hold: document and row, by id."""


def sample_vectors() -> Rows:
    """Twelve unit rows that are far from one another: random choices from them give exact ties, and no near ones."""
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
    """A search gives just the ids, scores and documents that exact search gives."""
    wanted = exact_search(contents, query, top_k, filter)
    results = store.search(query, top_k, filter)
    assert_equal(
        [result.document.id for result in results],
        [name for name, _ in wanted],
        f"ids found with the filter {filter!r}",
    )
    for result, (name, score) in zip(results, wanted, strict=True):
        assert_equal(result.document, contents[name][0], "document found")
        if not math.isclose(result.score, score, abs_tol=SCORE_TOLERANCE) or abs(result.score) > 1:
            raise AssertionError(f"score of {name!r}: {result.score!r} was met, {score!r} is right")


def check_contents(store: Store, contents: StoreContents) -> None:
    """`scan` and `count` give just these documents, in the order of their ids."""
    scanned = list(store.scan())
    assert_equal([name for name, _, _ in scanned], sorted(contents), "ids in the order of scan")
    assert_equal(store.count(), len(contents), "count")
    for name, document, row in scanned:
        assert_equal(document, contents[name][0], "document scanned")
        if row.shape != contents[name][1].shape or np.abs(row - contents[name][1]).max() > 1e-6:
            raise AssertionError(f"row of {name!r} came back changed")


def assert_equal(met: object, wanted: object, what: str) -> None:
    """Raise AssertionError unless both are equal."""
    if met != wanted:
        raise AssertionError(f"{what}: {met!r} was met, {wanted!r} is right")


def assert_raises(error: type[Exception], part: str, call: Callable[[], object]) -> None:
    """Raise AssertionError unless the call raises this error, with that part in its message."""
    try:
        call()
    except error as met:
        if part not in str(met):
            raise AssertionError(f"the message {str(met)!r} does not say {part!r}") from met
        return
    raise AssertionError(f"{error.__name__} was not raised")


def fill_store(store: Store, documents: Sequence[Document], rows: Rows) -> StoreContents:
    """Put documents into the store; returns what it should hold if it was empty."""
    assert_equal(store.add_documents(documents, rows), [document.id for document in documents], "ids returned")
    return {document.id: (document, row) for document, row in zip(documents, rows, strict=True)}

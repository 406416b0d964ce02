"""Copy a knowledge base to another vector store: fill it from the catalog, verify it, then record it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import PipelineError
from ragkit.index.catalog.directory import place_name
from ragkit.index.catalog.sqlite import Catalog
from ragkit.index.catalog.write_session import WriteSession
from ragkit.index.external_store import ExternalStore
from ragkit.index.reader import CatalogReader, CatalogSnapshot
from ragkit.index.store_comparison import StoreComparison
from ragkit.lexical.bm25_index import Bm25Index
from ragkit.pipeline.assemble import MEMORY_STORE, PipelineComponents
from ragkit.pipeline.components import ComponentConfig
from ragkit.pipeline.settings import Pipeline
from ragkit.records import JSON
from ragkit.usage.meter import Meter, use_meter

SAMPLE_SEARCHES = 24
"""Searches that test a filled store; every fourth is filtered by one source."""
TOP_K = 10
MIN_RECALL = 0.9
"""Minimum recall of an approximate store against exact search."""
RECALL_SCORE_TOLERANCE = 1e-4
"""How far below the k-th exact score a hit may be and still count: stores round scores."""


@dataclass(frozen=True)
class CopyOptions:
    """Options of a copy."""

    overwrite: bool = False
    """Accept a store that holds documents of another application, and empty it."""
    drop_old: bool = False
    """Empty the previous store once the new one is verified."""
    on_progress: Callable[[int, int], None] = lambda done, total: None
    """Called with (chunks in the store, chunks in all)."""


@dataclass(frozen=True)
class CopyReport:
    """The result of a copy."""

    kb: str
    previous_store: str
    """The previous store; '' if its settings cannot be read."""
    store: str
    """The new store; it is not used if there are problems."""
    chunks: int
    """Live chunks of the knowledge base."""
    copied: int
    """Chunks written by this copy."""
    comparison: StoreComparison | None
    """Every document and vector compared with the catalog; None if the catalog itself is searched."""
    searches_compared: int
    """Number of searches compared with exact search."""
    recall: float
    """Their mean recall."""
    problems: tuple[str, ...]
    """Why the store was rejected, one line each; empty if it was accepted."""
    notes: tuple[str, ...]
    embedding_tokens: int
    """Tokens that were embedded: 0."""
    seconds: float

    def to_json(self) -> dict[str, JSON]:
        """The shape of `copy --json`."""
        comparison = self.comparison
        return {
            "kb": self.kb,
            "from": self.previous_store,
            "to": self.store,
            "chunks": self.chunks,
            "copied": self.copied,
            "there_before": self.chunks - self.copied if comparison else 0,
            "verified": None
            if comparison is None
            else {
                "count": comparison.stored,
                "checksum": comparison.stored_checksum,
                "checksum_wanted": comparison.expected_checksum,
                "largest_gap": comparison.max_vector_distance,
                "searches": self.searches_compared,
                "recall": round(self.recall, 4),
            },
            "problems": list(self.problems),
            "notes": list(self.notes),
            "embedding_tokens": self.embedding_tokens,
            "seconds": round(self.seconds, 3),
        }


def copy_to_store(path: Path, components: PipelineComponents, options: CopyOptions) -> CopyReport:
    """Fill the store of `components.pipeline` from the catalog at `path`; see `KnowledgeBase.copy`."""
    started = time.perf_counter()
    meter = Meter()
    with use_meter(meter), WriteSession(path) as session:
        report = _copy_chunks(session, components, options)
    tokens = int(meter.usage().embedding_tokens)
    return replace(report, embedding_tokens=tokens, seconds=time.perf_counter() - started)


def _copy_chunks(session: WriteSession, components: PipelineComponents, options: CopyOptions) -> CopyReport:
    catalog, name = session.catalog, components.pipeline.store.name
    old = _load_old_pipeline(catalog)
    chunks = int(catalog.connection.execute("SELECT count(*) FROM chunks WHERE live = 1").fetchone()[0])
    report = CopyReport(
        place_name(session.directory),
        old.store.name if old else "",
        name,
        chunks,
        0,
        None,
        0,
        1.0,
        (),
        _store_notes(name),
        0,
        0.0,
    )
    external_store = components.external_store(session.directory)
    if external_store is not None and chunks:
        with closing(external_store):
            report = _fill_store(session, external_store, options, report)
    if not report.problems:
        _record_store(catalog, components.pipeline)
        if options.drop_old and old is not None:
            report = replace(
                report, notes=(*report.notes, *_empty_old_store(session, PipelineComponents(old), external_store))
            )
    return report


def _store_notes(name: str) -> tuple[str, ...]:
    if name == MEMORY_STORE:
        return ("the store 'memory' persists nothing: every process searches the catalog, so nothing was copied",)
    return ()


def _fill_store(
    session: WriteSession, external_store: ExternalStore, options: CopyOptions, report: CopyReport
) -> CopyReport:
    # by the fingerprint in the catalog, so that neither the package nor the key of the embedder is needed
    row, vectors = session.open_vectors(session.catalog.get_meta("embedder") or "", 1)
    matrix = vectors.matrix(row.rows)
    copied = external_store.sync(session.catalog, matrix, options.on_progress, overwrite=options.overwrite)
    comparison = external_store.compare(session.catalog, matrix)
    problems = list(comparison.describe_differences())
    searches, recall = (0, 1.0) if problems else _measure_recall(session.directory, external_store)
    if recall < MIN_RECALL:
        problems.append(
            f"recall must be >= {MIN_RECALL:.0%} (got {recall:.0%} in {searches} searches): "
            "raise the number of candidates of its index"
        )
    if problems:
        external_store.reset(session.catalog)  # the next attempt starts with an empty store
    return replace(
        report,
        copied=copied,
        comparison=comparison,
        searches_compared=searches,
        recall=recall,
        problems=tuple(problems),
    )


def _measure_recall(directory: Path, external_store: ExternalStore) -> tuple[int, float]:
    """(number of searches, mean recall of the store against exact search in the catalog)."""
    shares: list[float] = []
    with CatalogReader(directory, Bm25Index) as reader, reader.snapshot() as snapshot:
        for query, source in _sample_queries(snapshot):
            where: dict[str, JSON] | None = {"source": source} if source else None
            exact = [score for _, score in snapshot.search_dense(query, TOP_K, where)]
            ids = [result.document.id for result in external_store.store.search(query, TOP_K, where)]
            scores = snapshot.cosines(query, _chunk_keys(snapshot, ids)).tolist()
            right = sum(score >= exact[-1] - RECALL_SCORE_TOLERANCE for score in scores)
            shares.append(right / len(exact))
    return len(shares), sum(shares) / len(shares) if shares else 1.0


def _sample_queries(snapshot: CatalogSnapshot) -> Iterator[tuple[NDArray[np.float32], str]]:
    """(query vector, source) pairs: points between distant chunks; every fourth is filtered by a source, others ''."""
    a = snapshot.arrays
    count = len(a.chunk_keys)
    places = range(0, count, max(1, count // SAMPLE_SEARCHES))[:SAMPLE_SEARCHES]
    for number, place in enumerate(places):
        row = a.matrix[a.vector_rows[place]] + 0.5 * a.matrix[a.vector_rows[(place + count // 2) % count]]
        length = float(np.linalg.norm(row))
        if length > 0:
            source = snapshot.chunks([int(a.chunk_keys[place])])[0].source if number % 4 == 3 else ""
            yield (row / length).astype(np.float32), source


def _chunk_keys(snapshot: CatalogSnapshot, ids: Sequence[str]) -> list[int]:
    marks = ",".join("?" * len(ids))
    query = f"SELECT key FROM chunks WHERE live = 1 AND id IN ({marks})"  # noqa: S608 - marks only
    return [row[0] for row in snapshot.connection.execute(query, tuple(ids))]


def _load_old_pipeline(catalog: Catalog) -> Pipeline | None:
    """The pipeline of the last build; None if it needs a variable that is not set."""
    try:
        return Pipeline.from_yaml(catalog.get_meta("pipeline") or "extends: default\n")
    except PipelineError:
        return None


def _record_store(catalog: Catalog, pipeline: Pipeline) -> None:
    """Write the new store into the stored settings, which apply unless a pipeline file says otherwise.

    A path is stored as absolute, so that it does not depend on the working directory.
    """
    options = pipeline.store.options
    path = getattr(options, "path", None)
    if path and options is not None and not Path(path).is_absolute():
        options = replace(options, path=str(Path(path).absolute()))
        pipeline = replace(pipeline, store=ComponentConfig(pipeline.store.name, options))
    # override the old store: its variables may not be set any more
    stored = Pipeline.from_yaml(catalog.get_meta("pipeline") or "extends: default\n", overrides=("store.name=memory",))
    with catalog.transaction():
        catalog.set_settings({"pipeline": stored.with_store_from(pipeline).to_yaml()})


def _empty_old_store(session: WriteSession, old: PipelineComponents, new: ExternalStore | None) -> tuple[str, ...]:
    """Empty the previous store, unless it is the same one."""
    external_store = old.external_store(session.directory)
    if external_store is None or (new is not None and new.store_id == external_store.store_id):
        return ()
    with closing(external_store):
        external_store.reset(session.catalog)
    return (f"the store {old.pipeline.store.name!r} was emptied",)

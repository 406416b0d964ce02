"""A knowledge base moves to another vector store: filled from the catalog, held against it, then recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import PipelineError
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
"""Searches that a filled store is tried with, every fourth of them within one source."""
TOP_K = 10
MIN_RECALL = 0.9
"""An approximate store that finds less than this of what exact search finds is no copy."""
RECALL_SCORE_TOLERANCE = 1e-4
"""How far below the last of the nearest a hit may be and still count as one of them: stores round scores."""


@dataclass(frozen=True)
class CopyOptions:
    """How a copy goes."""

    overwrite: bool = False
    """Take a store that holds documents of somebody else, and empty it."""
    drop_old: bool = False
    """Empty the store that was used before, once the new one is verified."""
    on_progress: Callable[[int, int], None] = lambda done, total: None
    """Told how many chunks of how many are in the store."""


@dataclass(frozen=True)
class CopyReport:
    """What a copy did and found."""

    kb: str
    previous_store: str
    """The store that was used before; '' when its settings cannot be read any more."""
    store: str
    """The store that is used from now on; when there are problems it is not."""
    chunks: int
    """Live chunks of the knowledge base."""
    copied: int
    """Chunks that were handed over in this run."""
    comparison: StoreComparison | None
    """Every document and vector, held against the catalog. None where the catalog itself is searched."""
    searches_compared: int
    """How many searches were compared with exact ones."""
    recall: float
    """The share of the nearest that they found."""
    problems: tuple[str, ...]
    """Why the store was not taken, a line each; empty when it was."""
    notes: tuple[str, ...]
    embedding_tokens: int
    """Tokens that went through an embedder: 0."""
    seconds: float

    def to_json(self) -> dict[str, JSON]:
        """The shape of `copy --json`."""
        held = self.comparison
        return {
            "kb": self.kb,
            "from": self.previous_store,
            "to": self.store,
            "chunks": self.chunks,
            "copied": self.copied,
            "there_before": self.chunks - self.copied if held else 0,
            "verified": None
            if held is None
            else {
                "count": held.stored,
                "checksum": held.stored_checksum,
                "checksum_wanted": held.expected_checksum,
                "largest_gap": held.max_vector_distance,
                "searches": self.searches_compared,
                "recall": round(self.recall, 4),
            },
            "problems": list(self.problems),
            "notes": list(self.notes),
            "embedding_tokens": self.embedding_tokens,
            "seconds": round(self.seconds, 3),
        }


def copy_to_store(path: Path, parts: PipelineComponents, run: CopyOptions) -> CopyReport:
    """Fill the store of `parts.pipeline` from the catalog at `path`; see `KnowledgeBase.copy`."""
    started = time.perf_counter()
    meter = Meter()
    with use_meter(meter), WriteSession(path) as session:
        report = _copy_chunks(session, parts, run)
    tokens = int(meter.usage().embedding_tokens)
    return replace(report, embedding_tokens=tokens, seconds=time.perf_counter() - started)


def _copy_chunks(session: WriteSession, parts: PipelineComponents, run: CopyOptions) -> CopyReport:
    catalog, name = session.catalog, parts.pipeline.store.name
    old = _load_old_pipeline(catalog)
    chunks = int(catalog.connection.execute("SELECT count(*) FROM chunks WHERE live = 1").fetchone()[0])
    report = CopyReport(
        str(session.directory),
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
    derived = parts.external_store(session.directory)
    if derived is not None and chunks:
        with closing(derived):
            report = _fill_store(session, derived, run, report)
    if not report.problems:
        _record_store(catalog, parts.pipeline)
        if run.drop_old and old is not None:
            report = replace(
                report, notes=(*report.notes, *_empty_old_store(session, PipelineComponents(old), derived))
            )
    return report


def _store_notes(name: str) -> tuple[str, ...]:
    if name == MEMORY_STORE:
        return ("the store 'memory' keeps nothing: each process searches the catalog, and there was nothing to copy",)
    return ()


def _fill_store(session: WriteSession, derived: ExternalStore, run: CopyOptions, report: CopyReport) -> CopyReport:
    # by the name that the catalog has of it, so that neither the embedder's package nor its key is needed
    row, vectors = session.open_vectors(session.catalog.get_meta("embedder") or "", 1)
    matrix = vectors.matrix(row.rows)
    copied = derived.sync(session.catalog, matrix, run.on_progress, overwrite=run.overwrite)
    held = derived.compare(session.catalog, matrix)
    problems = list(held.describe_differences())
    searches, recall = (0, 1.0) if problems else _measure_recall(session.directory, derived)
    if recall < MIN_RECALL:
        problems.append(
            f"finds {recall:.0%} of the nearest in {searches} searches: let its index look at more candidates"
        )
    if problems:
        derived.reset(session.catalog)  # so that the next attempt begins with an empty store
    return replace(
        report, copied=copied, comparison=held, searches_compared=searches, recall=recall, problems=tuple(problems)
    )


def _measure_recall(directory: Path, derived: ExternalStore) -> tuple[int, float]:
    """Searches in the store against exact ones in the catalog: how many, and the share of hits that are right."""
    shares: list[float] = []
    with CatalogReader(directory, Bm25Index) as reader, reader.snapshot() as view:
        for query, source in _sample_queries(view):
            where: dict[str, JSON] | None = {"source": source} if source else None
            exact = [score for _, score in view.search_dense(query, TOP_K, where)]
            ids = [result.document.id for result in derived.store.search(query, TOP_K, where)]
            scores = view.cosines(query, _chunk_keys(view, ids)).tolist()
            right = sum(score >= exact[-1] - RECALL_SCORE_TOLERANCE for score in scores)
            shares.append(right / len(exact))
    return len(shares), sum(shares) / len(shares) if shares else 1.0


def _sample_queries(view: CatalogSnapshot) -> Iterator[tuple[NDArray[np.float32], str]]:
    """Points between chunks that lie apart in the catalog, and for every fourth the source of the first of them."""
    a = view.arrays
    count = len(a.chunk_keys)
    places = range(0, count, max(1, count // SAMPLE_SEARCHES))[:SAMPLE_SEARCHES]
    for number, place in enumerate(places):
        row = a.matrix[a.vector_rows[place]] + 0.5 * a.matrix[a.vector_rows[(place + count // 2) % count]]
        length = float(np.linalg.norm(row))
        if length > 0:
            source = view.chunks([int(a.chunk_keys[place])])[0].source if number % 4 == 3 else ""
            yield (row / length).astype(np.float32), source


def _chunk_keys(view: CatalogSnapshot, ids: Sequence[str]) -> list[int]:
    marks = ",".join("?" * len(ids))
    query = f"SELECT key FROM chunks WHERE live = 1 AND id IN ({marks})"  # noqa: S608 - marks only
    return [row[0] for row in view.connection.execute(query, tuple(ids))]


def _load_old_pipeline(catalog: Catalog) -> Pipeline | None:
    """The pipeline that the knowledge base was last built with; None when a variable in it is not set any more."""
    try:
        return Pipeline.from_yaml(catalog.get_meta("pipeline") or "extends: default\n")
    except PipelineError:
        return None


def _record_store(catalog: Catalog, pipeline: Pipeline) -> None:
    """Write the new store into the settings that hold where no file says otherwise; all else in them stays.

    A path is written in full, so that it is the same one from whatever directory the settings are used.
    """
    options = pipeline.store.options
    path = getattr(options, "path", None)
    if path and options is not None and not Path(path).is_absolute():
        options = replace(options, path=str(Path(path).absolute()))
        pipeline = replace(pipeline, store=ComponentConfig(pipeline.store.name, options))
    # whatever its store was: of that one not even the variables need be set any more
    stored = Pipeline.from_yaml(catalog.get_meta("pipeline") or "extends: default\n", overrides=("store.name=memory",))
    with catalog.transaction():
        catalog.set_meta("pipeline", stored.with_store_from(pipeline).to_yaml())


def _empty_old_store(session: WriteSession, old: PipelineComponents, new: ExternalStore | None) -> tuple[str, ...]:
    """Empty the store that was used before, unless it is the same one."""
    derived = old.external_store(session.directory)
    if derived is None or (new is not None and new.store_id == derived.store_id):
        return ()
    with closing(derived):
        derived.reset(session.catalog)
    return (f"the store {old.pipeline.store.name!r} was emptied",)

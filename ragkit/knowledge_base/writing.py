"""Changes a knowledge base: index runs, removals, verification, copies."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Self

from ragkit.index.catalog.sqlite import Catalog, unchanged_sources
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.indexing import Indexer
from ragkit.knowledge_base.locate import find_location
from ragkit.knowledge_base.location import Location
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.records import Document

if TYPE_CHECKING:
    from ragkit.index.report import IndexReport
    from ragkit.index.verify import VerificationReport
    from ragkit.knowledge_base.copying.to_store import CopyOptions, CopyReport


class Writer:
    """Changes the knowledge base at a location. One of its own can write while a `KnowledgeBase` is searched."""

    def __init__(
        self, location: Location, components: PipelineComponents, release: Callable[[], None] = lambda: None
    ) -> None:
        """`release` closes what the caller has open of the location: some files are changed in place."""
        self._location = location
        self._components = components
        self._release = release

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._location.close()

    @contextmanager
    def _open(
        self, *, create: bool = False, dry_run: bool = False
    ) -> Iterator[tuple[Indexer, Callable[[IndexOptions], IndexOptions]]]:
        """The indexer of what is changed in the block, and the options of its runs."""
        target = self._location.open_target(self._components, self._release, create=create, dry_run=dry_run)
        with target as opened:
            yield Indexer(opened.directory, self._components, self._location.ledger), opened.adapt

    def index(self, sources: Sequence[str | os.PathLike[str]], run: IndexOptions) -> IndexReport:
        """See `KnowledgeBase.index`."""
        with self._open(create=True, dry_run=run.dry_run) as (indexer, adapt), self._access_default(run):
            return indexer.index(sources, adapt(run))

    def add(self, documents: Sequence[Document], run: IndexOptions) -> IndexReport:
        """See `KnowledgeBase.add`."""
        with self._open(create=True) as (indexer, adapt), self._access_default(run):
            return indexer.add(documents, adapt(run))

    @contextmanager
    def _access_default(self, run: IndexOptions) -> Iterator[None]:
        """Set who may read documents that do not say it, before one can be read; afterwards the catalog expects it."""
        default, access = self._components.pipeline.access.default, self._location.access
        if not default or run.dry_run:
            yield
            return
        is_new = not self._location.exists()
        if access.read().default != default:
            access.update(lambda settings: settings.with_default(default))
        yield
        if is_new:
            access.update(lambda settings: settings)

    def embed_remaining(self, stop: Callable[[], bool] = lambda: False) -> int:
        """See `KnowledgeBase.embed_remaining`."""
        if not self._location.needs_embedding():
            return 0
        with self._open() as (indexer, _), self._location.record_calls("index", self._components.pipeline.name):
            return indexer.fill(lambda event: None, stop)[1]

    def remove(self, *sources: str | os.PathLike[str]) -> int:
        """See `KnowledgeBase.remove`."""
        with self._open() as (indexer, _):
            names = [indexer.source_files.resolver.normalize(source) for source in sources]
            return indexer.remove(lambda catalog: names)

    def remove_documents(self, documents: Mapping[str, str]) -> int:
        """Remove documents, each only if its source still has the one with this id. Returns how many were removed.

        `documents`: ids by source.
        """
        with self._open() as (indexer, _):
            return indexer.remove(lambda catalog: unchanged_sources(catalog, documents))

    def remove_outdated(self, folder: str) -> int:
        """Remove the documents below a folder whose files have changed or are gone. Returns how many were removed."""
        with self._open() as (indexer, _):
            return indexer.remove(lambda catalog: indexer.outdated_sources(catalog, folder))

    def clear(self) -> None:
        """See `KnowledgeBase.clear`."""
        with self._open() as (indexer, _):
            indexer.clear()

    def verify(self, *, repair: bool) -> VerificationReport:
        """See `KnowledgeBase.verify`."""
        self._release()
        store = self._components.external_store(self._location.path)

        def rebuild(report: VerificationReport) -> tuple[str, ...]:
            indexer = Indexer(self._location.path, self._components, self._location.ledger)
            if store is not None and all(problem.part == "store" for problem in report.problems):
                return indexer.refill_store(store)
            with self._location.record_calls("verify", self._components.pipeline.name):
                return indexer.rebuild(report.problems[0].part, report.problems[0].message)

        return self._location.verify(store, rebuild if repair else None)

    def copy(self, options: CopyOptions) -> CopyReport:
        """See `KnowledgeBase.copy`."""
        from ragkit.knowledge_base.copying.to_store import copy_to_store

        self.embed_remaining()  # by the embedder of the pipeline; for other stores each chunk has a vector
        with self._open() as (indexer, _):
            return copy_to_store(indexer.path, self._components, options)

    def copy_to(self, target: str | os.PathLike[str], *, overwrite: bool) -> CopyReport:
        """See `KnowledgeBase.copy_to`."""
        from ragkit.index.catalog.directory import open_catalog
        from ragkit.knowledge_base.copying.to_store import CopyReport

        self._location.require_exists()
        self._location.refresh()
        self._location.require_vectors()
        self.embed_remaining()
        self._release()
        started = time.perf_counter()
        path, access = self._location.path, self._location.access.read()
        with closing(open_catalog(path)) as connection:
            chunks = Catalog(connection).count_chunks()
        with closing(find_location(target)) as location:
            notes = location.receive(path, access, overwrite=overwrite)
            seconds = time.perf_counter() - started
            store = self._components.pipeline.store.name
            return CopyReport(
                str(self._location), store, str(location), chunks, chunks, None, 0, 1.0, (), notes, 0, seconds
            )

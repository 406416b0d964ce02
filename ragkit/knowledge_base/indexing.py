"""The write side of a knowledge base: index runs, removals, repairs."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from ragkit.answer.score_calibration import measure_calibration
from ragkit.embed.base import Row
from ragkit.errors import KnowledgeBaseDamaged, KnowledgeBaseLocked, LoadError, PriceUnknown, ProviderError
from ragkit.index.added_documents import ADDED_ROOT, name_documents
from ragkit.index.build import Build, BuildOptions
from ragkit.index.build_runner import BuildRunner
from ragkit.index.catalog.compaction import MIN_UNUSED_VECTORS, compact_vectors
from ragkit.index.catalog.directory import CATALOG_FILE, knowledge_base_exists, read_marker_roots, repair_command
from ragkit.index.catalog.io_errors import translate_io_errors
from ragkit.index.catalog.lock import WriterLock
from ragkit.index.catalog.row_checks import verify_vector_rows
from ragkit.index.catalog.sqlite import Catalog, FileRow
from ragkit.index.catalog.write_session import WriteSession
from ragkit.index.context_writer import ContextStage, ContextWriter
from ragkit.index.external_store import ExternalStore
from ragkit.index.plan import IndexPlan, IndexPlanOptions, make_plan
from ragkit.index.rebuild import REBUILD_FOLDER, RecoveredState, replace_with_rebuilt
from ragkit.index.report import FileFailure, IndexEvent, IndexReport
from ragkit.index.source_ids import is_within, source_id
from ragkit.index.web_pages import WEB_FOLDER, is_url, normalize_url
from ragkit.knowledge_base.cost_estimate import (
    CALIBRATION_TOKENS,
    Budget,
    check_estimate,
    embedder_name,
    embedding_cost,
    estimate_embedding_cost,
)
from ragkit.knowledge_base.source_files import FILE_FILTERS_KEY, SourceFiles
from ragkit.knowledge_base.spooled_files import SpooledFiles
from ragkit.knowledge_base.stored_settings import (
    check_settings,
    read_build_fingerprint,
    read_calibration,
    write_calibration,
)
from ragkit.lexical.bm25_index import Bm25Index
from ragkit.load.fetch import FetchOptions
from ragkit.masking import mask_passwords
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.run.index_worker import add_contexts
from ragkit.records import Document
from ragkit.store.native.vector_file import VectorFile
from ragkit.usage.ledger import Ledger
from ragkit.usage.meter import Meter, current_meter, use_meter


@dataclass(frozen=True)
class IndexOptions:
    """Options of one index run."""

    dry_run: bool = False
    """Parse and split, count what would be embedded, and change nothing."""
    retry_failed: bool = False
    """Retry files that failed before, although they have not changed."""
    rebuild: bool = False
    """Accept settings that differ from those of the last build, and index everything again."""
    include: tuple[str, ...] = ()
    """Only files that match, in this run; empty: the patterns of the pipeline."""
    exclude: tuple[str, ...] = ()
    """Patterns to exclude in this run, in addition to those of the pipeline."""
    jobs: int = 0
    """Processes that parse and split files; 0: the setting of the pipeline."""
    max_cost_usd: float | None = None
    """Limit in USD for embedding and for contexts of chunks. A run with a higher estimate does not start, and a run
    that reaches the limit stops; what was paid for is kept, and the next run continues from there."""
    on_event: Callable[[IndexEvent], None] = lambda event: None
    """Called with every event of the run."""
    runner_factory: Callable[[PipelineComponents, int], BuildRunner] = PipelineComponents.create_runner
    """Creates the runner that parses, splits and embeds; the default follows the pipeline and `jobs`."""
    find_known_vectors: Callable[[Sequence[bytes]], Mapping[bytes, Row]] | None = None
    """Text hashes -> vectors of the same embedder that exist elsewhere; these are copied instead of computed."""


_CLEARED_TABLES = (
    "roots", "files", "documents", "chunks", "vectors", "embedders", "derived", "contexts", "chunk_contexts",
)  # fmt: skip


class Indexer:
    """Modifies one knowledge base. Every method holds the write lock while it runs."""

    def __init__(self, path: Path, parts: PipelineComponents, ledger: Ledger) -> None:
        self.path = path
        self.source_files = SourceFiles(path, parts.folder_options)
        self._components = parts
        self._ledger = ledger

    def index(self, sources: Sequence[str | os.PathLike[str]], run: IndexOptions) -> IndexReport:
        """One index run; see `KnowledgeBase.index`."""
        started = time.perf_counter()
        if run.dry_run and not knowledge_base_exists(self.path):
            return self._dry_run_new(sources, run, started)
        if run.dry_run and any(map(is_url, sources)):
            return self._dry_run_with_urls(sources, run)
        roots, failures = self._resolve_sources(sources)
        on_call = self._ledger.call_recorder("index", self._components.pipeline.name)
        meter = Meter(budget_usd=run.max_cost_usd, on_call=on_call)
        with use_meter(meter), closing(self._ledger), SpooledFiles() as spool:
            notes = self._rebuild_if_damaged()
            run = self._check_budget(roots, run, spool)
            with WriteSession(self.path, self._components.new_knowledge_base) as session:
                report = self._run_build(session, roots, run, started)
                if not run.dry_run:
                    self._store_calibration(session.catalog)
        return replace(_add_failures(report, failures), notes=(*notes, *report.notes), usage=meter.usage().to_dict())

    def add(self, documents: Sequence[Document], run: IndexOptions) -> IndexReport:
        """Write documents to the knowledge base, and index them; see `KnowledgeBase.add`."""
        added = self.source_files.resolver.added
        named = name_documents(documents)
        names = {document.source for document in named}
        sources = {name.partition("#")[0] for name in names} if added.folder.exists() else set()
        replaced = [name for source in sources for name in added.names_below(source) if name not in names]
        added.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        added.write(named)
        if replaced and knowledge_base_exists(self.path):
            self.remove(replaced)
        return self.index([ADDED_ROOT], run)

    def _resolve_sources(self, sources: Sequence[str | os.PathLike[str]]) -> tuple[list[Path], list[FileFailure]]:
        """The paths of the sources. Pages are downloaded first; on failure a page keeps its last copy."""
        roots: list[Path] = []
        failures: list[FileFailure] = []
        recorded = frozenset(read_marker_roots(self.path))
        folder = self._components.folder_options
        options = FetchOptions(max_mb=folder.max_file_mb, allow_private=folder.allow_private)
        for source in sources:
            if str(source) == ADDED_ROOT:
                roots.append(self.source_files.resolver.added.folder)
                continue
            if not is_url(source):
                roots.append(_resolve_root(source, recorded))
                continue
            url = normalize_url(str(source))
            try:
                roots.append(self.source_files.resolver.web_copies.download(url, options))
            except LoadError as error:
                failures.append(FileFailure(mask_passwords(url), error.reason, error.hint))
                before = self.source_files.resolver.resolve_path(url)
                roots += [before] if before.exists() else []
        return roots, failures

    def _check_budget(self, roots: Sequence[Path], run: IndexOptions, spool: SpooledFiles) -> IndexOptions:
        """Estimate the cost of a run; returns its options, with the files that the estimate has read.

        Raises BudgetTooSmall or PriceUnknown if the run must not start; a free embedder always may.
        """
        embedder, limit = self._components.embedder, run.max_cost_usd
        price = embedding_cost(embedder, 1_000_000)
        if run.dry_run or limit is None or (price == 0 and not self._components.has_contexts):
            return run
        if price is None:
            raise PriceUnknown(embedder_name(embedder), limit)
        if not self._components.splits_at_cost:  # the chunks of the estimate are those of the run
            run = replace(run, runner_factory=spool.wrap(run.runner_factory))
        report = self.index(roots, replace(run, dry_run=True, max_cost_usd=None, on_event=lambda event: None))
        total = embedding_cost(embedder, report.tokens) or 0.0
        for estimate in report.context_estimates:
            if estimate.cost_usd is None:
                raise PriceUnknown(estimate.model, limit)
            total += estimate.cost_usd
        check_estimate(embedder_name(embedder), total, limit)
        return run

    def remove(self, names: Sequence[str]) -> int:
        """Remove sources and everything below them. Returns the number of removed documents."""
        with WriteSession(self.path) as session:
            catalog = session.catalog
            rows = [row for row in catalog.files().values() if _is_named(row.source, names)]
            rows += [part for row in rows for part in catalog.parts(row.source)]
            rows += [part for part in map(catalog.file, names) if part is not None and part.status == "part"]
            documents = [row.document for row in rows if row.document is not None]
            with catalog.transaction():
                Bm25Index(catalog.connection).remove(catalog.chunk_keys(documents))
                catalog.delete_documents(documents)
                catalog.delete_files(row.source for row in rows)
                catalog.remove_roots(root for root in catalog.roots() if any(is_within(root, n) for n in names))
                catalog.set_meta("generation", str(catalog.generation() + 1))
            embedder = self._components.embedder
            row, vectors = session.open_vectors(embedder.fingerprint, embedder.dimension)
            self._sync_store(catalog, compact_vectors(session, row, vectors) if documents else vectors)
            # last, because the copy of a page is its source until the catalog has dropped it
            resolver = self.source_files.resolver
            for name in filter(is_url, names):
                resolver.web_copies.delete(name)
            for added in [row.source for row in rows] if resolver.added.folder.exists() else ():
                resolver.added.delete(added)
        return len(documents)

    def clear(self) -> None:
        """Remove everything, including vectors."""
        external_store = self._components.external_store(self.path)
        with WriteSession(self.path) as session:
            catalog = session.catalog
            with catalog.transaction():
                for table in _CLEARED_TABLES:
                    catalog.connection.execute(f"DELETE FROM {table}")  # noqa: S608 - constant names
                lexical_index = Bm25Index(catalog.connection)
                lexical_index.remove(lexical_index.keys().tolist())
                catalog.set_meta("generation", str(catalog.generation() + 1))
            catalog.connection.execute("VACUUM")
            for copies in (self.source_files.resolver.web_copies, self.source_files.resolver.added):
                shutil.rmtree(copies.folder, ignore_errors=True)
            if external_store is not None:
                with closing(external_store):
                    external_store.reset(catalog)

    def _run_build(
        self, session: WriteSession, roots: Sequence[Path], run: IndexOptions, started: float
    ) -> IndexReport:
        catalog, recipe = session.catalog, self._components.build_fingerprint
        before = read_build_fingerprint(catalog, self.path)
        if not run.rebuild:
            check_settings(self.path, before, recipe)
        if run.rebuild:
            roots = _merge_roots(roots, self._source_paths(catalog.roots()))
        embedder = self._components.embedder
        row, vectors = session.open_vectors(embedder.fingerprint, embedder.dimension)
        plan = self._create_plan(roots, catalog.files(), run, everything=bool(before.differences(recipe)))
        metadata = {
            "recipe": recipe.to_json(),
            "embedder": embedder.fingerprint,
            "pipeline": self._components.pipeline.to_yaml(),
            "pipeline_name": self._components.pipeline.name,
            FILE_FILTERS_KEY: _file_filters_json(catalog, [*map(self.source_files.resolver.source_id, roots)], run),
        }
        lexical_index = Bm25Index(catalog.connection)
        components = self._components.for_estimate() if run.dry_run else self._components
        contexts = ContextWriter(
            ContextStage(components.context_options, partial(add_contexts, components)),
            catalog,
            session.directory / CATALOG_FILE,
            dry_run=run.dry_run,
        )
        stages = components.build_stages(lexical_index, run.runner_factory(components, run.jobs), contexts)
        meter = None if run.dry_run else current_meter()
        count_affordable = (
            None if meter is None or meter.remaining_usd is None else Budget(meter, embedder).count_affordable
        )
        source_ids = tuple(map(self.source_files.resolver.source_id, roots))
        options = BuildOptions(
            str(self.path), run.dry_run, count_affordable, metadata, source_ids, run.find_known_vectors
        )
        generation = catalog.generation()
        build = Build(catalog, vectors, stages, options)
        with closing(build.events(plan)) as events:
            for event in events:
                run.on_event(event)
        if catalog.generation() != generation:
            vectors = compact_vectors(session, row, vectors)
            with catalog.transaction():
                catalog.delete_unused_contexts(MIN_UNUSED_VECTORS)
        notes = () if run.dry_run else self._sync_store(catalog, vectors)
        report = replace(build.report(plan, started), notes=notes)
        return replace(report, estimate=estimate_embedding_cost(embedder, report.tokens)) if run.dry_run else report

    def _store_calibration(self, catalog: Catalog) -> None:
        """Store the calibration of the embedder for answers, unless it is stored or exceeds the budget."""
        embedder, meter = self._components.embedder, current_meter()
        if read_calibration(catalog, embedder.fingerprint) is not None or not catalog.generation():
            return
        remaining = meter.remaining_usd if meter is not None else None
        cost = embedding_cost(embedder, CALIBRATION_TOKENS)
        if remaining is not None and (cost is None or cost > remaining):
            return
        with suppress(ProviderError):  # the first question measures it
            write_calibration(catalog, measure_calibration(embedder.embed_texts), embedder.fingerprint)

    def _sync_store(self, catalog: Catalog, vectors: VectorFile) -> tuple[str, ...]:
        """Synchronize the external vector store, if the pipeline names one, with the catalog. Returns notes.

        Some stores allow one process only. While another process has it open, the store is not synchronized, and
        searches use the catalog, which is complete.
        """
        external_store = self._components.external_store(self.path)
        if external_store is None:
            return ()
        try:
            with closing(external_store):
                external_store.sync(catalog, vectors.matrix())
        except KnowledgeBaseLocked:
            name = self._components.pipeline.store.name
            return (f"the store {name!r} is open in another process and was not synchronized: the catalog is"
                    " searched until the next run",)  # fmt: skip
        return ()

    def _source_paths(self, roots: Iterable[str]) -> list[Path]:
        """The paths of the sources in the catalog. Raises LoadError for one that is now a link to elsewhere."""
        return [
            self.source_files.resolver.resolve_path(root)
            if is_url(root)
            else _require_not_redirected(self.source_files.resolver.resolve_path(root))
            for root in roots
        ]

    def _create_plan(
        self, roots: Sequence[Path], known: Mapping[str, FileRow], run: IndexOptions, *, everything: bool
    ) -> IndexPlan:
        found = chain.from_iterable(self.source_files.walk(root, run.include, run.exclude) for root in roots)
        options = IndexPlanOptions(
            self._components.current_fingerprint,
            self.source_files.hash,
            run.retry_failed,
            everything,
            self.source_files.resolver.source_id,
        )
        return make_plan(found, [self.source_files.resolver.source_id(root) for root in roots], known, options)

    def _rebuild_if_damaged(self) -> tuple[str, ...]:
        """Rebuild a damaged knowledge base before it is written to. Returns notes."""
        if not knowledge_base_exists(self.path):
            return ()
        try:
            verify_vector_rows(self.path)
        except KnowledgeBaseDamaged as error:
            return self.rebuild(str(error.path), error.reason)
        return ()

    def rebuild(self, what: str, reason: str) -> tuple[str, ...]:
        """Rebuild everything from the sources, reusing the vectors that are intact."""
        with translate_io_errors(self.path, repair_command(self.path)), WriterLock(self.path):
            recovered = RecoveredState(self.path, self._components.embedder.fingerprint)
            roots = self._source_paths(recovered.roots)
            gone = [root for root in roots if not root.exists()]
            if gone:
                raise LoadError(
                    str(gone[0]), "does not exist, and the damaged knowledge base must be rebuilt from it", "restore it"
                )
            folder = self.path / REBUILD_FOLDER
            shutil.rmtree(folder, ignore_errors=True)
            with WriteSession(folder, self._components.new_knowledge_base) as session:
                self._restore_vectors(session, recovered)
                self._run_build(session, roots, IndexOptions(), time.perf_counter())
            replace_with_rebuilt(self.path)
        reused = f"{len(recovered.text_hashes)} vectors were reused"
        return (f"{what} {reason}: rebuilt from {len(roots)} sources, {reused}",)

    def refill_store(self, external_store: ExternalStore) -> tuple[str, ...]:
        """Empty the external vector store and fill it again. Returns notes."""
        embedder = self._components.embedder
        with WriteSession(self.path) as session, closing(external_store):
            _, vectors = session.open_vectors(embedder.fingerprint, embedder.dimension)
            external_store.reset(session.catalog)
            count = external_store.sync(session.catalog, vectors.matrix())
        return (f"the store {self._components.pipeline.store.name!r}: emptied and filled with {count:,} chunks",)

    def _restore_vectors(self, session: WriteSession, recovered: RecoveredState) -> None:
        embedder = self._components.embedder
        with session.catalog.transaction():
            session.catalog.set_meta("last_file", str(recovered.last_file_number))
            session.catalog.add_contexts(recovered.contexts.items())
            if recovered.calibration is not None:
                session.catalog.set_meta("calibration", recovered.calibration)
        row, file = session.open_vectors(embedder.fingerprint, embedder.dimension)
        if recovered.vectors is None or not len(recovered.vectors):
            return
        first = file.append(recovered.vectors)
        file.sync()
        with session.catalog.transaction():
            sums = file.checksums(first, len(recovered.text_hashes)).tolist()
            session.catalog.add_vectors(row.key, first, recovered.text_hashes, sums)

    def _dry_run_new(self, sources: Sequence[str | os.PathLike[str]], run: IndexOptions, started: float) -> IndexReport:
        """A dry run without a knowledge base: in a temporary one, so that none is left behind."""
        with TemporaryDirectory(prefix="ragkit-") as folder:
            scratch = Indexer(Path(folder) / "kb", self._components, self._ledger)
            roots, failures = scratch._resolve_sources(sources)
            with WriteSession(scratch.path, self._components.new_knowledge_base) as session:
                report = _add_failures(scratch._run_build(session, roots, run, started), failures)
            return replace(report, kb=str(self.path), usage=Meter().usage().to_dict())

    def _dry_run_with_urls(self, sources: Sequence[str | os.PathLike[str]], run: IndexOptions) -> IndexReport:
        """A dry run with pages: downloads them to a temporary folder, not over the copies that citations refer to."""
        with TemporaryDirectory(prefix="ragkit-") as folder:
            scratch = Indexer(self.path, self._components, self._ledger)
            web_folder = Path(folder).resolve() / WEB_FOLDER
            scratch.source_files = SourceFiles(self.path, self._components.folder_options, web_folder)
            roots, failures = scratch._resolve_sources(sources)
            return _add_failures(scratch.index(roots, run), failures)


def _is_named(source: str, names: Sequence[str]) -> bool:
    """Whether a source is one of these, lies below one, or is part of an added document (`manual.pdf#page=3`)."""
    return any(is_within(source, name) or source.startswith(f"{name}#") for name in names)


def _file_filters_json(catalog: Catalog, roots: Sequence[str], run: IndexOptions) -> str:
    """Source -> include and exclude patterns of its last run, as JSON."""
    filters: dict[str, object] = json.loads(catalog.get_meta(FILE_FILTERS_KEY) or "{}")
    for root in roots:
        filters.pop(root, None)
        if run.include or run.exclude:
            filters[root] = {"include": list(run.include), "exclude": list(run.exclude)}
    return json.dumps(filters, sort_keys=True)


def _add_failures(report: IndexReport, failures: Sequence[FileFailure]) -> IndexReport:
    """The report with failed downloads added."""
    if not failures:
        return report
    files = {**report.files, "failed": report.files["failed"] + len(failures)}
    return replace(report, files=files, failures=(*report.failures, *failures))


def _resolve_root(source: str | os.PathLike[str], recorded: Collection[str]) -> Path:
    path = Path(os.path.abspath(source))  # noqa: PTH100 - without following links
    if not Path(source).exists():
        raise LoadError(str(source), "does not exist", "name an existing folder or file")
    return _require_not_redirected(path) if source_id(path) in recorded else Path(source).resolve()


def _require_not_redirected(root: Path) -> Path:
    """Check that the path of an indexed source contains no link: it was recorded without links.

    A link in its place, or in a parent folder, would index files that the user has not named.
    """
    if root.exists() and root.resolve() != root:
        hint = "if that is intended, remove it with `ragkit rm` and index it again"
        raise LoadError(str(root), f"is now a link to {root.resolve()}", hint)
    return root


def _merge_roots(named: Sequence[Path], known: Sequence[Path]) -> list[Path]:
    """The named sources and the existing known ones, without duplicates."""
    return list(dict.fromkeys([*named, *(path for path in known if path.exists())]))

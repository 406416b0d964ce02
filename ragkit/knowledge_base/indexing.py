"""The write side of a knowledge base: index runs, removals, repairs."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ragkit.answer.score_calibration import measure_calibration
from ragkit.errors import KnowledgeBaseDamaged, KnowledgeBaseLocked, LoadError, PriceUnknown, ProviderError
from ragkit.index.access.stores import ACCESS_FILE
from ragkit.index.build import Build, BuildOptions
from ragkit.index.catalog.compaction import MIN_UNUSED_VECTORS, compact_vectors
from ragkit.index.catalog.directory import CATALOG_FILE, knowledge_base_exists, place_name, repair_command
from ragkit.index.catalog.document_index import DocumentIndex
from ragkit.index.catalog.duplicate_index import DuplicateIndex
from ragkit.index.catalog.io_errors import translate_io_errors
from ragkit.index.catalog.lock import WriterLock
from ragkit.index.catalog.row_checks import verify_before_writing
from ragkit.index.catalog.sqlite import ACCESS_KEY, FILE_FILTERS_KEY, STATIC_KEY, Catalog
from ragkit.index.catalog.write_session import WriteSession
from ragkit.index.context_writer import ContextStage, ContextWriter
from ragkit.index.external_store import ExternalStore
from ragkit.index.fill import FillCounts, VectorFill, open_static_vectors
from ragkit.index.kept_vectors import empty_kept_vectors
from ragkit.index.rebuild import REBUILD_FOLDER, RecoveredState, replace_with_rebuilt
from ragkit.index.report import FileFailure, IndexEvent, IndexReport, SearchReady
from ragkit.index.sources.added_documents import ADDED_ROOT, name_documents
from ragkit.index.sources.copies import SOURCES_FOLDER
from ragkit.index.sources.ids import is_within
from ragkit.index.sources.runs import forget_source_run
from ragkit.index.sources.web_pages import is_url
from ragkit.knowledge_base.cost_estimate import (
    CALIBRATION_TOKENS,
    Budget,
    check_estimate,
    embedder_name,
    embedding_cost,
    estimate_embedding_cost,
)
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.sources.index_planner import IndexPlanner, file_filters_json, finish_sources
from ragkit.knowledge_base.sources.prepared_files import PreparedFiles
from ragkit.knowledge_base.sources.source_files import SourceFiles
from ragkit.knowledge_base.sources.source_targets import SourceTargets, TargetResolver, require_not_redirected
from ragkit.knowledge_base.stored_settings import (
    check_settings,
    read_build_fingerprint,
    read_calibration,
    write_calibration,
)
from ragkit.knowledge_base.unknown_language import describe_unknown_language
from ragkit.lexical.bm25_index import Bm25Index
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.run.index_worker import add_contexts
from ragkit.records import Document
from ragkit.store.native.vector_file import VectorFile
from ragkit.usage.ledger import Ledger
from ragkit.usage.meter import Meter, current_meter, use_meter

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
        configured = self._components.sources
        if run.dry_run and (not sources or any(is_url(name) or str(name) in configured for name in sources)):
            return self._dry_run_with_copies(sources, run, started)
        with translate_io_errors(self.path, repair_command(self.path)):
            targets = self._resolve_sources(sources, run)
        return self._index_targets(targets, run, started)

    def _resolve_sources(self, sources: Sequence[str | os.PathLike[str]], run: IndexOptions) -> SourceTargets:
        if run.rebuild and not sources:  # of what the knowledge base holds, without fetching anything
            return SourceTargets()
        return TargetResolver(self.path, self._components, self.source_files).resolve(sources)

    def _index_targets(self, targets: SourceTargets, run: IndexOptions, started: float) -> IndexReport:
        """An index run over folders, files and copies."""
        on_call = self._ledger.call_recorder("index", self._components.pipeline.name)
        meter = Meter(budget_usd=run.max_cost_usd, on_call=on_call)
        with use_meter(meter), closing(self._ledger), PreparedFiles() as prepared:
            notes = self._rebuild_if_damaged()
            run = self._check_budget(targets, run, prepared)
            with WriteSession(self.path, self._components.new_knowledge_base) as session:
                report = self._run_build(session, targets.roots, run, started)
                if not run.dry_run:
                    if not report.unembedded:
                        self._store_calibration(session.catalog)
                    finish_sources(session.catalog, self.source_files, targets)
                chunks = session.catalog.count_chunks()
                notes = (*notes, *self._describe_language(session.catalog, report))
            report = _add_target_results(replace(report, notes=(*notes, *report.notes)), targets)
            if report.unembedded and run.wait:
                run.on_event(SearchReady(chunks, report.unembedded, report))
                report = self._fill_after(report, run)
        return replace(report, seconds=time.perf_counter() - started, usage=meter.usage().to_dict())

    def _describe_language(self, catalog: Catalog, report: IndexReport) -> tuple[str, ...]:
        """A note, if chunks were added, and most are in a language that the embedder was not trained on."""
        if report.dry_run or not report.chunks["added"]:
            return ()
        keys = [key for (key,) in catalog.connection.execute("SELECT key FROM chunks WHERE live = 1 ORDER BY key")]
        note = describe_unknown_language(catalog.connection, keys, self._components.embedder)
        return (note,) if note else ()

    def _fill_after(self, report: IndexReport, run: IndexOptions) -> IndexReport:
        """Embed the chunks of a run that were published without vectors; returns the report with their number."""
        try:
            filled, rest = self.fill(run.on_event, lambda: False)
        except KnowledgeBaseLocked as error:
            note = f"{error}: the chunks that have no vector yet are embedded by the next run"
            return replace(report, notes=(*report.notes, note))
        embedded, tokens = report.embedded + filled.texts, report.tokens + filled.tokens
        return replace(report, embedded=embedded, tokens=tokens, unembedded=rest)

    def fill(self, on_event: Callable[[IndexEvent], None], stop: Callable[[], bool]) -> tuple[FillCounts, int]:
        """Embed the chunks that have no vector yet; `stop` is asked before each batch.

        Returns what was embedded, and how many chunks are left.
        """
        with WriteSession(self.path) as session:
            counts = self._create_fill(session).run(on_event, stop)
            rest = session.catalog.count_unembedded()
            if not rest:
                self._store_calibration(session.catalog)
        return counts, rest

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
            self.remove(lambda catalog: replaced)
        return self.index([ADDED_ROOT], run)

    def _check_budget(self, targets: SourceTargets, run: IndexOptions, prepared: PreparedFiles) -> IndexOptions:
        """Estimate the cost of a run; returns its options, with the files that the estimate has read.

        Raises BudgetTooSmall or PriceUnknown if the run must not start; a free embedder always may.
        """
        embedder, limit = self._components.embedder, run.max_cost_usd
        price = embedding_cost(embedder, 1_000_000)
        if run.dry_run or limit is None or (price == 0 and not self._components.has_contexts):
            return run
        if price is None:
            raise PriceUnknown(embedder_name(embedder), limit)
        if not self._components.has_paid_splitter:  # the chunks of the estimate are those of the run
            run = replace(run, runner_factory=prepared.wrap(run.runner_factory))
        trial = replace(run, dry_run=True, max_cost_usd=None, on_event=lambda event: None)
        report = self._run_trial(targets, trial, time.perf_counter())
        total = embedding_cost(embedder, report.tokens) or 0.0
        for estimate in report.context_estimates:
            if estimate.cost_usd is None:
                raise PriceUnknown(estimate.model, limit)
            total += estimate.cost_usd
        check_estimate(embedder_name(embedder), total, limit)
        return run

    def remove(self, choose: Callable[[Catalog], Sequence[str]]) -> int:
        """Remove sources and everything below them. Returns the number of removed documents.

        `choose` names them, while nobody else writes.
        """
        with WriteSession(self.path) as session:
            catalog = session.catalog
            names = choose(catalog)
            if not names:
                return 0
            copies = self.source_files.resolver.source_copies
            members = set[str]().union(*(copies.members(name) for name in names))
            rows = [row for row in catalog.files().values() if _is_named(row.source, names) or row.source in members]
            rows += [part for row in rows for part in catalog.parts(row.source)]
            rows += [part for part in map(catalog.file, names) if part is not None and part.status == "part"]
            documents = [row.document for row in rows if row.document is not None]
            catalog.connection.execute("PRAGMA secure_delete = ON")
            with catalog.transaction():
                lexical_index = Bm25Index(catalog.connection)
                lexical_index.remove(catalog.chunk_keys(documents))
                lexical_index.purge()  # who removes a document by name wants its words gone
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
            for name in names:
                resolver.source_copies.delete_root(name)
                forget_source_run(self.path, name)
            for root in resolver.source_copies.roots():
                resolver.source_copies.forget(root, resolver.source_copies.members(root) & {row.source for row in rows})
            for added in [row.source for row in rows] if resolver.added.folder.exists() else ():
                resolver.added.delete(added)
        return len(documents)

    def outdated_sources(self, catalog: Catalog, folder: str) -> list[str]:
        """The sources below a folder whose files have changed since they were indexed, or are gone."""
        rows = [row for row in catalog.files().values() if is_within(row.source, folder)]
        return [row.source for row in rows if self.source_files.is_changed(row)]

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
                catalog.connection.execute("DELETE FROM meta WHERE key = ?", (STATIC_KEY,))
            empty_kept_vectors(self.path)
            DocumentIndex(catalog.connection).synchronize()
            DuplicateIndex(catalog.connection).synchronize()
            catalog.connection.execute("VACUUM")
            for copies in (
                self.source_files.resolver.web_copies,
                self.source_files.resolver.added,
                self.source_files.resolver.source_copies,
            ):
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
        known = catalog.files()
        planner = IndexPlanner(self.source_files, self._components, run)
        reindex_all = bool(before.differences(recipe))
        plan, withheld = planner.plan(roots, catalog, known, reindex_all=reindex_all)
        if plan.tasks and not run.dry_run:
            self._components.check_store()
        metadata = {
            "recipe": recipe.to_json(),
            "embedder": embedder.fingerprint,
            "pipeline": self._components.pipeline.to_yaml(),
            "pipeline_name": self._components.pipeline.name,
            FILE_FILTERS_KEY: file_filters_json(catalog, [*map(self.source_files.resolver.source_id, roots)], run),
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
            place_name(self.path),
            run.dry_run,
            count_affordable,
            metadata,
            source_ids,
            run.find_known_vectors,
            run.save_vectors,
            keep_unread=not reindex_all,
        )
        generation = catalog.generation()
        embeds_later = self._embeds_later(run)
        static = self._components.static_embedder
        static_file = open_static_vectors(session, static) if embeds_later and plan.tasks else None
        if static_file is None:
            build = Build(catalog, vectors, stages, options)
        else:
            stages = replace(stages, embedder=static)
            build = Build(catalog, static_file, stages, replace(options, later_embedder=embedder.fingerprint))
        with closing(build.events(plan)) as events:
            for event in events:
                run.on_event(event)
        filled = FillCounts()
        if not run.dry_run:
            filling = self._create_fill(session, vectors)
            filled = filling.run(run.on_event, lambda: embeds_later)
        if catalog.generation() != generation:
            vectors = compact_vectors(session, row, vectors)
            with catalog.transaction():
                catalog.delete_unused_contexts(MIN_UNUSED_VECTORS)
        notes = () if run.dry_run else self._sync_store(catalog, vectors)
        report = build.report(plan, started)
        report = replace(
            report,
            embedded=report.embedded + filled.texts,
            tokens=report.tokens + filled.tokens,
            unembedded=catalog.count_unembedded(),
        )
        report = _add_failures(replace(report, notes=(*notes, *report.notes)), withheld)
        return replace(report, estimate=estimate_embedding_cost(embedder, report.tokens)) if run.dry_run else report

    def _embeds_later(self, run: IndexOptions) -> bool:
        """Whether chunks are published before they are embedded; in a database, vectors are published with them."""
        in_database = run.save_vectors is not None
        return run.searchable_first and not run.dry_run and not in_database and self._components.embeds_on_demand

    def _create_fill(self, session: WriteSession, vectors: VectorFile | None = None) -> VectorFill:
        embedder = self._components.embedder
        file = vectors or session.open_vectors(embedder.fingerprint, embedder.dimension)[1]
        return VectorFill(session, embedder, file, self._components.embedding_texts)

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
            else require_not_redirected(self.source_files.resolver.resolve_path(root))
            for root in roots
        ]

    def _rebuild_if_damaged(self) -> tuple[str, ...]:
        """Rebuild a damaged knowledge base before it is written to. Returns notes."""
        if not knowledge_base_exists(self.path):
            return ()
        with translate_io_errors(self.path, repair_command(self.path)), WriterLock(self.path):
            try:
                verify_before_writing(self.path)
            except KnowledgeBaseDamaged as error:
                return self._rebuild(str(error.path), error.reason)
        return ()

    def rebuild(self, what: str, reason: str) -> tuple[str, ...]:
        """Rebuild everything from the sources, reusing the vectors that are intact. Returns notes."""
        with translate_io_errors(self.path, repair_command(self.path)), WriterLock(self.path):
            return self._rebuild(what, reason)

    def _rebuild(self, what: str, reason: str) -> tuple[str, ...]:
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
            self._run_build(session, roots, IndexOptions(keep_patterns=True), time.perf_counter())
        replace_with_rebuilt(self.path)
        reused = f"{len(recovered.text_hashes)} vectors were reused"
        notes = (f"{what} {reason}: rebuilt from {len(roots)} sources, {reused}",)
        if recovered.settings:
            return notes
        return (*notes, "the settings and file patterns of the knowledge base were lost: those of this run were used")

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
            # the others are those of this pipeline
            kept = {key: value for key, value in recovered.settings.items() if key in (FILE_FILTERS_KEY, ACCESS_KEY)}
            if (self.path / ACCESS_FILE).exists():  # also where the settings were lost
                kept[ACCESS_KEY] = "1"
            session.catalog.set_settings(kept)
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
        """A dry run without a knowledge base, with copies of web pages in a temporary folder."""
        with TemporaryDirectory(prefix="ragkit-") as folder:
            scratch = Indexer(Path(folder) / "kb", self._components, self._ledger)
            targets = scratch._resolve_sources(sources, run)
            report = scratch._run_trial(targets, run, started)
            return replace(report, kb=place_name(self.path), usage=Meter().usage().to_dict())

    def _run_trial(self, targets: SourceTargets, run: IndexOptions, started: float) -> IndexReport:
        """A dry run; without a knowledge base in a temporary one, so that none is left behind."""
        if knowledge_base_exists(self.path):
            return self._index_targets(targets, run, started)
        with TemporaryDirectory(prefix="ragkit-") as folder:
            scratch = Indexer(Path(folder) / "kb", self._components, self._ledger)
            scratch.source_files = self.source_files
            with WriteSession(scratch.path, self._components.new_knowledge_base) as session:
                return _add_target_results(scratch._run_build(session, targets.roots, run, started), targets)

    def _dry_run_with_copies(
        self, sources: Sequence[str | os.PathLike[str]], run: IndexOptions, started: float
    ) -> IndexReport:
        """A dry run with pages or remote sources: fetches to a temporary folder, not over the copies that citations
        refer to."""
        with TemporaryDirectory(prefix="ragkit-") as folder:
            scratch = Indexer(self.path, self._components, self._ledger)
            copies = Path(folder).resolve()
            if (self.path / SOURCES_FOLDER).is_dir():
                shutil.copytree(self.path / SOURCES_FOLDER, copies / SOURCES_FOLDER)
            scratch.source_files = SourceFiles(self.path, self._components.folder_options, copies)
            targets = scratch._resolve_sources(sources, run)
            return scratch._index_targets(targets, run, started)


def _is_named(source: str, names: Sequence[str]) -> bool:
    """Whether a source is one of these, lies below one, or is part of an added document (`manual.pdf#page=3`)."""
    return any(is_within(source, name) or source.startswith(f"{name}#") for name in names)


def _add_target_results(report: IndexReport, targets: SourceTargets) -> IndexReport:
    """The report with what happened before the index run."""
    files = {**report.files, "skipped": report.files["skipped"] + len(targets.skipped)}
    return _add_failures(replace(report, files=files, skipped=(*report.skipped, *targets.skipped)), targets.failures)


def _add_failures(report: IndexReport, failures: Sequence[FileFailure]) -> IndexReport:
    """The report with failed downloads added."""
    if not failures:
        return report
    files = {**report.files, "failed": report.files["failed"] + len(failures)}
    return replace(report, files=files, failures=(*report.failures, *failures))


def _merge_roots(named: Sequence[Path], known: Sequence[Path]) -> list[Path]:
    """The named sources and the existing known ones, without duplicates."""
    return list(dict.fromkeys([*named, *(path for path in known if path.exists())]))

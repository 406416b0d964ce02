"""Carry out a plan: read, split, embed, record. Every step may be repeated; the record comes last.

A build is a generator of events. Vectors are written and synced before the rows that refer to them are
committed. A first build publishes as it goes, so that a long one can be searched early; every later one
works beside what is visible and publishes all of it in one transaction, so that a reader sees the whole
of the old content or the whole of the new.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice
from typing import Protocol

import numpy as np

from ragkit.embed.base import BatchingEmbedder, EmbeddingProvider, Row, Rows, embed_probe
from ragkit.embed.embedding_job import EmbeddedPart, EmbeddingJob
from ragkit.errors import BudgetExceeded, UnsupportedFormat
from ragkit.index.build_fingerprint import check_embedder_weights
from ragkit.index.build_runner import BuildRunner, PendingEmbedding, PreparedFile
from ragkit.index.catalog.sqlite import Catalog, EmbedderRow, FileRow
from ragkit.index.plan import FileTask, IndexPlan, stat_to_store
from ragkit.index.report import (
    FileFailure,
    FileRead,
    GenerationPublished,
    IndexEvent,
    IndexReport,
    PlanCreated,
    TextsEmbedded,
)
from ragkit.load.file_io import FileStat
from ragkit.load.parsing import ParseFailure
from ragkit.store.native.vector_file import VectorFile
from ragkit.usage.meter import current_meter

ANY_LOADER = "*"
"""Stands for the loader of a file that none could read: its recipe changes with every loader's."""
EMBED_BATCH_SIZE = 256
"""Texts that are embedded and written together: a few seconds of work, so that little is lost and progress shows."""
MAX_PENDING_CHUNKS = 4096
"""Chunks that may wait for their vectors before reading pauses."""


class LexicalIndexWriter(Protocol):
    """The full text index inside the catalog; its writes belong to the catalog's transaction."""

    def add(self, keys: Sequence[int], term_lists: Sequence[Sequence[str]]) -> None:
        """Index the chunks with these keys."""

    def remove(self, keys: Sequence[int]) -> None:
        """Forget the chunks with these keys."""


@dataclass(frozen=True)
class BuildStages:
    """The parts that a build drives, already chosen and opened."""

    runner: BuildRunner
    """Reads, splits and embeds; the build alone looks into the catalog and writes to it."""
    count_tokens: Callable[[Sequence[str]], int]
    embedder: EmbeddingProvider
    lexical_index: LexicalIndexWriter
    loader_fingerprint: Callable[[str], str]
    """Loader name -> the recipe of the documents that it makes."""


@dataclass(frozen=True)
class BuildOptions:
    """How a build runs."""

    kb: str
    dry_run: bool = False
    affordable_count: Callable[[Sequence[int]], int] | None = None
    """Tokens of each text that waits -> how many of the first of them may be embedded now, at least one; None: all.
    Raises BudgetExceeded to stop."""
    catalog_settings: Mapping[str, str] = field(default_factory=dict)
    """What the catalog shall say of its settings from the first publication on."""
    roots: tuple[str, ...] = ()
    """The sources that were named, to be remembered."""
    find_known_vectors: Callable[[Sequence[bytes]], Mapping[bytes, Row]] | None = None
    """Hashes of texts -> the rows that are known elsewhere: they are copied, not made again."""


@dataclass(slots=True)
class _PendingDocument:
    """A document that is split and waits for its vectors."""

    task: FileTask
    file_row: FileRow
    prepared: PreparedFile
    text_hashes: list[bytes]


@dataclass(frozen=True, slots=True)
class _EmbedBatch:
    """Texts that are being embedded."""

    text_hashes: list[bytes]
    pending: PendingEmbedding | None = None
    """The runner's work on it; None in a dry run, where nothing is embedded, and where `parts` has it."""
    job: EmbeddingJob | None = None
    """What a service does of it, batch by batch."""


class Build:
    """One run over one plan. `events()` does the work; `report()` tells afterwards what was done."""

    def __init__(self, catalog: Catalog, vectors: VectorFile, stations: BuildStages, options: BuildOptions) -> None:
        self._catalog = catalog
        self._vectors = vectors
        self._stages = stations
        self._options = options
        self._embedder = catalog.embedder(stations.embedder.fingerprint)
        self._pending_documents: deque[_PendingDocument] = deque()
        self._pending_chunk_count = 0
        self._texts_to_embed: dict[bytes, str] = {}
        self._vector_rows: dict[bytes, int] = {}
        self._staged_documents: list[int] = []
        self._replaced_documents: list[int] = []
        self._pending_file_rows: list[FileRow] = []
        self._publish_early = catalog.connection.execute("SELECT 1 FROM documents WHERE live = 1").fetchone() is None
        self._counts: Counter[str] = Counter()
        self._failures: list[FileFailure] = []
        self._skipped: list[tuple[str, str]] = []
        self._token_count = 0
        self._weights_checked = False
        self._batch_queue: deque[_EmbedBatch] = deque()
        self._embedding_hashes: set[bytes] = set()
        self._stage_seconds = dict.fromkeys(("load", "split", "embed", "store"), 0.0)
        self._metered_tokens = self._read_metered_tokens()

    def events(self, plan: IndexPlan) -> Generator[IndexEvent, None, None]:
        """Do the work. Closing the generator, or an error in it, leaves what was published and every vector.

        Raises:
            BudgetExceeded: the next window would cost more than is left.
            WorkerError: the workers cannot be started, or are lost.
            ProviderError and its like: whatever the embedder raises.
        """
        gone = tuple(row.source for row in plan.removed)
        yield PlanCreated(len(plan.tasks), sum(work.stat.size for work in plan.tasks), len(gone), gone)
        if not self._options.dry_run:
            self._delete_staged_leftovers()
        looked_at = time.time_ns()
        with self._stages.runner as runner, self._write_late_results():
            for work, outcome in runner.prepare_files(plan.tasks):
                yield self._handle_outcome(work, outcome, looked_at)
                self._write_finished_parts()
                while len(self._texts_to_embed) >= EMBED_BATCH_SIZE or self._pending_chunk_count >= MAX_PENDING_CHUNKS:
                    yield from self._embed_next_batch()
            while self._pending_documents or self._texts_to_embed or self._batch_queue:
                yield from self._embed_next_batch()
        with self._measure_stage("store"):
            published = self._publish_run(plan, looked_at)
        if published is not None:
            yield published

    def report(self, plan: IndexPlan, started: float) -> IndexReport:
        """What was done since `started` (of `time.perf_counter`)."""
        c = self._counts
        known_failures = [FileFailure(row.source, row.reason, row.hint) for row in plan.still_failed]
        files = {key: c[key] for key in ("added", "updated", "removed", "failed", "skipped")}
        files["unchanged"] = plan.unchanged + c["unchanged"]
        files["removed"] += sum(1 for row in plan.removed if row.status in {"indexed", "empty"})
        files["failed"] += len(known_failures)
        files["skipped"] += len(plan.skipped)
        return IndexReport(
            kb=self._options.kb,
            files=files,
            chunks={key: c[f"chunks {key}"] for key in ("added", "removed", "reused")},
            embedded=c["embedded"],
            tokens=self._token_count,
            failures=tuple(known_failures + self._failures),
            skipped=plan.skipped + tuple(self._skipped),
            seconds=time.perf_counter() - started,
            stage_seconds={station: round(seconds, 3) for station, seconds in self._stage_seconds.items()},
            dry_run=self._options.dry_run,
        )

    # reading

    def _handle_outcome(self, work: FileTask, outcome: PreparedFile | ParseFailure, looked_at: int) -> FileRead:
        if isinstance(outcome, ParseFailure):
            return self._handle_failure(work, outcome, looked_at)
        self._stage_seconds["load"] += outcome.load_seconds
        self._stage_seconds["split"] += outcome.split_seconds
        recipe = self._stages.loader_fingerprint(outcome.loader)
        row = _new_file_row(work, outcome.stat, outcome.content_hash, recipe, looked_at)
        if not outcome.chunks:
            self._defer_file_row(replace(row, status="empty", reason="holds no text"), work)
            self._skipped.append((work.source, "holds no text"))
            self._counts["skipped"] += 1
            return FileRead(work.source, 0, work.stat.size, "holds no text")
        hashes = [blake2b(text.encode("utf-8"), digest_size=16).digest() for text in outcome.texts]
        self._queue_texts(dict(zip(hashes, outcome.texts, strict=True)))
        self._pending_documents.append(_PendingDocument(work, row, replace(outcome, texts=()), hashes))
        self._pending_chunk_count += len(outcome.chunks)
        return FileRead(work.source, len(outcome.chunks), work.stat.size)

    def _handle_failure(self, work: FileTask, outcome: ParseFailure, looked_at: int) -> FileRead:
        error = outcome.error
        unsupported = isinstance(error, UnsupportedFormat)
        recipe = self._stages.loader_fingerprint(ANY_LOADER)
        row = _new_file_row(work, outcome.stat or work.stat, outcome.content_hash, recipe, looked_at)
        status = "skipped" if unsupported else "failed"
        self._defer_file_row(replace(row, status=status, reason=error.reason, hint=error.hint), work)
        if unsupported:
            self._skipped.append((work.source, error.reason))
        else:
            self._failures.append(FileFailure(work.source, error.reason, error.hint))
        self._counts[status] += 1
        return FileRead(work.source, 0, work.stat.size, error.reason)

    def _defer_file_row(self, row: FileRow, work: FileTask) -> None:
        """A file without chunks: what it had before goes when this run is published."""
        self._pending_file_rows.append(row)
        if work.previous is not None and work.previous.document is not None:
            self._replaced_documents.append(work.previous.document)

    def _queue_texts(self, texts: dict[bytes, str]) -> None:
        """Note which texts have no vector yet."""
        known = (self._vector_rows, self._texts_to_embed, self._embedding_hashes)
        unknown = [key for key in texts if not any(key in place for place in known)]
        if self._embedder is not None:
            self._vector_rows.update(self._catalog.find_vector_rows(self._embedder.key, unknown))
        self._texts_to_embed.update((key, texts[key]) for key in unknown if key not in self._vector_rows)

    # embedding and writing

    def _embed_next_batch(self) -> Iterator[IndexEvent]:
        """Hand over the next window, once there is room for it; record the documents that are whole.

        While windows are embedded, elsewhere, the next files are taken here. Documents are recorded in the order of
        the plan, so that the same files give the same catalog whoever the workers are.
        """
        # with a budget, what a window cost is known before the next one is handed over
        room = 1 if self._options.affordable_count else self._stages.runner.max_parallel_batches
        if len(self._batch_queue) >= room or not self._texts_to_embed:
            yield from self._collect_batch()
        try:
            if self._texts_to_embed:
                self._submit_batch(list(islice(self._texts_to_embed.items(), EMBED_BATCH_SIZE)))
        except BudgetExceeded:
            yield from self._write_complete_documents()  # what is paid for can be searched
            raise
        yield from self._write_complete_documents()

    def _write_complete_documents(self) -> Iterator[IndexEvent]:
        """Record the documents whose vectors are all there, as far as none before them waits."""
        whole: list[_PendingDocument] = []
        while self._pending_documents and all(
            key in self._vector_rows for key in self._pending_documents[0].text_hashes
        ):
            whole.append(self._pending_documents.popleft())
        if whole:
            self._pending_chunk_count -= sum(len(ready.prepared.chunks) for ready in whole)
            with self._measure_stage("store"):
                generation = self._write_documents(whole)
            if generation is not None:
                yield GenerationPublished(generation, len(whole))
            self._evict_vector_rows()

    def _evict_vector_rows(self) -> None:
        """Keep the rows of texts that are still waited for: the catalog knows the others. A dry run writes none."""
        if not self._options.dry_run and len(self._vector_rows) >= 4 * MAX_PENDING_CHUNKS:
            wanted = {key for ready in self._pending_documents for key in ready.text_hashes}
            self._vector_rows = {key: row for key, row in self._vector_rows.items() if key in wanted}

    def _submit_batch(self, window: list[tuple[bytes, str]]) -> None:
        window = self._reuse_known_vectors(window)
        if not window:
            return
        if self._options.affordable_count:
            window = window[: self._options.affordable_count([self._stages.count_tokens([text]) for _, text in window])]
        texts = [text for _, text in window]
        if self._options.dry_run:
            self._token_count += self._stages.count_tokens(texts)
        for key, _ in window:
            del self._texts_to_embed[key]
        self._embedding_hashes.update(key for key, _ in window)
        self._batch_queue.append(self._start_batch([key for key, _ in window], texts))

    def _reuse_known_vectors(self, window: list[tuple[bytes, str]]) -> list[tuple[bytes, str]]:
        """Copy the vectors that are known elsewhere; returns the texts that are left."""
        found = self._options.find_known_vectors([key for key, _ in window]) if self._options.find_known_vectors else {}
        if not found:
            return window
        if self._options.dry_run:
            self._vector_rows.update(dict.fromkeys(found, -1))
        else:
            with self._measure_stage("store"):
                self._write_vectors(list(found), np.stack(list(found.values())))
        for key in found:
            del self._texts_to_embed[key]
        return [pair for pair in window if pair[0] not in found]

    def _start_batch(self, keys: list[bytes], texts: list[str]) -> _EmbedBatch:
        """A window on its way: by the runner, or where a service does the work, in batches of its own from here."""
        embedder = self._stages.embedder
        if self._options.dry_run:
            return _EmbedBatch(keys)
        self._check_weights(self._require_embedder_row())
        if isinstance(embedder, BatchingEmbedder):
            return _EmbedBatch(keys, job=EmbeddingJob(embedder, texts))
        return _EmbedBatch(keys, self._stages.runner.start_embedding(texts))

    def _collect_batch(self) -> Iterator[IndexEvent]:
        """Wait for the window that was handed over first, and write its vectors."""
        if not self._batch_queue:
            return
        window = self._batch_queue[0]
        before = self._metered_tokens
        if window.job is not None:
            with self._measure_stage("embed"):
                for part in window.job.iter_remaining():
                    self._write_part(window, part)
                window.job.close()
        elif window.pending is not None:
            rows, seconds = window.pending()
            self._stage_seconds["embed"] += seconds
            with self._measure_stage("store"):
                self._write_vectors(window.text_hashes, rows)
        else:
            self._vector_rows.update(dict.fromkeys(window.text_hashes, -1))
        self._batch_queue.popleft()
        self._embedding_hashes.difference_update(window.text_hashes)
        if not self._options.dry_run:
            self._metered_tokens = self._read_metered_tokens()
            self._token_count += self._metered_tokens - before
        self._counts["embedded"] += len(window.text_hashes)
        yield TextsEmbedded(len(window.text_hashes), self._metered_tokens - before, len(self._texts_to_embed))

    @contextmanager
    def _measure_stage(self, station: str) -> Iterator[None]:
        """Count the time of a block for a station."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._stage_seconds[station] += time.perf_counter() - began

    def _write_finished_parts(self) -> None:
        """Write what services have answered: whatever happens next, it is not paid again."""
        for window in self._batch_queue:
            for part in window.job.take_finished() if window.job else ():
                self._write_part(window, part)

    def _write_part(self, window: _EmbedBatch, part: EmbeddedPart) -> None:
        places, rows = part
        self._write_vectors([window.text_hashes[place] for place in places], rows)

    @contextmanager
    def _write_late_results(self) -> Iterator[None]:
        """After an error or an interrupt: wait for the requests that are under way, and write what they give."""
        try:
            yield
        finally:
            for window in self._batch_queue:
                if window.job is not None:
                    window.job.close()
            self._write_finished_parts()

    def _read_metered_tokens(self) -> int:
        """Tokens that embedders have reported in this run."""
        meter = current_meter()
        return meter.usage().embedding_tokens if meter else 0

    def _write_vectors(self, keys: Sequence[bytes], rows: Rows) -> None:
        embedder = self._require_embedder_row()
        first = self._vectors.append(rows)
        self._vectors.sync()
        with self._catalog.transaction():
            checksums = self._vectors.checksums(first, len(keys)).tolist()
            self._catalog.add_vectors(embedder.key, first, keys, checksums)
        self._vector_rows.update((key, first + i) for i, key in enumerate(keys))

    def _check_weights(self, embedder: EmbedderRow) -> None:
        """Before the first vectors of a run: are they of the same model as those that are here?"""
        if self._weights_checked:
            return
        probe = embed_probe(self._stages.embedder)
        if embedder.probe is None:
            with self._catalog.transaction():
                self._catalog.set_probe(embedder.key, probe.tobytes())
        else:
            check_embedder_weights(self._options.kb, embedder.probe, probe)
        self._weights_checked = True

    def _require_embedder_row(self) -> EmbedderRow:
        if self._embedder is None:
            raise AssertionError("the knowledge base was opened without its embedder")
        return self._embedder

    def _write_documents(self, whole: list[_PendingDocument]) -> int | None:
        """Write documents; returns the generation in which they can be searched, when they can be at once."""
        for ready in whole:
            self._count_chunk_changes(ready)
        if self._options.dry_run:
            return None
        with self._catalog.transaction():
            for ready in whole:
                self._insert_document(ready, live=self._publish_early)
            if not self._publish_early:
                return None
            self._catalog.put_files(self._pending_file_rows)
            self._write_settings()
            generation = self._increment_generation()
        self._pending_file_rows.clear()
        return generation

    def _insert_document(self, ready: _PendingDocument, *, live: bool) -> None:
        prepared = ready.prepared
        key = self._catalog.add_document(
            prepared.document, ready.file_row.content_hash, ready.file_row.recipe, live=live
        )
        rows = [self._vector_rows[text_hash] for text_hash in ready.text_hashes]
        keys = self._catalog.add_chunks(key, prepared.chunks, rows, live=live)
        self._stages.lexical_index.add(keys, prepared.terms)
        self._pending_file_rows.append(replace(ready.file_row, document=key))
        self._staged_documents += [] if live else [key]

    def _count_chunk_changes(self, ready: _PendingDocument) -> None:
        """Compare a document's chunks with those of its last version."""
        before = ready.task.previous
        new = {chunk.id for chunk in ready.prepared.chunks}
        old: set[str] = set()
        if before is not None and before.document is not None:
            old = self._stored_chunk_ids(before.document)
            self._replaced_documents.append(before.document)
        # A file that failed or was empty before, and has text now, is new to whoever searches.
        self._counts["added" if not old else "updated"] += 1
        self._counts["chunks added"] += len(new - old)
        self._counts["chunks reused"] += len(new & old)
        self._counts["chunks removed"] += len(old - new)

    def _stored_chunk_ids(self, document: int) -> set[str]:
        rows = self._catalog.connection.execute("SELECT id FROM chunks WHERE document = ?", (document,))
        return {row[0] for row in rows}

    # publishing

    def _publish_run(self, plan: IndexPlan, looked_at: int) -> GenerationPublished | None:
        gone = [row.document for row in plan.removed if row.document is not None]
        self._counts["chunks removed"] += len(self._catalog.chunk_keys([*gone, *self._find_emptied_documents()]))
        if self._options.dry_run:
            return None
        with self._catalog.transaction():
            self._delete_documents([*gone, *self._replaced_documents])
            if not self._publish_early:
                self._catalog.publish(self._staged_documents)
            self._catalog.delete_files(row.source for row in plan.removed)
            self._catalog.put_files(self._pending_file_rows)
            self._catalog.put_files(_with_stored_stat(row, looked_at) for row in plan.touched)
            self._write_settings()
            changed = bool(gone or self._replaced_documents or self._pending_file_rows)
            generation = self._increment_generation() if changed else self._catalog.generation()
        return GenerationPublished(generation, len(self._pending_file_rows) + len(plan.removed)) if changed else None

    def _write_settings(self) -> None:
        """Write down settings and sources, where they are not yet."""
        for key, value in self._options.catalog_settings.items():
            if self._catalog.get_meta(key) != value:
                self._catalog.set_meta(key, value)
        self._catalog.add_roots(self._options.roots)

    def _find_emptied_documents(self) -> list[int]:
        """Documents whose file has no text any more: their chunks are not compared one by one."""
        without = {row.source for row in self._pending_file_rows if row.document is None}
        rows = self._catalog.connection.execute("SELECT key, source FROM documents WHERE live = 1")
        replaced = set(self._replaced_documents)
        return [key for key, source in rows if key in replaced and source in without]

    def _delete_documents(self, documents: Sequence[int]) -> None:
        self._stages.lexical_index.remove(self._catalog.chunk_keys(documents))
        self._catalog.delete_documents(documents)

    def _delete_staged_leftovers(self) -> None:
        """Documents that an interrupted run staged: their vectors are kept, so doing them again is cheap."""
        leftovers = list(self._catalog.staged_documents().values())
        if leftovers:
            with self._catalog.transaction():
                self._delete_documents(leftovers)

    def _increment_generation(self) -> int:
        generation = self._catalog.generation() + 1
        self._catalog.set_meta("generation", str(generation))
        return generation


def _new_file_row(work: FileTask, stat: FileStat, content_hash: str, recipe: str, looked_at: int) -> FileRow:
    stat = stat_to_store(stat, looked_at)
    return FileRow(work.source, stat.size, stat.mtime_ns, stat.ctime_ns, stat.inode, content_hash, recipe, "indexed")


def _with_stored_stat(row: FileRow, looked_at: int) -> FileRow:
    stat = stat_to_store(FileStat(row.size, row.mtime_ns, row.ctime_ns, row.inode), looked_at)
    return replace(row, mtime_ns=stat.mtime_ns)

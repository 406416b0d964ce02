"""Execute an index plan: read, split, embed and store. Every step is idempotent.

A build is a generator of events. Vectors are written and synced before the rows that refer to them are committed.
The first build of a knowledge base publishes continuously, so that it can be searched early. Later builds stage all
changes and publish them in one transaction: readers see either the complete old or the complete new content.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from contextvars import Context
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice

import numpy as np

from ragkit.embed.base import BatchingEmbedder, EmbeddingProvider, Row, Rows, embed_probe
from ragkit.embed.embedding_job import EmbeddedPart, EmbeddingJob
from ragkit.errors import BudgetExceeded, UnsupportedFormat
from ragkit.index.access.audit import ACCESS_HINT, describe_problems
from ragkit.index.build_fingerprint import check_embedder_weights
from ragkit.index.build_runner import BuildRunner, EmbeddedTexts, EmbeddingSharer, PendingEmbedding, PreparedFile
from ragkit.index.catalog.sqlite import Catalog, EmbedderRow, FileRow
from ragkit.index.context_writer import ContextWriter, Prepared
from ragkit.index.plan import FileTask, IndexPlan, stat_to_store
from ragkit.index.reading_notes import ReadingNotes
from ragkit.index.report import (
    FileFailure,
    FileRead,
    GenerationPublished,
    IndexEvent,
    IndexReport,
    PlanCreated,
    TextsEmbedded,
)
from ragkit.lexical.base import LexicalIndex
from ragkit.load.file_types import file_suffix
from ragkit.load.files.file_io import FileStat
from ragkit.load.process.parsing import ParseFailure
from ragkit.store.native.vector_file import VectorFile
from ragkit.usage.meter import current_meter

ANY_LOADER = "*"
"""Loader name of files that no loader could read. Its fingerprint changes when any loader changes."""
EMBED_BATCH_SIZE = 256
"""Texts embedded and written per batch: a few seconds of work, which limits the loss on a crash and shows progress."""
FIRST_BATCH_SIZE = 64
"""The same on this machine for the first FIRST_TEXTS texts, so that a small run shows its progress as well."""
FIRST_TEXTS = 1024
STATIC_BATCH_SIZE = 2048
"""The same for static vectors, which take a fraction of a second."""
MAX_PENDING_CHUNKS = 4096
"""Maximum number of chunks that wait for vectors; then reading pauses."""


@dataclass(frozen=True)
class BuildStages:
    """The components of a build."""

    runner: BuildRunner
    """Reads, splits and embeds. Only the build itself accesses the catalog."""
    count_tokens: Callable[[Sequence[str]], int]
    embedder: EmbeddingProvider
    lexical_index: LexicalIndex
    loader_fingerprint: Callable[[str], str]
    """Loader name -> fingerprint of its documents."""
    contexts: ContextWriter
    """Adds contexts to chunks."""


@dataclass(frozen=True)
class BuildOptions:
    """Options of a build."""

    kb: str
    dry_run: bool = False
    affordable_count: Callable[[Sequence[int]], int] | None = None
    """Token counts of pending texts -> how many of the first texts the budget allows, >= 1. None: no limit.
    Raises BudgetExceeded to stop."""
    catalog_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings to store in the catalog with the first publication."""
    roots: tuple[str, ...] = ()
    """The sources to store in the catalog."""
    find_known_vectors: Callable[[Sequence[bytes]], Mapping[bytes, Row]] | None = None
    """Text hashes -> vectors known elsewhere, which are copied instead of embedded again."""
    save_vectors: Callable[[Sequence[bytes], Rows], None] | None = None
    """Called with each new vector and the hash of its text, before the catalog records it."""
    later_embedder: str = ""
    """The fingerprint of the embedder that gives the chunks their vectors after the build, if it is not '': the build
    writes vectors of a static embedder for the chunks that have none of it yet."""
    keep_unread: bool = True
    """Whether documents of files that cannot be read now stay. They do not if the settings have changed."""


@dataclass(slots=True)
class _PendingDocument:
    """A split document that waits for its vectors."""

    task: FileTask
    file_row: FileRow
    prepared: PreparedFile
    text_hashes: list[bytes]


@dataclass(frozen=True, slots=True)
class _EmbedBatch:
    """Texts that are being embedded. Without `pending` and `job` in a dry run, where nothing is embedded."""

    text_hashes: list[bytes]
    pending: PendingEmbedding | None = None
    """The result of the runner."""
    job: EmbeddingJob | None = None
    """The requests to an embedding service."""


class Build:
    """One index run. `events()` does the work; `report()` returns the result afterwards."""

    def __init__(self, catalog: Catalog, vectors: VectorFile, stages: BuildStages, options: BuildOptions) -> None:
        self._catalog = catalog
        self._vectors = vectors
        self._stages = stages
        self._options = options
        self._embedder = catalog.embedder(stages.embedder.fingerprint)
        self._later_embedder = catalog.embedder(options.later_embedder) if options.later_embedder else None
        self._batch_size = STATIC_BATCH_SIZE if self._later_embedder else EMBED_BATCH_SIZE
        self._pending_documents: deque[_PendingDocument] = deque()
        self._pending_chunk_count = 0
        self._texts_to_embed: dict[bytes, str] = {}
        self._vector_rows: dict[bytes, int] = {}
        self._staged_documents: list[int] = []
        self._replaced_documents: list[int] = []
        self._pending_file_rows: list[FileRow] = []
        self._removed_parts: list[str] = []
        self._publish_early = catalog.connection.execute("SELECT 1 FROM documents WHERE live = 1").fetchone() is None
        self._counts: Counter[str] = Counter()
        self._failures: list[FileFailure] = []
        self._skipped: list[tuple[str, str]] = []
        self._reading_notes = ReadingNotes()
        self._token_count = 0
        self._weights_checked = False
        self._batch_queue: deque[_EmbedBatch] = deque()
        self._embedding_hashes: set[bytes] = set()
        self._stage_seconds = dict.fromkeys(("load", "split", "embed", "store"), 0.0)
        self._metered_tokens = self._read_metered_tokens()

    def events(self, plan: IndexPlan) -> Generator[IndexEvent, None, None]:
        """Execute the plan. After an error, or when the generator is closed, published content and all vectors stay.

        Raises:
            BudgetExceeded: the next batch exceeds the budget.
            WorkerError: workers cannot be started, or died.
            ProviderError: and any other error of the embedder.
        """
        removed = tuple(row.source for row in plan.removed)
        sizes: Counter[str] = Counter()
        for task in plan.tasks:
            sizes[file_suffix(task.source)] += task.stat.size
        yield PlanCreated(len(plan.tasks), sizes.total(), len(removed), removed, sizes)
        if not self._options.dry_run:
            self._delete_staged_leftovers()
        checked_at = time.time_ns()
        with self._stages.runner as runner, self._write_late_results(), closing(self._stages.contexts) as contexts:
            stopped = yield from self._read_files(contexts.add_contexts(runner.prepare_files(plan.tasks)), checked_at)
            while self._pending_documents or self._texts_to_embed or self._batch_queue:
                yield from self._embed_next_batch()
        if stopped is not None:
            raise stopped
        with self._measure_stage("store"):
            published = self._publish_run(plan, checked_at)
        if published is not None:
            yield published

    def report(self, plan: IndexPlan, started: float) -> IndexReport:
        """The result of the run. `started` is its start by `time.perf_counter`."""
        counts = self._counts
        known_failures = [FileFailure(row.source, row.reason, row.hint) for row in plan.still_failed]
        files = {key: counts[key] for key in ("added", "updated", "removed", "failed", "skipped")}
        files["unchanged"] = plan.unchanged + counts["unchanged"]
        files["removed"] += sum(
            1 for row in plan.removed if row.status in {"indexed", "empty"} or row.document is not None
        )
        files["failed"] += sum(row.status == "failed" for row in plan.still_failed)
        files["skipped"] += len(plan.skipped)
        contexts, dry_run = self._stages.contexts, self._options.dry_run
        estimates = contexts.estimates() if dry_run else ()
        return IndexReport(
            kb=self._options.kb,
            files=files,
            chunks={key: counts[f"chunks {key}"] for key in ("added", "removed", "reused")},
            embedded=counts["embedded"],
            tokens=self._token_count,
            failures=tuple(known_failures + self._failures),
            skipped=plan.skipped + tuple(self._skipped),
            seconds=time.perf_counter() - started,
            contexts=sum(estimate.requests for estimate in estimates) if dry_run else contexts.written,
            context_estimates=estimates,
            notes=self._reading_notes.lines(is_estimate=dry_run),
            stage_seconds={stage: round(seconds, 3) for stage, seconds in self._stage_seconds.items()},
            dry_run=dry_run,
        )

    # reading

    def _read_files(
        self, prepared: Iterator[Prepared], checked_at: int
    ) -> Generator[IndexEvent, None, BudgetExceeded | None]:
        """Read files, and embed while reading. Returns the error if the budget does not cover all of them: then those
        that were read are still embedded, as far as that is free."""
        try:
            for task, outcome in prepared:
                event = self._handle_outcome(task, outcome, checked_at)
                yield replace(event, pending_texts=self._pending_text_count)
                self._write_finished_parts()
                while len(self._texts_to_embed) >= self._next_size or self._pending_chunk_count >= MAX_PENDING_CHUNKS:
                    yield from self._embed_next_batch()
        except BudgetExceeded as error:
            return error
        return None

    def _handle_outcome(self, task: FileTask, outcome: PreparedFile | ParseFailure, checked_at: int) -> FileRead:
        if isinstance(outcome, ParseFailure):
            return self._handle_failure(task, outcome, checked_at)
        self._stage_seconds["load"] += outcome.load_seconds
        self._stage_seconds["split"] += outcome.split_seconds
        self._token_count += outcome.split_tokens
        self._reading_notes.add(outcome.document)
        recipe = self._stages.loader_fingerprint(outcome.loader)
        row = _new_file_row(task, outcome.stat, outcome.content_hash, recipe, checked_at)
        problem = describe_problems(part.document for part in (outcome, *outcome.parts))
        if problem:
            row = row._replace(reason=problem, hint=ACCESS_HINT)
            self._failures.append(FileFailure(task.source, problem, ACCESS_HINT))
        parts = self._queue_parts(task, row, outcome.parts)
        if not outcome.chunks and parts:
            self._counts["updated" if task.previous is not None and self._catalog.parts(task.source) else "added"] += 1
            self._defer_file_row(row, task)
            return FileRead(task.source, parts, task.stat.size, row.reason, row.hint)
        if not outcome.chunks:
            self._defer_file_row(row._replace(status="empty", reason="holds no text", hint=""), task)
            self._skipped.append((task.source, "holds no text"))
            self._counts["skipped"] += 1
            return FileRead(task.source, 0, task.stat.size, "holds no text")
        self._queue_document(task, row, outcome)
        return FileRead(task.source, len(outcome.chunks) + parts, task.stat.size, row.reason, row.hint)

    def _queue_parts(self, task: FileTask, row: FileRow, parts: Sequence[PreparedFile]) -> int:
        """Queue the documents inside a file, and remove those that are gone. Returns their number of chunks."""
        known = {part.source: part for part in self._catalog.parts(task.source)} if task.previous is not None else {}
        for part in parts:
            source = part.document.source
            inner = FileTask(source, task.path, task.stat, known.pop(source, None))
            stat = FileRow(source, 0, 0, 0, 0, row.content_hash, row.recipe, "part", task.source)
            self._stage_seconds["split"] += part.split_seconds
            self._token_count += part.split_tokens
            self._queue_document(inner, stat, part)
        self._remove_parts(known.values())
        return sum(len(part.chunks) for part in parts)

    def _remove_parts(self, rows: Iterable[FileRow]) -> None:
        """Remove documents inside files when this run is published."""
        gone = list(rows)
        documents = [row.document for row in gone if row.document is not None]
        self._removed_parts += [row.source for row in gone]
        self._replaced_documents += documents
        self._counts["chunks removed"] += len(self._catalog.chunk_keys(documents))

    def _queue_document(self, task: FileTask, row: FileRow, prepared: PreparedFile) -> None:
        hashes = [blake2b(text.encode("utf-8"), digest_size=16).digest() for text in prepared.texts]
        self._queue_texts(dict(zip(hashes, prepared.texts, strict=True)))
        self._pending_documents.append(_PendingDocument(task, row, replace(prepared, texts=(), parts=()), hashes))
        self._pending_chunk_count += len(prepared.chunks)

    def _handle_failure(self, task: FileTask, outcome: ParseFailure, checked_at: int) -> FileRead:
        error = outcome.error
        unsupported = isinstance(error, UnsupportedFormat)
        status = "skipped" if unsupported else "failed"
        kept = self._find_kept(task, outcome)
        reason = error.reason if kept is None else f"{error.reason}; what was indexed is kept"
        recipe = self._stages.loader_fingerprint(ANY_LOADER)
        row = _new_file_row(task, outcome.stat or task.stat, outcome.content_hash, recipe, checked_at)
        row = row._replace(status=status, reason=reason, hint=error.hint)
        if kept is not None:
            self._pending_file_rows.append(row._replace(document=kept.document))
        else:
            self._queue_parts(task, row, ())
            self._defer_file_row(row, task)
        if unsupported:
            self._skipped.append((task.source, reason))
        else:
            self._failures.append(FileFailure(task.source, reason, error.hint))
        self._counts[status] += 1
        return FileRead(task.source, 0, task.stat.size, reason, error.hint)

    def _find_kept(self, task: FileTask, failure: ParseFailure) -> FileRow | None:
        """The row of a file that cannot be read now, if its documents stay."""
        row = task.previous
        if row is None or not failure.is_unread or not self._options.keep_unread:
            return None
        return row if row.document is not None or self._catalog.parts(row.source) else None

    def _defer_file_row(self, row: FileRow, task: FileTask) -> None:
        """Record a file without chunks; its previous document is deleted when this run is published."""
        self._pending_file_rows.append(row)
        if task.previous is not None and task.previous.document is not None:
            self._replaced_documents.append(task.previous.document)

    def _queue_texts(self, texts: dict[bytes, str]) -> None:
        """Queue the texts that have no vector."""
        known = (self._vector_rows, self._texts_to_embed, self._embedding_hashes)
        unknown = [key for key in texts if not any(key in mapping for mapping in known)]
        if self._embedder is not None:
            found = self._catalog.find_vector_rows(self._embedder.key, unknown)
            self._vector_rows.update((key, self._reference(row)) for key, row in found.items())
        if self._later_embedder is not None:
            self._vector_rows.update(self._catalog.find_vector_rows(self._later_embedder.key, unknown))
        self._texts_to_embed.update((key, texts[key]) for key in unknown if key not in self._vector_rows)

    def _reference(self, row: int) -> int:
        """How a chunk refers to a row of the file of this build."""
        return row if self._later_embedder is None else ~row

    # embedding and writing

    def _embed_next_batch(self) -> Iterator[IndexEvent]:
        """Submit the next batch when there is capacity; write the documents that are complete.

        Files are read while batches are embedded. Documents are written in the order of the plan, so that the catalog
        does not depend on the runner.
        """
        # with a budget, the cost of a batch must be known before the next one is submitted
        max_batches = 1 if self._options.affordable_count else self._stages.runner.max_parallel_batches
        if len(self._batch_queue) >= max_batches or not self._texts_to_embed:
            yield from self._collect_batch()
        try:
            if self._texts_to_embed:
                self._submit_batch(list(islice(self._texts_to_embed.items(), self._next_size)))
        except BudgetExceeded:
            yield from self._write_complete_documents()  # paid vectors become searchable
            raise
        yield from self._write_complete_documents()

    @property
    def _next_size(self) -> int:
        """Texts of the next batch. Requests to a service are as large as they may be."""
        is_first = self._counts["embedded"] < FIRST_TEXTS and not isinstance(self._stages.embedder, BatchingEmbedder)
        return min(self._batch_size, FIRST_BATCH_SIZE) if is_first and not self._later_embedder else self._batch_size

    def _write_complete_documents(self) -> Iterator[IndexEvent]:
        """Write the documents at the front of the queue whose vectors are complete."""
        complete: list[_PendingDocument] = []
        queue = self._pending_documents
        while queue and all(key in self._vector_rows for key in queue[0].text_hashes):
            complete.append(queue.popleft())
        if complete:
            self._pending_chunk_count -= sum(len(pending.prepared.chunks) for pending in complete)
            with self._measure_stage("store"):
                generation = self._write_documents(complete)
            if generation is not None:
                yield GenerationPublished(generation, len(complete))
            self._evict_vector_rows()

    def _evict_vector_rows(self) -> None:
        """Drop rows that no pending document needs, since the catalog has them. Not in a dry run, which writes none."""
        if not self._options.dry_run and len(self._vector_rows) >= 4 * MAX_PENDING_CHUNKS:
            needed = {key for pending in self._pending_documents for key in pending.text_hashes}
            self._vector_rows = {key: row for key, row in self._vector_rows.items() if key in needed}

    def _submit_batch(self, batch: list[tuple[bytes, str]]) -> None:
        batch = self._reuse_known_vectors(batch)
        if not batch:
            return
        if self._options.affordable_count:
            batch = batch[: self._options.affordable_count([self._stages.count_tokens([text]) for _, text in batch])]
        texts = [text for _, text in batch]
        if self._options.dry_run:
            self._token_count += self._stages.count_tokens(texts)
        for key, _ in batch:
            del self._texts_to_embed[key]
        self._embedding_hashes.update(key for key, _ in batch)
        self._batch_queue.append(self._start_batch([key for key, _ in batch], texts))

    def _reuse_known_vectors(self, batch: list[tuple[bytes, str]]) -> list[tuple[bytes, str]]:
        """Copy the vectors that are known elsewhere; returns the remaining texts."""
        known = self._options.find_known_vectors([key for key, _ in batch]) if self._options.find_known_vectors else {}
        if not known:
            return batch
        if self._options.dry_run:
            self._vector_rows.update(dict.fromkeys(known, -1))
        else:
            with self._measure_stage("store"):
                self._write_vectors(list(known), np.stack(list(known.values())))
        for key in known:
            del self._texts_to_embed[key]
        return [pair for pair in batch if pair[0] not in known]

    def _start_batch(self, keys: list[bytes], texts: list[str]) -> _EmbedBatch:
        """Start to embed a batch: in the runner, or by requests to a service from this process."""
        embedder = self._stages.embedder
        if self._options.dry_run:
            return _EmbedBatch(keys)
        self._check_weights(self._require_embedder_row())
        if self._later_embedder is not None:
            return _EmbedBatch(keys, lambda: _embed_unmetered(embedder, texts))
        runner = self._stages.runner
        shared = runner.share(texts) if isinstance(runner, EmbeddingSharer) else None
        if shared is not None:
            return _EmbedBatch(keys, shared)
        if isinstance(embedder, BatchingEmbedder):
            return _EmbedBatch(keys, job=EmbeddingJob(embedder, texts))
        return _EmbedBatch(keys, runner.start_embedding(texts))

    def _collect_batch(self) -> Iterator[IndexEvent]:
        """Wait for the oldest batch, and write its vectors."""
        if not self._batch_queue:
            return
        batch = self._batch_queue[0]
        tokens_before = self._metered_tokens
        if batch.job is not None:
            with self._measure_stage("embed"):
                for part in batch.job.iter_remaining():
                    self._write_part(batch, part)
                batch.job.close()
        elif batch.pending is not None:
            rows, seconds = batch.pending()
            self._stage_seconds["embed"] += seconds
            with self._measure_stage("store"):
                self._write_new_vectors(batch.text_hashes, rows)
        else:
            self._vector_rows.update(dict.fromkeys(batch.text_hashes, -1))
        self._batch_queue.popleft()
        self._embedding_hashes.difference_update(batch.text_hashes)
        if not self._options.dry_run:
            self._metered_tokens = self._read_metered_tokens()
            self._token_count += self._metered_tokens - tokens_before
        if self._later_embedder is not None:
            return
        self._counts["embedded"] += len(batch.text_hashes)
        yield TextsEmbedded(len(batch.text_hashes), self._metered_tokens - tokens_before, self._pending_text_count)

    @property
    def _pending_text_count(self) -> int:
        """Texts that were read and are not embedded yet, those of running batches included."""
        return 0 if self._later_embedder else len(self._texts_to_embed) + len(self._embedding_hashes)

    @contextmanager
    def _measure_stage(self, stage: str) -> Iterator[None]:
        """Add the time of a block to a stage."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._stage_seconds[stage] += time.perf_counter() - started

    def _write_finished_parts(self) -> None:
        """Write the vectors that services returned so far, so that they are never paid twice."""
        for batch in self._batch_queue:
            for part in batch.job.take_finished() if batch.job else ():
                self._write_part(batch, part)

    def _write_part(self, batch: _EmbedBatch, part: EmbeddedPart) -> None:
        places, rows = part
        self._write_new_vectors([batch.text_hashes[place] for place in places], rows)

    @contextmanager
    def _write_late_results(self) -> Iterator[None]:
        """On exit, also after an error or interrupt: wait for running requests and write their vectors."""
        try:
            yield
        finally:
            for batch in self._batch_queue:
                if batch.job is not None:
                    batch.job.close()
            self._write_finished_parts()

    def _read_metered_tokens(self) -> int:
        """Tokens reported by embedders in this run."""
        meter = current_meter()
        return meter.usage().embedding_tokens if meter else 0

    def _write_new_vectors(self, keys: Sequence[bytes], rows: Rows) -> None:
        if self._options.save_vectors is not None:
            self._options.save_vectors(keys, rows)
        self._write_vectors(keys, rows)

    def _write_vectors(self, keys: Sequence[bytes], rows: Rows) -> None:
        embedder = self._require_embedder_row()
        first = self._vectors.append(rows)
        self._vectors.sync()
        with self._catalog.transaction():
            checksums = self._vectors.checksums(first, len(keys)).tolist()
            self._catalog.add_vectors(embedder.key, first, keys, checksums)
        self._vector_rows.update((key, self._reference(first + i)) for i, key in enumerate(keys))

    def _check_weights(self, embedder: EmbedderRow) -> None:
        """Before the first vectors of a run, compare the weights of the embedder with those of the stored vectors."""
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

    def _write_documents(self, documents: list[_PendingDocument]) -> int | None:
        """Write documents; returns the new generation if they are published immediately."""
        for pending in documents:
            self._count_chunk_changes(pending)
        if self._options.dry_run:
            return None
        with self._catalog.transaction():
            keys = [key for pending in documents for key in self._insert_document(pending, live=self._publish_early)]
            terms = [terms for pending in documents for terms in pending.prepared.terms]
            self._stages.lexical_index.add(keys, terms)  # at once: many small files are one call
            if not self._publish_early:
                return None
            self._catalog.put_files(self._pending_file_rows)
            self._write_settings()
            generation = self._increment_generation()
        self._pending_file_rows.clear()
        return generation

    def _insert_document(self, pending: _PendingDocument, *, live: bool) -> range:
        """Write a document and its chunks, without their terms; returns the keys of the chunks."""
        prepared, file_row = pending.prepared, pending.file_row
        key = self._catalog.add_document(prepared.document, file_row.content_hash, file_row.recipe, live=live)
        rows = [self._vector_rows[text_hash] for text_hash in pending.text_hashes]
        keys = self._catalog.add_chunks(key, prepared.chunks, rows, live=live)
        self._pending_file_rows.append(file_row._replace(document=key))
        self._staged_documents += [] if live else [key]
        return keys

    def _count_chunk_changes(self, pending: _PendingDocument) -> None:
        """Compare a document's chunks with those of its previous version."""
        previous = pending.task.previous
        new = {chunk.id for chunk in pending.prepared.chunks}
        old: set[str] = set()
        if previous is not None and previous.document is not None:
            old = self._stored_chunk_ids(previous.document)
            self._replaced_documents.append(previous.document)
        # A file without chunks in the previous run (failed, empty) counts as added.
        if pending.file_row.status != "part":
            self._counts["added" if not old else "updated"] += 1
        self._counts["chunks added"] += len(new - old)
        self._counts["chunks reused"] += len(new & old)
        self._counts["chunks removed"] += len(old - new)

    def _stored_chunk_ids(self, document: int) -> set[str]:
        rows = self._catalog.connection.execute("SELECT id FROM chunks WHERE document = ?", (document,))
        return {row[0] for row in rows}

    # publishing

    def _publish_run(self, plan: IndexPlan, checked_at: int) -> GenerationPublished | None:
        for row in plan.removed:
            self._remove_parts(self._catalog.parts(row.source))
        removed = [row.document for row in plan.removed if row.document is not None]
        self._counts["chunks removed"] += len(self._catalog.chunk_keys([*removed, *self._find_emptied_documents()]))
        if self._options.dry_run:
            return None
        with self._catalog.transaction():
            self._delete_documents([*removed, *self._replaced_documents])
            if not self._publish_early:
                self._catalog.publish(self._staged_documents)
            self._catalog.delete_files([*(row.source for row in plan.removed), *self._removed_parts])
            self._catalog.put_files(self._pending_file_rows)
            self._catalog.put_files(_with_stored_stat(row, checked_at) for row in plan.touched)
            self._write_settings()
            changed = bool(removed or self._replaced_documents or self._pending_file_rows)
            generation = self._increment_generation() if changed else self._catalog.generation()
        return GenerationPublished(generation, len(self._pending_file_rows) + len(plan.removed)) if changed else None

    def _write_settings(self) -> None:
        """Store settings and sources that are new or changed."""
        self._catalog.set_settings(self._options.catalog_settings)
        self._catalog.add_roots(self._options.roots)

    def _find_emptied_documents(self) -> list[int]:
        """Live documents of files that have no text now: `_count_chunk_changes` does not count their chunks."""
        emptied = {row.source for row in self._pending_file_rows if row.document is None}
        rows = self._catalog.connection.execute("SELECT key, source FROM documents WHERE live = 1")
        replaced = set(self._replaced_documents)
        return [key for key, source in rows if key in replaced and source in emptied]

    def _delete_documents(self, documents: Sequence[int]) -> None:
        self._stages.lexical_index.remove(self._catalog.chunk_keys(documents))
        self._catalog.delete_documents(documents)

    def _delete_staged_leftovers(self) -> None:
        """Delete staged documents of an interrupted run. Their vectors stay, so processing them again is cheap."""
        leftovers = list(self._catalog.staged_documents().values())
        if leftovers:
            with self._catalog.transaction():
                self._delete_documents(leftovers)

    def _increment_generation(self) -> int:
        generation = self._catalog.generation() + 1
        self._catalog.set_meta("generation", str(generation))
        return generation


def _embed_unmetered(embedder: EmbeddingProvider, texts: Sequence[str]) -> EmbeddedTexts:
    """Static vectors, which do not count as embedded."""
    started = time.perf_counter()
    rows = Context().run(embedder.embed_texts, texts)  # without the meter of this context
    return EmbeddedTexts(rows, time.perf_counter() - started)


def _new_file_row(task: FileTask, stat: FileStat, content_hash: str, recipe: str, checked_at: int) -> FileRow:
    stat = stat_to_store(stat, checked_at)
    return FileRow(task.source, stat.size, stat.mtime_ns, stat.ctime_ns, stat.inode, content_hash, recipe, "indexed")


def _with_stored_stat(row: FileRow, checked_at: int) -> FileRow:
    stat = stat_to_store(FileStat(row.size, row.mtime_ns, row.ctime_ns, row.inode), checked_at)
    return row._replace(mtime_ns=stat.mtime_ns)

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

from ragkit.embed.base import Batching, EmbeddingProvider, Row, Rows, probe_of
from ragkit.embed.parts import Embedding, Part
from ragkit.errors import BudgetExceeded, UnsupportedFormat
from ragkit.index.catalog import Catalog, EmbedderRow, FileRow
from ragkit.index.plan import Plan, Work, stat_to_store
from ragkit.index.recipe import check_weights
from ragkit.index.report import Embedded, Event, Failure, FileRead, IndexReport, Planned, Published
from ragkit.index.runner import Pending, Prepared, Runner
from ragkit.load.files import FileStat
from ragkit.load.parse import Failed
from ragkit.store.vectorfile import VectorFile
from ragkit.usage.meter import current_meter

ANY_LOADER = "*"
"""Stands for the loader of a file that none could read: its recipe changes with every loader's."""
WINDOW = 256
"""Texts that are embedded and written together: a few seconds of work, so that little is lost and progress shows."""
READY = 4096
"""Chunks that may wait for their vectors before reading pauses."""


class Lexicon(Protocol):
    """The full text index inside the catalog; its writes belong to the catalog's transaction."""

    def add(self, keys: Sequence[int], term_lists: Sequence[Sequence[str]]) -> None:
        """Index the chunks with these keys."""

    def remove(self, keys: Sequence[int]) -> None:
        """Forget the chunks with these keys."""


@dataclass(frozen=True)
class Stations:
    """The parts that a build drives, already chosen and opened."""

    runner: Runner
    """Reads, splits and embeds; the build alone looks into the catalog and writes to it."""
    count_tokens: Callable[[Sequence[str]], int]
    embedder: EmbeddingProvider
    lexicon: Lexicon
    recipe_of_loader: Callable[[str], str]
    """Loader name -> the recipe of the documents that it makes."""


@dataclass(frozen=True)
class BuildOptions:
    """How a build runs."""

    kb: str
    dry_run: bool = False
    affordable: Callable[[Sequence[int]], int] | None = None
    """Tokens of each text that waits -> how many of the first of them may be embedded now, at least one; None: all.
    Raises BudgetExceeded to stop."""
    settled: Mapping[str, str] = field(default_factory=dict)
    """What the catalog shall say of its settings from the first publication on."""
    roots: tuple[str, ...] = ()
    """The sources that were named, to be remembered."""
    known: Callable[[Sequence[bytes]], Mapping[bytes, Row]] | None = None
    """Hashes of texts -> the rows that are known elsewhere: they are copied, not made again."""


@dataclass(slots=True)
class _Ready:
    """A document that is split and waits for its vectors."""

    work: Work
    row: FileRow
    prepared: Prepared
    hashes: list[bytes]


@dataclass(frozen=True, slots=True)
class _Window:
    """Texts that are being embedded."""

    keys: list[bytes]
    pending: Pending | None = None
    """The runner's work on it; None in a dry run, where nothing is embedded, and where `parts` has it."""
    parts: Embedding | None = None
    """What a service does of it, batch by batch."""


class Build:
    """One run over one plan. `events()` does the work; `report()` tells afterwards what was done."""

    def __init__(self, catalog: Catalog, vectors: VectorFile, stations: Stations, options: BuildOptions) -> None:
        self._catalog = catalog
        self._vectors = vectors
        self._stations = stations
        self._options = options
        self._embedder = catalog.embedder(stations.embedder.fingerprint)
        self._ready: deque[_Ready] = deque()
        self._waiting_chunks = 0
        self._missing: dict[bytes, str] = {}
        self._rows: dict[bytes, int] = {}
        self._staged: list[int] = []
        self._replaced: list[int] = []
        self._settled: list[FileRow] = []
        self._publish_early = catalog.connection.execute("SELECT 1 FROM documents WHERE live = 1").fetchone() is None
        self._counts: Counter[str] = Counter()
        self._failures: list[Failure] = []
        self._skipped: list[tuple[str, str]] = []
        self._tokens = 0
        self._weights_are_known = False
        self._handed: deque[_Window] = deque()
        self._under_way: set[bytes] = set()
        self._seconds = dict.fromkeys(("load", "split", "embed", "store"), 0.0)
        self._counted = self._metered()

    def events(self, plan: Plan) -> Generator[Event, None, None]:
        """Do the work. Closing the generator, or an error in it, leaves what was published and every vector.

        Raises:
            BudgetExceeded: the next window would cost more than is left.
            WorkerError: the workers cannot be started, or are lost.
            ProviderError and its like: whatever the embedder raises.
        """
        gone = tuple(row.source for row in plan.removed)
        yield Planned(len(plan.work), sum(work.stat.size for work in plan.work), len(gone), gone)
        if not self._options.dry_run:
            self._drop_leftovers()
        looked_at = time.time_ns()
        with self._stations.runner as runner, self._keeping_what_comes():
            for work, outcome in runner.prepare(plan.work):
                yield self._take(work, outcome, looked_at)
                self._keep_ready()
                while len(self._missing) >= WINDOW or self._waiting_chunks >= READY:
                    yield from self._flush()
            while self._ready or self._missing or self._handed:
                yield from self._flush()
        with self._timed("store"):
            published = self._finish(plan, looked_at)
        if published is not None:
            yield published

    def report(self, plan: Plan, started: float) -> IndexReport:
        """What was done since `started` (of `time.perf_counter`)."""
        c = self._counts
        known_failures = [Failure(row.source, row.reason, row.hint) for row in plan.still_failed]
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
            tokens=self._tokens,
            failures=tuple(known_failures + self._failures),
            skipped=plan.skipped + tuple(self._skipped),
            seconds=time.perf_counter() - started,
            stations={station: round(seconds, 3) for station, seconds in self._seconds.items()},
            dry_run=self._options.dry_run,
        )

    # reading

    def _take(self, work: Work, outcome: Prepared | Failed, looked_at: int) -> FileRead:
        if isinstance(outcome, Failed):
            return self._take_failure(work, outcome, looked_at)
        self._seconds["load"] += outcome.load_seconds
        self._seconds["split"] += outcome.split_seconds
        recipe = self._stations.recipe_of_loader(outcome.loader)
        row = _row(work, outcome.stat, outcome.content_hash, recipe, looked_at)
        if not outcome.chunks:
            self._settle(replace(row, status="empty", reason="holds no text"), work)
            self._skipped.append((work.source, "holds no text"))
            self._counts["skipped"] += 1
            return FileRead(work.source, 0, work.stat.size, "holds no text")
        hashes = [blake2b(text.encode("utf-8"), digest_size=16).digest() for text in outcome.texts]
        self._want(dict(zip(hashes, outcome.texts, strict=True)))
        self._ready.append(_Ready(work, row, replace(outcome, texts=()), hashes))
        self._waiting_chunks += len(outcome.chunks)
        return FileRead(work.source, len(outcome.chunks), work.stat.size)

    def _take_failure(self, work: Work, outcome: Failed, looked_at: int) -> FileRead:
        error = outcome.error
        unsupported = isinstance(error, UnsupportedFormat)
        recipe = self._stations.recipe_of_loader(ANY_LOADER)
        row = _row(work, outcome.stat or work.stat, outcome.content_hash, recipe, looked_at)
        status = "skipped" if unsupported else "failed"
        self._settle(replace(row, status=status, reason=error.reason, hint=error.hint), work)
        if unsupported:
            self._skipped.append((work.source, error.reason))
        else:
            self._failures.append(Failure(work.source, error.reason, error.hint))
        self._counts[status] += 1
        return FileRead(work.source, 0, work.stat.size, error.reason)

    def _settle(self, row: FileRow, work: Work) -> None:
        """A file without chunks: what it had before goes when this run is published."""
        self._settled.append(row)
        if work.before is not None and work.before.document is not None:
            self._replaced.append(work.before.document)

    def _want(self, texts: dict[bytes, str]) -> None:
        """Note which texts have no vector yet."""
        known = (self._rows, self._missing, self._under_way)
        unknown = [key for key in texts if not any(key in place for place in known)]
        if self._embedder is not None:
            self._rows.update(self._catalog.vector_rows(self._embedder.key, unknown))
        self._missing.update((key, texts[key]) for key in unknown if key not in self._rows)

    # embedding and writing

    def _flush(self) -> Iterator[Event]:
        """Hand over the next window, once there is room for it; record the documents that are whole.

        While windows are embedded, elsewhere, the next files are taken here. Documents are recorded in the order of
        the plan, so that the same files give the same catalog whoever the workers are.
        """
        # with a budget, what a window cost is known before the next one is handed over
        room = 1 if self._options.affordable else self._stations.runner.windows
        if len(self._handed) >= room or not self._missing:
            yield from self._collect()
        try:
            if self._missing:
                self._hand_over(list(islice(self._missing.items(), WINDOW)))
        except BudgetExceeded:
            yield from self._record_whole()  # what is paid for can be searched
            raise
        yield from self._record_whole()

    def _record_whole(self) -> Iterator[Event]:
        """Record the documents whose vectors are all there, as far as none before them waits."""
        whole: list[_Ready] = []
        while self._ready and all(key in self._rows for key in self._ready[0].hashes):
            whole.append(self._ready.popleft())
        if whole:
            self._waiting_chunks -= sum(len(ready.prepared.chunks) for ready in whole)
            with self._timed("store"):
                generation = self._record(whole)
            if generation is not None:
                yield Published(generation, len(whole))
            self._forget_rows()

    def _forget_rows(self) -> None:
        """Keep the rows of texts that are still waited for: the catalog knows the others. A dry run writes none."""
        if not self._options.dry_run and len(self._rows) >= 4 * READY:
            wanted = {key for ready in self._ready for key in ready.hashes}
            self._rows = {key: row for key, row in self._rows.items() if key in wanted}

    def _hand_over(self, window: list[tuple[bytes, str]]) -> None:
        window = self._without_known(window)
        if not window:
            return
        if self._options.affordable:
            window = window[: self._options.affordable([self._stations.count_tokens([text]) for _, text in window])]
        texts = [text for _, text in window]
        if self._options.dry_run:
            self._tokens += self._stations.count_tokens(texts)
        for key, _ in window:
            del self._missing[key]
        self._under_way.update(key for key, _ in window)
        self._handed.append(self._begun([key for key, _ in window], texts))

    def _without_known(self, window: list[tuple[bytes, str]]) -> list[tuple[bytes, str]]:
        """Copy the vectors that are known elsewhere; returns the texts that are left."""
        found = self._options.known([key for key, _ in window]) if self._options.known else {}
        if not found:
            return window
        if self._options.dry_run:
            self._rows.update(dict.fromkeys(found, -1))
        else:
            with self._timed("store"):
                self._write_vectors(list(found), np.stack(list(found.values())))
        for key in found:
            del self._missing[key]
        return [pair for pair in window if pair[0] not in found]

    def _begun(self, keys: list[bytes], texts: list[str]) -> _Window:
        """A window on its way: by the runner, or where a service does the work, in batches of its own from here."""
        embedder = self._stations.embedder
        if self._options.dry_run:
            return _Window(keys)
        self._check_weights(self._known_embedder())
        if isinstance(embedder, Batching):
            return _Window(keys, parts=Embedding(embedder, texts))
        return _Window(keys, self._stations.runner.embed(texts))

    def _collect(self) -> Iterator[Event]:
        """Wait for the window that was handed over first, and write its vectors."""
        if not self._handed:
            return
        window = self._handed[0]
        before = self._counted
        if window.parts is not None:
            with self._timed("embed"):
                for part in window.parts.rest():
                    self._write_part(window, part)
                window.parts.close()
        elif window.pending is not None:
            rows, seconds = window.pending()
            self._seconds["embed"] += seconds
            with self._timed("store"):
                self._write_vectors(window.keys, rows)
        else:
            self._rows.update(dict.fromkeys(window.keys, -1))
        self._handed.popleft()
        self._under_way.difference_update(window.keys)
        if not self._options.dry_run:
            self._counted = self._metered()
            self._tokens += self._counted - before
        self._counts["embedded"] += len(window.keys)
        yield Embedded(len(window.keys), self._counted - before, len(self._missing))

    @contextmanager
    def _timed(self, station: str) -> Iterator[None]:
        """Count the time of a block for a station."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[station] += time.perf_counter() - began

    def _keep_ready(self) -> None:
        """Write what services have answered: whatever happens next, it is not paid again."""
        for window in self._handed:
            for part in window.parts.ready() if window.parts else ():
                self._write_part(window, part)

    def _write_part(self, window: _Window, part: Part) -> None:
        places, rows = part
        self._write_vectors([window.keys[place] for place in places], rows)

    @contextmanager
    def _keeping_what_comes(self) -> Iterator[None]:
        """After an error or an interrupt: wait for the requests that are under way, and write what they give."""
        try:
            yield
        finally:
            for window in self._handed:
                if window.parts is not None:
                    window.parts.close()
            self._keep_ready()

    def _metered(self) -> int:
        """Tokens that embedders have reported in this run."""
        meter = current_meter()
        return meter.usage().embedding_tokens if meter else 0

    def _write_vectors(self, keys: Sequence[bytes], rows: Rows) -> None:
        embedder = self._known_embedder()
        first = self._vectors.append(rows)
        self._vectors.sync()
        with self._catalog.transaction():
            checksums = self._vectors.checksums(first, len(keys)).tolist()
            self._catalog.add_vectors(embedder.key, first, keys, checksums)
        self._rows.update((key, first + i) for i, key in enumerate(keys))

    def _check_weights(self, embedder: EmbedderRow) -> None:
        """Before the first vectors of a run: are they of the same model as those that are here?"""
        if self._weights_are_known:
            return
        probe = probe_of(self._stations.embedder)
        if embedder.probe is None:
            with self._catalog.transaction():
                self._catalog.set_probe(embedder.key, probe.tobytes())
        else:
            check_weights(self._options.kb, embedder.probe, probe)
        self._weights_are_known = True

    def _known_embedder(self) -> EmbedderRow:
        if self._embedder is None:
            raise AssertionError("the knowledge base was opened without its embedder")
        return self._embedder

    def _record(self, whole: list[_Ready]) -> int | None:
        """Write documents; returns the generation in which they can be searched, when they can be at once."""
        for ready in whole:
            self._count(ready)
        if self._options.dry_run:
            return None
        with self._catalog.transaction():
            for ready in whole:
                self._insert(ready, live=self._publish_early)
            if not self._publish_early:
                return None
            self._catalog.put_files(self._settled)
            self._settle_settings()
            generation = self._next_generation()
        self._settled.clear()
        return generation

    def _insert(self, ready: _Ready, *, live: bool) -> None:
        prepared = ready.prepared
        key = self._catalog.add_document(prepared.document, ready.row.content_hash, ready.row.recipe, live=live)
        rows = [self._rows[text_hash] for text_hash in ready.hashes]
        keys = self._catalog.add_chunks(key, prepared.chunks, rows, live=live)
        self._stations.lexicon.add(keys, prepared.terms)
        self._settled.append(replace(ready.row, document=key))
        self._staged += [] if live else [key]

    def _count(self, ready: _Ready) -> None:
        """Compare a document's chunks with those of its last version."""
        before = ready.work.before
        new = {chunk.id for chunk in ready.prepared.chunks}
        old: set[str] = set()
        if before is not None and before.document is not None:
            old = self._old_ids(before.document)
            self._replaced.append(before.document)
        # A file that failed or was empty before, and has text now, is new to whoever searches.
        self._counts["added" if not old else "updated"] += 1
        self._counts["chunks added"] += len(new - old)
        self._counts["chunks reused"] += len(new & old)
        self._counts["chunks removed"] += len(old - new)

    def _old_ids(self, document: int) -> set[str]:
        rows = self._catalog.connection.execute("SELECT id FROM chunks WHERE document = ?", (document,))
        return {row[0] for row in rows}

    # publishing

    def _finish(self, plan: Plan, looked_at: int) -> Published | None:
        gone = [row.document for row in plan.removed if row.document is not None]
        self._counts["chunks removed"] += len(self._catalog.chunk_keys([*gone, *self._emptied()]))
        if self._options.dry_run:
            return None
        with self._catalog.transaction():
            self._delete([*gone, *self._replaced])
            if not self._publish_early:
                self._catalog.publish(self._staged)
            self._catalog.delete_files(row.source for row in plan.removed)
            self._catalog.put_files(self._settled)
            self._catalog.put_files(_settled_stat(row, looked_at) for row in plan.touched)
            self._settle_settings()
            changed = bool(gone or self._replaced or self._settled)
            generation = self._next_generation() if changed else self._catalog.generation()
        return Published(generation, len(self._settled) + len(plan.removed)) if changed else None

    def _settle_settings(self) -> None:
        """Write down settings and sources, where they are not yet."""
        for key, value in self._options.settled.items():
            if self._catalog.get(key) != value:
                self._catalog.set(key, value)
        self._catalog.add_roots(self._options.roots)

    def _emptied(self) -> list[int]:
        """Documents whose file has no text any more: their chunks are not compared one by one."""
        without = {row.source for row in self._settled if row.document is None}
        rows = self._catalog.connection.execute("SELECT key, source FROM documents WHERE live = 1")
        replaced = set(self._replaced)
        return [key for key, source in rows if key in replaced and source in without]

    def _delete(self, documents: Sequence[int]) -> None:
        self._stations.lexicon.remove(self._catalog.chunk_keys(documents))
        self._catalog.delete_documents(documents)

    def _drop_leftovers(self) -> None:
        """Documents that an interrupted run staged: their vectors are kept, so doing them again is cheap."""
        leftovers = list(self._catalog.staged().values())
        if leftovers:
            with self._catalog.transaction():
                self._delete(leftovers)

    def _next_generation(self) -> int:
        generation = self._catalog.generation() + 1
        self._catalog.set("generation", str(generation))
        return generation


def _row(work: Work, stat: FileStat, content_hash: str, recipe: str, looked_at: int) -> FileRow:
    stat = stat_to_store(stat, looked_at)
    return FileRow(work.source, stat.size, stat.mtime_ns, stat.ctime_ns, stat.inode, content_hash, recipe, "indexed")


def _settled_stat(row: FileRow, looked_at: int) -> FileRow:
    stat = stat_to_store(FileStat(row.size, row.mtime_ns, row.ctime_ns, row.inode), looked_at)
    return replace(row, mtime_ns=stat.mtime_ns)

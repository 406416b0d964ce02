"""Carry out a plan: read, split, embed, record. Every step may be repeated; the record comes last.

A build is a generator of events. Vectors are written and synced before the rows that refer to them are
committed. A first build publishes as it goes, so that a long one can be searched early; every later one
works beside what is visible and publishes all of it in one transaction, so that a reader sees the whole
of the old content or the whole of the new.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Protocol

from ragkit.embed.base import EmbeddingProvider, Rows, probe_of
from ragkit.embed.parts import Embedding
from ragkit.errors import UnsupportedFormat
from ragkit.index.catalog import Catalog, EmbedderRow, FileRow
from ragkit.index.plan import Plan, Work, stat_to_store
from ragkit.index.recipe import check_weights
from ragkit.index.report import Embedded, Event, Failure, FileRead, IndexReport, Planned, Published
from ragkit.load.files import FileStat
from ragkit.load.parse import Failed, Parsed
from ragkit.records import Chunk, Document
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

    parse: Callable[[Iterable[Work]], Iterator[tuple[Work, Parsed | Failed]]]
    """Reads files, in order, ahead of the consumer by a bounded number."""
    split: Callable[[Document], list[Chunk]]
    embedding_text: Callable[[Chunk], str]
    """What the embedder sees of a chunk: its header and its text."""
    count_tokens: Callable[[Sequence[str]], int]
    analyse: Callable[[str], list[str]]
    """A text -> the terms of the lexical index."""
    embedder: EmbeddingProvider
    lexicon: Lexicon
    recipe_of_loader: Callable[[str], str]
    """Loader name -> the recipe of the documents that it makes."""


@dataclass(frozen=True)
class BuildOptions:
    """How a build runs."""

    kb: str
    dry_run: bool = False
    spend: Callable[[int], None] | None = None
    """Called with the tokens of a window before it is embedded; raises BudgetExceeded to stop."""
    settled: Mapping[str, str] = field(default_factory=dict)
    """What the catalog shall say of its settings from the first publication on."""
    roots: tuple[str, ...] = ()
    """The sources that were named, to be remembered."""


@dataclass(slots=True)
class _Ready:
    """A document that is split and waits for its vectors."""

    work: Work
    row: FileRow
    document: Document
    chunks: list[Chunk]
    hashes: list[bytes]


class Build:
    """One run over one plan. `events()` does the work; `report()` tells afterwards what was done."""

    def __init__(self, catalog: Catalog, vectors: VectorFile, stations: Stations, options: BuildOptions) -> None:
        self._catalog = catalog
        self._vectors = vectors
        self._stations = stations
        self._options = options
        self._embedder = catalog.embedder(stations.embedder.fingerprint)
        self._ready: list[_Ready] = []
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
        self._embedding: Embedding | None = None
        self._handed: list[bytes] = []
        self._counted = self._metered()

    def events(self, plan: Plan) -> Generator[Event, None, None]:
        """Do the work. Closing the generator, or an error in it, leaves what was published and every vector.

        Raises:
            BudgetExceeded: the next window would cost more than is left.
            EmbedderError and its like: whatever the embedder raises.
        """
        yield Planned(len(plan.work), sum(work.stat.size for work in plan.work), len(plan.removed))
        if not self._options.dry_run:
            self._drop_leftovers()
        looked_at = time.time_ns()
        with self._keeping_what_comes():
            for work, outcome in self._stations.parse(plan.work):
                yield self._take(work, outcome, looked_at)
                self._keep_ready()
                while len(self._missing) >= WINDOW or sum(len(r.chunks) for r in self._ready) >= READY:
                    yield from self._flush()
            while self._ready or self._missing or self._handed:
                yield from self._flush()
        yield from self._finish(plan, looked_at)

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
            dry_run=self._options.dry_run,
        )

    # reading

    def _take(self, work: Work, outcome: Parsed | Failed, looked_at: int) -> FileRead:
        if isinstance(outcome, Failed):
            return self._take_failure(work, outcome, looked_at)
        recipe = self._stations.recipe_of_loader(outcome.loader)
        row = _row(work, outcome.stat, outcome.content_hash, recipe, looked_at)
        chunks = self._stations.split(outcome.document)
        if not chunks:
            self._settle(replace(row, status="empty", reason="holds no text"), work)
            self._skipped.append((work.source, "holds no text"))
            self._counts["skipped"] += 1
            return FileRead(work.source, 0, work.stat.size, "holds no text")
        texts = [self._stations.embedding_text(chunk) for chunk in chunks]
        hashes = [blake2b(text.encode("utf-8"), digest_size=16).digest() for text in texts]
        self._want(dict(zip(hashes, texts, strict=True)))
        self._ready.append(_Ready(work, row, outcome.document, chunks, hashes))
        return FileRead(work.source, len(chunks), work.stat.size)

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
        under_way = set(self._handed)
        known = (self._rows, self._missing, under_way)
        unknown = [key for key in texts if not any(key in place for place in known)]
        if self._embedder is not None:
            self._rows.update(self._catalog.vector_rows(self._embedder.key, unknown))
        self._missing.update((key, texts[key]) for key in unknown if key not in self._rows)

    # embedding and writing

    def _flush(self) -> Iterator[Event]:
        """Hand over the next window, once the one before it is on disk; record the documents that are whole.

        While a window is embedded, in a thread of its own, the next files are read and split here.
        """
        yield from self._collect()
        window = list(islice(self._missing.items(), WINDOW))
        if window:
            self._hand_over(window)
        whole = [ready for ready in self._ready if all(key in self._rows for key in ready.hashes)]
        if whole:
            done = {id(ready) for ready in whole}
            self._ready = [ready for ready in self._ready if id(ready) not in done]
            yield from self._record(whole)
        if not self._ready and not self._handed:
            self._rows.clear()

    def _hand_over(self, window: list[tuple[bytes, str]]) -> None:
        texts = [text for _, text in window]
        if self._options.dry_run or self._options.spend:
            tokens = self._stations.count_tokens(texts)
            self._tokens += tokens if self._options.dry_run else 0
        if self._options.spend:
            self._options.spend(tokens)
        for key, _ in window:
            del self._missing[key]
        self._handed = [key for key, _ in window]
        if not self._options.dry_run:
            self._check_weights(self._known_embedder())
            self._embedding = Embedding(self._stations.embedder, texts)

    def _collect(self) -> Iterator[Event]:
        """Wait for the window that was handed over, and write its vectors."""
        if not self._handed:
            return
        before = self._counted
        if self._embedding is None:
            self._rows.update(dict.fromkeys(self._handed, -1))
        else:
            for places, rows in self._embedding.rest():
                self._write_vectors([self._handed[place] for place in places], rows)
            self._embedding.close()
            self._embedding = None
            self._counted = self._metered()
            self._tokens += self._counted - before
        keys, self._handed = self._handed, []
        self._counts["embedded"] += len(keys)
        yield Embedded(len(keys), self._counted - before, len(self._missing))

    def _keep_ready(self) -> None:
        """Write the vectors that have come: whatever happens next, they are not computed, or paid, again."""
        for places, rows in self._embedding.ready() if self._embedding else ():
            self._write_vectors([self._handed[place] for place in places], rows)

    @contextmanager
    def _keeping_what_comes(self) -> Iterator[None]:
        """After an error or an interrupt: wait for the requests that are under way, and write what they give."""
        try:
            yield
        finally:
            if self._embedding is not None:
                self._embedding.close()
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

    def _record(self, whole: list[_Ready]) -> Iterator[Event]:
        for ready in whole:
            self._count(ready)
        if self._options.dry_run:
            return
        with self._catalog.transaction():
            for ready in whole:
                self._insert(ready, live=self._publish_early)
            if self._publish_early:
                self._catalog.put_files(self._settled)
                self._settle_settings()
                generation = self._next_generation()
        if self._publish_early:
            self._settled.clear()
            yield Published(generation, len(whole))

    def _insert(self, ready: _Ready, *, live: bool) -> None:
        key = self._catalog.add_document(ready.document, ready.row.content_hash, ready.row.recipe, live=live)
        rows = [self._rows[text_hash] for text_hash in ready.hashes]
        keys = self._catalog.add_chunks(key, ready.chunks, rows, live=live)
        name = Path(ready.work.source).stem
        texts = [f"{self._stations.embedding_text(chunk)}\n{name}" for chunk in ready.chunks]
        self._stations.lexicon.add(keys, [self._stations.analyse(text) for text in texts])
        self._settled.append(replace(ready.row, document=key))
        self._staged.append(key)

    def _count(self, ready: _Ready) -> None:
        """Compare a document's chunks with those of its last version."""
        before = ready.work.before
        new = {chunk.id for chunk in ready.chunks}
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

    def _finish(self, plan: Plan, looked_at: int) -> Iterator[Event]:
        gone = [row.document for row in plan.removed if row.document is not None]
        self._counts["chunks removed"] += len(self._catalog.chunk_keys([*gone, *self._emptied()]))
        if self._options.dry_run:
            return
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
        if changed:
            yield Published(generation, len(self._settled) + len(plan.removed))

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

"""What the trials of a grid share: documents are read once, split once and embedded once.

Knows nothing of questions. A knowledge base is made for each way to load, split and embed; a later one takes from
those that are there whatever is the same.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from ragkit.embed.base import EmbeddingProvider, Row, Rows, TokenizingEmbedder
from ragkit.errors import LoadError, UnsupportedFormat
from ragkit.index.build_runner import BuildRunner, PendingEmbedding, PreparedFile
from ragkit.index.catalog.directory import open_catalog
from ragkit.index.catalog.sqlite import Catalog, FileRow, document_from_row
from ragkit.index.plan import FileTask
from ragkit.load.file_io import FileStat, read_bytes
from ragkit.load.parsing import ParsedFile, ParseFailure, ParseTask, hash_content
from ragkit.pipeline.assemble import PipelineComponents, component_options_json
from ragkit.pipeline.run.index_worker import prepare_document
from ragkit.records import Document, content_id
from ragkit.split.chunks import assign_chunk_ids
from ragkit.usage.meter import Meter, use_meter

_DOCUMENT_QUERY = "SELECT id, source, title, format, language, metadata, page_starts, headings, body FROM documents"


@dataclass(frozen=True)
class StageKeys:
    """Which of its stages a pipeline shares with others: equal keys, equal results."""

    load: str
    split: str
    """Of loading and splitting. Chunks are measured in the tokens of the embedder where it knows its own."""
    index: str
    """Of loading, splitting and embedding."""

    @classmethod
    def from_components(cls, parts: PipelineComponents) -> StageKeys:
        """The keys of a pipeline."""
        pipeline, embedder = parts.pipeline, parts.embedder
        loading = [[one.name, list(one.only), component_options_json(one)] for one in pipeline.loaders]
        cutting = [[one.name, list(one.only), component_options_json(one)] for one in pipeline.splitters]
        measure = embedder.fingerprint if isinstance(embedder, TokenizingEmbedder) else ""
        load = content_id(json.dumps(loading, sort_keys=True))[:16]
        cut = content_id(load, json.dumps(cutting, sort_keys=True), measure)[:16]
        return cls(load, cut, content_id(cut, embedder.fingerprint)[:16])


@dataclass
class PreparedCache:
    """What was read and split so far."""

    donors: dict[str, Path] = field(default_factory=dict)
    """Key of loading -> a knowledge base that has all of its documents."""
    split_key: str = ""
    """Key of loading and splitting of what `kept` holds."""
    prepared: dict[str, PreparedFile] = field(default_factory=dict)
    """Source -> the document and its chunks, while another embedder waits for the same ones."""
    counts: Counter[str] = field(default_factory=Counter)
    """`read` and `split`: files that went through a loader and through a splitter."""


class ReusingRunner:
    """Gives what the shelf has, and has the pipeline's own runner do the rest.

    Args:
        parts: the parts of the pipeline.
        jobs: workers of its own runner; 0: as the pipeline says.
        shelf: what is there already, and where it is noted what was done.
        keep: keep what is split for the next index.
    """

    def __init__(self, parts: PipelineComponents, jobs: int, shelf: PreparedCache, *, keep: bool = False) -> None:
        self._parts = parts
        self._inner: BuildRunner = parts.runner(jobs)
        self._cache = shelf
        self._keep = keep
        self._keys = StageKeys.from_components(parts)
        self.max_parallel_batches = self._inner.max_parallel_batches

    def __enter__(self) -> BuildRunner:
        self._inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inner.__exit__(kind, error, trace)

    def start_embedding(self, texts: Sequence[str]) -> PendingEmbedding:
        """As the pipeline's runner does it."""
        return self._inner.start_embedding(texts)

    def prepare_files(self, work: Sequence[FileTask]) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
        """What becomes of each file, in order: from the shelf, from another knowledge base, or read and split."""
        if self._cache.split_key != self._keys.split:
            self._cache.prepared.clear()
            self._cache.split_key = self._keys.split
        donor = self._cache.donors.get(self._keys.load)
        with closing(_StoredDocuments(donor)) if donor is not None else closing(_NoDocuments()) as documents:
            found = {one.source: there for one in work if (there := self._find_known(one, documents)) is not None}
            fresh = self._inner.prepare_files([one for one in work if one.source not in found])
            for one in work:
                known = found.get(one.source)
                outcome = self._next_prepared(fresh) if known is None else self._split_known(known, documents)
                if self._keep and isinstance(outcome, PreparedFile):
                    self._cache.prepared[one.source] = outcome
                yield one, outcome

    def _find_known(self, work: FileTask, documents: _StoredDocuments | _NoDocuments) -> PreparedFile | FileRow | None:
        kept = self._cache.prepared.get(work.source)
        if kept is not None and kept.stat == work.stat:
            return kept
        return documents.find_row(work)

    def _next_prepared(
        self, fresh: Iterator[tuple[FileTask, PreparedFile | ParseFailure]]
    ) -> PreparedFile | ParseFailure:
        _, outcome = next(fresh)
        self._cache.counts["read"] += 1
        self._cache.counts["split"] += isinstance(outcome, PreparedFile)
        return outcome

    def _split_known(
        self, known: PreparedFile | FileRow, documents: _StoredDocuments | _NoDocuments
    ) -> PreparedFile | ParseFailure:
        if isinstance(known, PreparedFile):  # the same chunks, by the ids that they have here
            chunks = assign_chunk_ids(known.chunks, self._parts.current_fingerprint(""))
            return replace(known, chunks=tuple(chunks), load_seconds=0.0, split_seconds=0.0)
        parsed = documents.load_parsed(known)
        if isinstance(parsed, ParseFailure):
            return parsed
        self._cache.counts["split"] += 1
        return prepare_document(self._parts, parsed)


class _NoDocuments:
    """No knowledge base has the documents yet."""

    def close(self) -> None:
        """There is nothing to close."""

    def find_row(self, work: FileTask) -> FileRow | None:
        return None

    def load_parsed(self, row: FileRow) -> ParsedFile | ParseFailure:
        raise AssertionError("no row came from here")


class _StoredDocuments:
    """The documents of a knowledge base, for one that is made by the same loaders."""

    def __init__(self, directory: Path) -> None:
        self._connection = open_catalog(directory, verify_checksums=False)
        self._files = Catalog(self._connection).files()

    def close(self) -> None:
        """Let go of the catalog."""
        self._connection.close()

    def find_row(self, work: FileTask) -> FileRow | None:
        """What is known of a file; None when it is not known, or has changed since."""
        row, stat = self._files.get(work.source), work.stat
        if row is None or row.size != stat.size:
            return None
        if (row.mtime_ns, row.ctime_ns, row.inode) != (stat.mtime_ns, stat.ctime_ns, stat.inode):
            try:
                same = (
                    bool(row.content_hash) and hash_content(read_bytes(work.path, None, stat.size)) == row.content_hash
                )
            except (LoadError, OSError):
                same = False
            row = replace(row, mtime_ns=stat.mtime_ns, ctime_ns=stat.ctime_ns, inode=stat.inode) if same else None
        return row

    def load_parsed(self, row: FileRow) -> ParsedFile | ParseFailure:
        """The document of a file, or what kept it from being one."""
        stat = FileStat(row.size, row.mtime_ns, row.ctime_ns, row.inode)
        task = ParseTask(Path(row.source), row.source, stat)
        if row.status in ("failed", "skipped"):
            kind = UnsupportedFormat if row.status == "skipped" else LoadError
            return ParseFailure(task, kind(row.source, row.reason, row.hint), row.content_hash, stat)
        values = self._connection.execute(f"{_DOCUMENT_QUERY} WHERE key = ?", (row.document,)).fetchone()
        document = document_from_row(values) if values is not None else Document("", source=row.source)
        return ParsedFile(task, document, row.content_hash, stat, row.recipe.partition(":")[0])


class CachedQueryEmbedder:
    """An embedder that embeds each question once. What asking anew would have taken is told, so that it is counted."""

    def __init__(self, inner: EmbeddingProvider) -> None:
        self._inner = inner
        self._rows: dict[str, tuple[Row, float, float | None]] = {}
        self.saved_seconds = 0.0
        """What known rows have saved since `start`."""
        self.saved_cost_usd: float | None = 0.0
        """The same in US dollars; None: a price is unknown."""

    @property
    def dimension(self) -> int:
        """As of the inner embedder."""
        return self._inner.dimension

    @property
    def fingerprint(self) -> str:
        """As of the inner embedder."""
        return self._inner.fingerprint

    def reset_savings(self) -> None:
        """A new question begins."""
        self.saved_seconds, self.saved_cost_usd = 0.0, 0.0

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """As of the inner embedder."""
        return self._inner.embed_texts(texts)

    def embed_query(self, text: str) -> Row:
        """The row of a question: (dimension,)."""
        if text not in self._rows:
            with use_meter(Meter()) as meter:
                began = time.perf_counter()
                row = self._inner.embed_query(text)
                seconds = time.perf_counter() - began
            self._rows[text] = (row, seconds, meter.usage().total_cost_usd)
            return row
        row, seconds, cost = self._rows[text]
        self.saved_seconds += seconds
        self.saved_cost_usd = None if cost is None or self.saved_cost_usd is None else self.saved_cost_usd + cost
        return row


def embedder_key(parts: PipelineComponents) -> str:
    """Which embedder a pipeline names, options included: equal keys may share one instance."""
    choice = parts.pipeline.embedder
    return json.dumps([choice.name, component_options_json(choice)], sort_keys=True)

"""Share work between the trials of a grid: documents are read, split and embedded once.

There is one knowledge base per combination of load, split and embed options; each reuses the documents, chunks and
vectors of earlier ones that are the same.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragkit.embed.base import EmbeddingProvider, MonolingualEmbedder, Row, Rows, TokenizingEmbedder, WeightedEmbedder
from ragkit.errors import LoadError, UnsupportedFormat
from ragkit.index.build_runner import PreparedFile, RunnerAround
from ragkit.index.catalog.directory import open_catalog
from ragkit.index.catalog.sqlite import Catalog, FileRow, document_from_row
from ragkit.index.plan import FileTask
from ragkit.load.files.file_io import FileStat, hash_content, read_bytes
from ragkit.load.process.parsing import ParsedFile, ParseFailure, ParseTask
from ragkit.pipeline.assemble import PipelineComponents, component_options_json
from ragkit.pipeline.components import ComponentConfig
from ragkit.pipeline.run.index_worker import prepare_document
from ragkit.records import Document, content_id
from ragkit.split.chunks import assign_chunk_ids
from ragkit.usage.meter import Meter, use_meter

_DOCUMENT_QUERY = "SELECT id, source, title, format, language, metadata, page_starts, headings, body FROM documents"


@dataclass(frozen=True)
class StageKeys:
    """Keys of the stages of a pipeline; equal keys give equal results."""

    load: str
    split: str
    """Of loading and splitting, including the embedder if it has a tokenizer, which measures chunks."""
    index: str
    """Of loading, splitting and embedding."""

    @classmethod
    def from_components(cls, components: PipelineComponents) -> StageKeys:
        """The keys of a pipeline."""
        pipeline, embedder = components.pipeline, components.embedder
        loaders = _component_keys(pipeline.loaders)
        splitters = _component_keys(pipeline.splitters)
        tokenizer = embedder.fingerprint if isinstance(embedder, TokenizingEmbedder) else ""
        load = content_id(json.dumps(loaders, sort_keys=True))[:16]
        split = content_id(load, json.dumps(splitters, sort_keys=True), tokenizer)[:16]
        return cls(load, split, content_id(split, embedder.fingerprint)[:16])


@dataclass
class PreparedCache:
    """Documents that were read and split so far."""

    donors: dict[str, Path] = field(default_factory=dict)
    """Key of loading -> a knowledge base with its documents."""
    split_key: str = ""
    """Key of loading and splitting of `prepared`."""
    prepared: dict[str, PreparedFile] = field(default_factory=dict)
    """Source -> the document and its chunks, kept while another embedder needs them."""
    counts: Counter[str] = field(default_factory=Counter)
    """`read` and `split`: files that were loaded and split."""


class ReusingRunner(RunnerAround):
    """Takes prepared files from a cache or another knowledge base, and runs the pipeline's runner for the rest.

    Args:
        components: the components of the pipeline.
        jobs: workers of its runner; 0: the number in the pipeline.
        cache: prepared files, and counts of the work done.
        keep: keep chunks in the cache for the next index.
    """

    def __init__(self, components: PipelineComponents, jobs: int, cache: PreparedCache, *, keep: bool = False) -> None:
        super().__init__(components.create_runner(jobs))
        self._components = components
        self._cache = cache
        self._keep = keep
        self._keys = StageKeys.from_components(components)

    def prepare_files(self, work: Sequence[FileTask]) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
        """The result for each file, in order: from the cache, from another knowledge base, or read and split."""
        if self._cache.split_key != self._keys.split:
            self._cache.prepared.clear()
            self._cache.split_key = self._keys.split
        donor = self._cache.donors.get(self._keys.load)
        with closing(_StoredDocuments(donor)) as documents:
            known = {file.source: item for file in work if (item := self._find_known(file, documents)) is not None}
            fresh = self._inner.prepare_files([file for file in work if file.source not in known])
            for file in work:
                item = known.get(file.source)
                outcome = self._next_prepared(fresh) if item is None else self._split_known(item, documents)
                if self._keep and isinstance(outcome, PreparedFile):
                    self._cache.prepared[file.source] = outcome
                yield file, outcome

    def _find_known(self, file: FileTask, documents: _StoredDocuments) -> PreparedFile | FileRow | None:
        kept = self._cache.prepared.get(file.source)
        return kept if kept is not None and kept.stat == file.stat else documents.find_row(file)

    def _next_prepared(
        self, fresh: Iterator[tuple[FileTask, PreparedFile | ParseFailure]]
    ) -> PreparedFile | ParseFailure:
        _, outcome = next(fresh)
        self._cache.counts["read"] += 1
        self._cache.counts["split"] += isinstance(outcome, PreparedFile)
        return outcome

    def _split_known(self, known: PreparedFile | FileRow, documents: _StoredDocuments) -> PreparedFile | ParseFailure:
        if isinstance(known, PreparedFile):  # the same chunks, with the ids of this index
            chunks = assign_chunk_ids(known.chunks, self._components.current_fingerprint(""))
            return replace(known, chunks=tuple(chunks), load_seconds=0.0, split_seconds=0.0)
        parsed = documents.load_parsed(known)
        if isinstance(parsed, ParseFailure):
            return parsed
        self._cache.counts["split"] += 1
        return prepare_document(self._components, parsed)


class _StoredDocuments:
    """The documents of a knowledge base with the same loaders; without a directory there are none."""

    def __init__(self, directory: Path | None) -> None:
        self._connection = open_catalog(directory, verify_checksums=False) if directory is not None else None
        self._files = Catalog(self._connection).files() if self._connection is not None else {}

    def close(self) -> None:
        """Close the catalog."""
        if self._connection is not None:
            self._connection.close()

    def find_row(self, work: FileTask) -> FileRow | None:
        """The row of a file; None if it is unknown or has changed."""
        row, stat = self._files.get(work.source), work.stat
        if row is None or row.size != stat.size:
            return None
        if (row.mtime_ns, row.ctime_ns, row.inode) != (stat.mtime_ns, stat.ctime_ns, stat.inode):
            try:
                content = read_bytes(work.path, None, stat.size) if row.content_hash else None
                same = content is not None and hash_content(content) == row.content_hash
            except (LoadError, OSError):
                same = False
            row = row._replace(mtime_ns=stat.mtime_ns, ctime_ns=stat.ctime_ns, inode=stat.inode) if same else None
        return row

    def load_parsed(self, row: FileRow) -> ParsedFile | ParseFailure:
        """The document of a row, or its failure."""
        assert self._connection is not None  # noqa: S101 - the row is from this catalog
        stat = FileStat(row.size, row.mtime_ns, row.ctime_ns, row.inode)
        task = ParseTask(Path(row.source), row.source, stat)
        if row.status in ("failed", "skipped"):
            kind = UnsupportedFormat if row.status == "skipped" else LoadError
            return ParseFailure(task, kind(row.source, row.reason, row.hint), row.content_hash, stat)
        values = self._connection.execute(f"{_DOCUMENT_QUERY} WHERE key = ?", (row.document,)).fetchone()
        document = document_from_row(values) if values is not None else Document("", source=row.source)
        parts = (part.document for part in Catalog(self._connection).parts(row.source) if part.document is not None)
        stored = (self._connection.execute(f"{_DOCUMENT_QUERY} WHERE key = ?", (key,)).fetchone() for key in parts)
        document = replace(document, parts=tuple(document_from_row(part) for part in stored))
        return ParsedFile(task, document, row.content_hash, stat, row.recipe.partition(":")[0])


class CachedQueryEmbedder:
    """An embedder that embeds each question once, and reports the time and cost that cached questions save."""

    def __init__(self, inner: EmbeddingProvider) -> None:
        self._inner = inner
        if isinstance(inner, MonolingualEmbedder):
            self.language = inner.language
        if isinstance(inner, WeightedEmbedder):
            self.dense_weight = inner.dense_weight
        self._rows: dict[str, tuple[Row, float, float | None]] = {}
        self.saved_seconds = 0.0
        """Seconds saved by cached questions since `reset_savings`."""
        self.saved_cost_usd: float | None = 0.0
        """US dollars saved; None: a price is unknown."""

    @property
    def dimension(self) -> int:
        """The dimension of the inner embedder."""
        return self._inner.dimension

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the inner embedder."""
        return self._inner.fingerprint

    def reset_savings(self) -> None:
        """Set the savings to 0, before the next question."""
        self.saved_seconds, self.saved_cost_usd = 0.0, 0.0

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """Embed with the inner embedder, without a cache."""
        return self._inner.embed_texts(texts)

    def embed_query(self, text: str) -> Row:
        """The row of a question: (dimension,)."""
        if text not in self._rows:
            with use_meter(Meter()) as meter:
                started_at = time.perf_counter()
                row = self._inner.embed_query(text)
                seconds = time.perf_counter() - started_at
            self._rows[text] = (row, seconds, meter.usage().total_cost_usd)
            return row
        row, seconds, cost = self._rows[text]
        self.saved_seconds += seconds
        self.saved_cost_usd = None if cost is None or self.saved_cost_usd is None else self.saved_cost_usd + cost
        return row


def embedder_key(components: PipelineComponents) -> str:
    """The embedder of a pipeline with its options, as a key: equal keys can share an instance."""
    config = components.pipeline.embedder
    return json.dumps([config.name, component_options_json(config)], sort_keys=True)


def _component_keys(configs: Sequence[ComponentConfig]) -> list[list[object]]:
    return [[config.name, list(config.only), component_options_json(config)] for config in configs]

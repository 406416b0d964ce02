"""The worker of an index build: read, parse and split files, and embed texts. Does not use the catalog.

The runners execute it in this process, in worker processes or on a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ragkit.index.build_runner import EmbeddedTexts, PreparedFile
from ragkit.lexical.analyzer import extract_terms
from ragkit.load import LOADERS
from ragkit.load.parse_pool import ParsePool
from ragkit.load.parsing import ParsedFile, ParseFailure, ParseTask
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Chunk


class IndexWorker:
    """A worker for one pipeline. Parsers run in separate processes; `close` stops them.

    Args:
        components: the components of the pipeline.
        parsers: files that are parsed in parallel.
    """

    def __init__(self, components: PipelineComponents, parsers: int = 1) -> None:
        self._components = components
        parsers = 0 if any(loader.name in LOADERS.of_program for loader in components.loader_routes) else parsers
        self._pool = ParsePool(parsers, components.parse_limits, components.loader_routes)

    def close(self) -> None:
        """Stop the parsers immediately. Can be called from any thread."""
        self._pool.close()

    def prepare(self, tasks: Iterable[ParseTask]) -> Iterator[PreparedFile | ParseFailure]:
        """The result for each file, in order. Parsers work ahead: load seconds are the time spent waiting for them."""
        started_at = time.perf_counter()
        for outcome in self._pool.parse(tasks):
            seconds = time.perf_counter() - started_at
            if isinstance(outcome, ParsedFile):
                yield prepare_document(self._components, outcome, seconds)
            else:
                yield outcome
            started_at = time.perf_counter()

    def embed(self, texts: Sequence[str]) -> EmbeddedTexts:
        """The vectors of texts, and the seconds that they took."""
        started_at = time.perf_counter()
        rows = self._components.embedder.embed_texts(texts)
        return EmbeddedTexts(rows, time.perf_counter() - started_at)


def prepare_document(components: PipelineComponents, parsed: ParsedFile, load_seconds: float = 0.0) -> PreparedFile:
    """Split a parsed document: chunks, texts to embed, and terms for the lexical index."""
    started_at = time.perf_counter()
    chunks = tuple(components.split_document(parsed.document))
    texts, terms = _index_texts(components, chunks, parsed.task.source)
    file = parsed.document, parsed.content_hash, parsed.stat, parsed.loader
    seconds, tokens = time.perf_counter() - started_at, components.take_split_tokens()
    return PreparedFile(*file, chunks, texts, terms, load_seconds, seconds, tokens)


def add_contexts(components: PipelineComponents, prepared: PreparedFile, sentences: Sequence[str]) -> PreparedFile:
    """The file with a context for each chunk: with other ids, texts to embed and terms."""
    chunks = tuple(components.add_contexts(prepared.chunks, sentences))
    texts, terms = _index_texts(components, chunks, prepared.document.source)
    return replace(prepared, chunks=chunks, texts=texts, terms=terms)


def _index_texts(
    components: PipelineComponents, chunks: Sequence[Chunk], source: str
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The texts to embed, and the terms for the lexical index."""
    texts = tuple(components.embedding_text(chunk) for chunk in chunks)
    name = Path(source).stem  # the lexical index finds files by name too
    return texts, tuple(tuple(extract_terms(f"{text}\n{name}")) for text in texts)


def strip_origins(pipeline: Pipeline) -> Pipeline:
    """The pipeline without its path and origins, to send it to a worker."""
    return replace(pipeline, origins={}, path=None)

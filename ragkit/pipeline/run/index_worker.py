"""The worker of an index build: read, parse and split files, and embed texts. Does not use the catalog.

The runners execute it in this process, in worker processes or on a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ragkit.index.build_runner import EmbeddedTexts, PreparedFile
from ragkit.lexical.analyzer import extract_terms
from ragkit.load import LOADERS
from ragkit.load.process.ipc import iter_parts
from ragkit.load.process.parse_pool import ParsePool
from ragkit.load.process.parsing import ParsedFile, ParseFailure, ParseTask
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
        return self._finish(self._pool.parse(tasks))

    def prepare_group(self, tasks: Sequence[ParseTask]) -> Iterator[PreparedFile | ParseFailure]:
        """As `prepare`, for a few small files: faster, but with one parser."""
        return self._finish(self._pool.parse_group(tasks))

    def _finish(self, outcomes: Iterator[ParsedFile | ParseFailure]) -> Iterator[PreparedFile | ParseFailure]:
        started_at = time.perf_counter()
        for outcome in outcomes:
            seconds = time.perf_counter() - started_at
            yield outcome if isinstance(outcome, ParseFailure) else prepare_document(self._components, outcome, seconds)
            started_at = time.perf_counter()

    def embed(self, texts: Sequence[str]) -> EmbeddedTexts:
        """The vectors of texts, and the seconds that they took."""
        started_at = time.perf_counter()
        rows = self._components.embedder.embed_texts(texts)
        return EmbeddedTexts(rows, time.perf_counter() - started_at)


def prepare_document(components: PipelineComponents, parsed: ParsedFile, load_seconds: float = 0.0) -> PreparedFile:
    """Split a parsed document and its parts: chunks, texts to embed, and terms for the lexical index."""
    parts = tuple(
        _prepare_one(components, replace(parsed, document=part)) for part in iter_parts(parsed.document) if part.text
    )
    own, inner = (parts[0], parts[1:]) if parsed.document.text else (_prepare_one(components, parsed), parts)
    document = replace(own.document, parts=())
    return replace(own, document=document, load_seconds=load_seconds, parts=inner)


def _prepare_one(components: PipelineComponents, parsed: ParsedFile) -> PreparedFile:
    """One document, without those inside it."""
    started_at = time.perf_counter()
    chunks = tuple(components.split_document(parsed.document))
    texts, terms = _index_texts(components, chunks, parsed.task.source)
    file = parsed.document, parsed.content_hash, parsed.stat, parsed.loader
    seconds, tokens = time.perf_counter() - started_at, components.pop_split_tokens()
    return PreparedFile(*file, chunks, texts, terms, split_seconds=seconds, split_tokens=tokens)


def add_contexts(components: PipelineComponents, prepared: PreparedFile, sentences: Sequence[str]) -> PreparedFile:
    """The file with a context for each chunk, and then for those of its parts: with other ids, texts and terms."""
    remaining = iter(sentences)

    def add(file: PreparedFile) -> PreparedFile:
        chunks = tuple(components.add_contexts(file.chunks, list(islice(remaining, len(file.chunks)))))
        texts, terms = _index_texts(components, chunks, prepared.document.source)
        return replace(file, chunks=chunks, texts=texts, terms=terms)

    own = add(prepared)
    return replace(own, parts=tuple(map(add, prepared.parts)))


def _index_texts(
    components: PipelineComponents, chunks: Sequence[Chunk], source: str
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The texts to embed, and the terms for the lexical index."""
    texts = tuple(components.embedding_texts(chunks))
    name = Path(source).stem  # the lexical index finds files by name too
    return texts, tuple(tuple(extract_terms(f"{text}\n{name}")) for text in texts)


def strip_origins(pipeline: Pipeline) -> Pipeline:
    """The pipeline without its path and origins, to send it to a worker."""
    return replace(pipeline, origins={}, path=None)

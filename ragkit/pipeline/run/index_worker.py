"""The heavy part of an index run, as every worker does it: read, parse, split; and embed. Knows no catalog.

The same body runs in this process, in a process beside it and on a cluster; the runners only carry it there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ragkit.index.build_runner import EmbeddedTexts, PreparedFile
from ragkit.lexical.analyzer import extract_terms
from ragkit.load.parse_pool import ParsePool
from ragkit.load.parsing import ParsedFile, ParseFailure, ParseTask
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.settings import Pipeline


class IndexWorker:
    """Works for one pipeline. Parsers run in processes of their own; close it to end them.

    Args:
        parts: the parts of the pipeline.
        parsers: how many files are parsed side by side.
    """

    def __init__(self, parts: PipelineComponents, parsers: int = 1) -> None:
        self._parts = parts
        self._pool = ParsePool(parsers, parts.parse_limits, parts.loader_routes)

    def close(self) -> None:
        """End the parsers at once. May be called from another thread than the one that works."""
        self._pool.close()

    def prepare(self, tasks: Iterable[ParseTask]) -> Iterator[PreparedFile | ParseFailure]:
        """What becomes of each file, in order. Seconds of loading are what was waited for: parsers work ahead."""
        began = time.perf_counter()
        for outcome in self._pool.parse(tasks):
            loaded = time.perf_counter()
            yield prepare_document(self._parts, outcome, loaded - began) if isinstance(outcome, ParsedFile) else outcome
            began = time.perf_counter()

    def embed(self, texts: Sequence[str]) -> EmbeddedTexts:
        """The vectors of some texts, and how long they took."""
        began = time.perf_counter()
        rows = self._parts.embedder.embed_texts(texts)
        return EmbeddedTexts(rows, time.perf_counter() - began)


def prepare_document(parts: PipelineComponents, parsed: ParsedFile, load_seconds: float = 0.0) -> PreparedFile:
    """The chunks of a document that was read, what the embedder sees of them, and their terms."""
    began = time.perf_counter()
    chunks = tuple(parts.split_document(parsed.document))
    texts = tuple(parts.embedding_text(chunk) for chunk in chunks)
    name = Path(parsed.task.source).stem  # what the file is called is worth a word in the lexical index
    words = tuple(tuple(extract_terms(f"{text}\n{name}")) for text in texts)
    return PreparedFile(
        parsed.document,
        parsed.content_hash,
        parsed.stat,
        parsed.loader,
        chunks,
        texts,
        words,
        load_seconds,
        time.perf_counter() - began,
    )


def strip_origins(pipeline: Pipeline) -> Pipeline:
    """The pipeline as it travels to a worker: without the file that it came from."""
    return replace(pipeline, origins={}, path=None)

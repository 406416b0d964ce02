"""The heavy part of an index run, as every worker does it: read, parse, split; and embed. Knows no catalog.

The same body runs in this process, in a process beside it and on a cluster; the runners only carry it there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ragkit.index.runner import Embedding, Prepared
from ragkit.load.parse import Failed, Parsed, Task
from ragkit.load.workers import ParsePool
from ragkit.pipeline.assemble import Assembly
from ragkit.pipeline.settings import Pipeline
from ragkit.retrieve.terms import terms


class Stage:
    """Works for one pipeline. Parsers run in processes of their own; close it to end them.

    Args:
        parts: the parts of the pipeline.
        parsers: how many files are parsed side by side.
    """

    def __init__(self, parts: Assembly, parsers: int = 1) -> None:
        self._parts = parts
        self._pool = ParsePool(parsers, parts.limits, parts.routes)

    def close(self) -> None:
        """End the parsers at once. May be called from another thread than the one that works."""
        self._pool.close()

    def prepare(self, tasks: Iterable[Task]) -> Iterator[Prepared | Failed]:
        """What becomes of each file, in order. Seconds of loading are what was waited for: parsers work ahead."""
        began = time.perf_counter()
        for outcome in self._pool.parse(tasks):
            loaded = time.perf_counter()
            yield split(self._parts, outcome, loaded - began) if isinstance(outcome, Parsed) else outcome
            began = time.perf_counter()

    def embed(self, texts: Sequence[str]) -> Embedding:
        """The vectors of some texts, and how long they took."""
        began = time.perf_counter()
        rows = self._parts.embedder.embed_texts(texts)
        return Embedding(rows, time.perf_counter() - began)


def split(parts: Assembly, parsed: Parsed, load_seconds: float = 0.0) -> Prepared:
    """The chunks of a document that was read, what the embedder sees of them, and their terms."""
    began = time.perf_counter()
    chunks = tuple(parts.split(parsed.document))
    texts = tuple(parts.embedding_text(chunk) for chunk in chunks)
    name = Path(parsed.task.source).stem  # what the file is called is worth a word in the lexical index
    words = tuple(tuple(terms(f"{text}\n{name}")) for text in texts)
    return Prepared(
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


def portable(pipeline: Pipeline) -> Pipeline:
    """The pipeline as it travels to a worker: without the file that it came from."""
    return replace(pipeline, origins={}, path=None)

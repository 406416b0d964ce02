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

from ragkit.embed.base import EmbeddingProvider, Row, Rows, Tokenizing
from ragkit.errors import LoadError, UnsupportedFormat
from ragkit.index.catalog import Catalog, FileRow, document_of
from ragkit.index.home import open_catalog
from ragkit.index.plan import Work
from ragkit.index.runner import Pending, Prepared, Runner
from ragkit.load.files import FileStat, read_bytes
from ragkit.load.parse import Failed, Parsed, Task, hash_of
from ragkit.pipeline.assemble import Assembly, options_of
from ragkit.pipeline.run.stage import split
from ragkit.records import Document, content_id
from ragkit.split.chunks import identified
from ragkit.usage.meter import Meter, metered

_DOCUMENT = "SELECT id, source, title, format, language, metadata, page_starts, headings, body FROM documents"


@dataclass(frozen=True)
class Keys:
    """Which of its stages a pipeline shares with others: equal keys, equal results."""

    load: str
    split: str
    """Of loading and splitting. Chunks are measured in the tokens of the embedder where it knows its own."""
    index: str
    """Of loading, splitting and embedding."""

    @classmethod
    def of(cls, parts: Assembly) -> Keys:
        """The keys of a pipeline."""
        pipeline, embedder = parts.pipeline, parts.embedder
        loading = [[one.name, list(one.only), options_of(one)] for one in pipeline.loaders]
        cutting = [[one.name, list(one.only), options_of(one)] for one in pipeline.splitters]
        measure = embedder.fingerprint if isinstance(embedder, Tokenizing) else ""
        load = content_id(json.dumps(loading, sort_keys=True))[:16]
        cut = content_id(load, json.dumps(cutting, sort_keys=True), measure)[:16]
        return cls(load, cut, content_id(cut, embedder.fingerprint)[:16])


@dataclass
class Shelf:
    """What was read and split so far."""

    donors: dict[str, Path] = field(default_factory=dict)
    """Key of loading -> a knowledge base that has all of its documents."""
    split_of: str = ""
    """Key of loading and splitting of what `kept` holds."""
    kept: dict[str, Prepared] = field(default_factory=dict)
    """Source -> the document and its chunks, while another embedder waits for the same ones."""
    counts: Counter[str] = field(default_factory=Counter)
    """`read` and `split`: files that went through a loader and through a splitter."""


class SharingRunner:
    """Gives what the shelf has, and has the pipeline's own runner do the rest.

    Args:
        parts: the parts of the pipeline.
        jobs: workers of its own runner; 0: as the pipeline says.
        shelf: what is there already, and where it is noted what was done.
        keep: keep what is split for the next index.
    """

    def __init__(self, parts: Assembly, jobs: int, shelf: Shelf, *, keep: bool = False) -> None:
        self._parts = parts
        self._inner: Runner = parts.runner(jobs)
        self._shelf = shelf
        self._keep = keep
        self._keys = Keys.of(parts)
        self.windows = self._inner.windows

    def __enter__(self) -> Runner:
        self._inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inner.__exit__(kind, error, trace)

    def embed(self, texts: Sequence[str]) -> Pending:
        """As the pipeline's runner does it."""
        return self._inner.embed(texts)

    def prepare(self, work: Sequence[Work]) -> Iterator[tuple[Work, Prepared | Failed]]:
        """What becomes of each file, in order: from the shelf, from another knowledge base, or read and split."""
        if self._shelf.split_of != self._keys.split:
            self._shelf.kept.clear()
            self._shelf.split_of = self._keys.split
        donor = self._shelf.donors.get(self._keys.load)
        with closing(_Documents(donor)) if donor is not None else closing(_Nothing()) as documents:
            found = {one.source: there for one in work if (there := self._known(one, documents)) is not None}
            fresh = self._inner.prepare([one for one in work if one.source not in found])
            for one in work:
                known = found.get(one.source)
                outcome = self._read(fresh) if known is None else self._split(known, documents)
                if self._keep and isinstance(outcome, Prepared):
                    self._shelf.kept[one.source] = outcome
                yield one, outcome

    def _known(self, work: Work, documents: _Documents | _Nothing) -> Prepared | FileRow | None:
        kept = self._shelf.kept.get(work.source)
        if kept is not None and kept.stat == work.stat:
            return kept
        return documents.row(work)

    def _read(self, fresh: Iterator[tuple[Work, Prepared | Failed]]) -> Prepared | Failed:
        _, outcome = next(fresh)
        self._shelf.counts["read"] += 1
        self._shelf.counts["split"] += isinstance(outcome, Prepared)
        return outcome

    def _split(self, known: Prepared | FileRow, documents: _Documents | _Nothing) -> Prepared | Failed:
        if isinstance(known, Prepared):  # the same chunks, by the ids that they have here
            chunks = identified(known.chunks, self._parts.recipe_of_row(""))
            return replace(known, chunks=tuple(chunks), load_seconds=0.0, split_seconds=0.0)
        parsed = documents.parsed(known)
        if isinstance(parsed, Failed):
            return parsed
        self._shelf.counts["split"] += 1
        return split(self._parts, parsed)


class _Nothing:
    """No knowledge base has the documents yet."""

    def close(self) -> None:
        """There is nothing to close."""

    def row(self, work: Work) -> FileRow | None:
        return None

    def parsed(self, row: FileRow) -> Parsed | Failed:
        raise AssertionError("no row came from here")


class _Documents:
    """The documents of a knowledge base, for one that is made by the same loaders."""

    def __init__(self, directory: Path) -> None:
        self._connection = open_catalog(directory, check_seal=False)
        self._files = Catalog(self._connection).files()

    def close(self) -> None:
        """Let go of the catalog."""
        self._connection.close()

    def row(self, work: Work) -> FileRow | None:
        """What is known of a file; None when it is not known, or has changed since."""
        row, stat = self._files.get(work.source), work.stat
        if row is None or row.size != stat.size:
            return None
        if (row.mtime_ns, row.ctime_ns, row.inode) != (stat.mtime_ns, stat.ctime_ns, stat.inode):
            try:
                same = bool(row.content_hash) and hash_of(read_bytes(work.path, None, stat.size)) == row.content_hash
            except (LoadError, OSError):
                same = False
            row = replace(row, mtime_ns=stat.mtime_ns, ctime_ns=stat.ctime_ns, inode=stat.inode) if same else None
        return row

    def parsed(self, row: FileRow) -> Parsed | Failed:
        """The document of a file, or what kept it from being one."""
        stat = FileStat(row.size, row.mtime_ns, row.ctime_ns, row.inode)
        task = Task(Path(row.source), row.source, stat)
        if row.status in ("failed", "skipped"):
            kind = UnsupportedFormat if row.status == "skipped" else LoadError
            return Failed(task, kind(row.source, row.reason, row.hint), row.content_hash, stat)
        values = self._connection.execute(f"{_DOCUMENT} WHERE key = ?", (row.document,)).fetchone()
        document = document_of(values) if values is not None else Document("", source=row.source)
        return Parsed(task, document, row.content_hash, stat, row.recipe.partition(":")[0])


class KnownQuestions:
    """An embedder that embeds each question once. What asking anew would have taken is told, so that it is counted."""

    def __init__(self, inner: EmbeddingProvider) -> None:
        self._inner = inner
        self._rows: dict[str, tuple[Row, float, float | None]] = {}
        self.seconds = 0.0
        """What known rows have saved since `start`."""
        self.cost_usd: float | None = 0.0
        """The same in US dollars; None: a price is unknown."""

    @property
    def dimension(self) -> int:
        """As of the inner embedder."""
        return self._inner.dimension

    @property
    def fingerprint(self) -> str:
        """As of the inner embedder."""
        return self._inner.fingerprint

    def start(self) -> None:
        """A new question begins."""
        self.seconds, self.cost_usd = 0.0, 0.0

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """As of the inner embedder."""
        return self._inner.embed_texts(texts)

    def embed_query(self, text: str) -> Row:
        """The row of a question: (dimension,)."""
        if text not in self._rows:
            with metered(Meter()) as meter:
                began = time.perf_counter()
                row = self._inner.embed_query(text)
                seconds = time.perf_counter() - began
            self._rows[text] = (row, seconds, meter.usage().total_cost_usd)
            return row
        row, seconds, cost = self._rows[text]
        self.seconds += seconds
        self.cost_usd = None if cost is None or self.cost_usd is None else self.cost_usd + cost
        return row


def embedder_key(parts: Assembly) -> str:
    """Which embedder a pipeline names, options included: equal keys may share one instance."""
    choice = parts.pipeline.embedder
    return json.dumps([choice.name, options_of(choice)], sort_keys=True)

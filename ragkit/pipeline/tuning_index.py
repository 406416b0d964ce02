"""The knowledge bases of a grid: one for each way to load, split and embed, and what making it takes.

Everything lies in one folder, so that a run that was cut off goes on where it stopped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ragkit.embed.base import EmbeddingProvider
from ragkit.errors import Damaged
from ragkit.index.bank import VectorBank, distinct_vectors
from ragkit.index.catalog import Catalog
from ragkit.index.home import exists, open_catalog
from ragkit.index.report import Embedded, Event, IndexReport
from ragkit.pipeline.assemble import Assembly
from ragkit.pipeline.knowledge_base import KnowledgeBase
from ragkit.pipeline.money import embedding_price
from ragkit.pipeline.settings import Pipeline
from ragkit.pipeline.tuning_reuse import Keys, KnownQuestions, SharingRunner, Shelf, embedder_key
from ragkit.pipeline.writing import IndexRun
from ragkit.records import content_id
from ragkit.usage.meter import current_meter

RECORD = "made.json"
"""Beside each knowledge base: what making it took."""


@dataclass(frozen=True)
class Made:
    """What making one index took, over all runs that worked on it."""

    load_seconds: float = 0.0
    split_seconds: float = 0.0
    embed_seconds: float = 0.0
    store_seconds: float = 0.0
    embedded: int = 0
    """Texts that went through the embedder."""
    taken: int = 0
    """Vectors that were copied from another index."""
    tokens: int = 0
    """Of the texts that were embedded."""

    def plus(self, report: IndexReport, taken: int) -> Made:
        """With one more run."""
        seconds = {f"{name}_seconds": getattr(self, f"{name}_seconds") + s for name, s in report.stations.items()}
        counted = {"embedded": report.embedded, "taken": taken, "tokens": report.tokens}
        return replace(self, **seconds, **{name: getattr(self, name) + one for name, one in counted.items()})


@dataclass(frozen=True)
class Index:
    """A knowledge base that is ready to be searched."""

    directory: Path
    keys: Keys
    fingerprint: str
    """Of its embedder."""
    content: str
    """Digest of the files in it."""
    chunks: int
    characters: int
    """Of all chunks."""
    made: Made


@dataclass
class Price:
    """What an index would take by itself, without another one to take from."""

    seconds: float
    cost_usd: float | None


class Workshop:
    """Makes the indexes that trials ask for, each once.

    Args:
        folder: where everything is kept; made if missing.
        documents: what is indexed.
        jobs: workers that read and split; 0: as the pipelines say.
    """

    def __init__(self, folder: Path, documents: Sequence[Path], jobs: int = 0) -> None:
        self.folder = folder
        self._documents = documents
        self._jobs = jobs
        self._shelf = Shelf()
        self._embedders: dict[str, EmbeddingProvider] = {}
        self._askers: dict[str, KnownQuestions] = {}
        self._indexes: dict[str, Index] = {}
        self.counts: Counter[str] = self._shelf.counts
        """Of this run: `read`, `split`, `embedded` (texts), `taken` (vectors copied), `indexes`."""
        self._distinct = distinct_vectors(self._bases())

    @property
    def distinct(self) -> int:
        """Different (text, embedder) that have a vector now and had none when this run began."""
        return distinct_vectors(self._bases()) - self._distinct

    def parts(self, pipeline: Pipeline, *, known_questions: bool = False) -> Assembly:
        """The parts of a pipeline; an embedder that several of them name is made once."""
        bare = Assembly(pipeline)
        key = embedder_key(bare)
        embedder = self._embedders.setdefault(key, bare.embedder)
        if not known_questions:
            return Assembly(pipeline, embedder)
        return Assembly(pipeline, embedder, self.asker(pipeline))

    def asker(self, pipeline: Pipeline) -> KnownQuestions:
        """Who embeds the questions of every trial with this embedder."""
        parts = self.parts(pipeline)
        return self._askers.setdefault(embedder_key(parts), KnownQuestions(parts.embedder))

    def index(self, pipeline: Pipeline, later: Sequence[Pipeline] = ()) -> Index:
        """The knowledge base for a pipeline, brought in line with the documents.

        Args:
            pipeline: whose.
            later: the pipelines whose turn comes after it: what one of them splits alike is kept for it.
        """
        parts = self.parts(pipeline)
        keys = Keys.of(parts)
        known = self._indexes.get(keys.index)
        if known is not None and parts.derived(known.directory) is None:
            return known
        wanted = {other.split for one in later if (other := Keys.of(self.parts(one))).index != keys.index}
        made = self._make(parts, keys, keep=keys.split in wanted)
        self._indexes[keys.index] = made
        self._shelf.donors.setdefault(keys.load, made.directory)
        return made

    def alone(self, index: Index) -> Price:
        """What making it would have taken without the others: where it took from them, what those needed."""
        made, others = index.made, [one for one in self._indexes.values() if one.keys.index != index.keys.index]
        load = made.load_seconds or max(
            (one.made.load_seconds for one in others if one.keys.load == index.keys.load), default=0.0
        )
        cut = made.split_seconds or max(
            (one.made.split_seconds for one in others if one.keys.split == index.keys.split), default=0.0
        )
        seconds_each, tokens_each = self._rates(index.fingerprint)
        characters = index.characters * _share(made)
        embed = made.embed_seconds + characters * seconds_each
        tokens = made.tokens + round(characters * tokens_each)
        embedder = next((one for one in self._embedders.values() if one.fingerprint == index.fingerprint), None)
        cost = embedding_price(embedder, tokens) if embedder is not None else None
        return Price(load + cut + embed + made.store_seconds, cost)

    def _rates(self, fingerprint: str) -> tuple[float, float]:
        """Seconds and tokens of an embedder for each character, over all that it embedded here."""
        own = [one for one in self._indexes.values() if one.fingerprint == fingerprint]
        characters = sum(one.characters * (1 - _share(one.made)) for one in own) or 1.0
        return sum(one.made.embed_seconds for one in own) / characters, sum(one.made.tokens for one in own) / characters

    def _make(self, parts: Assembly, keys: Keys, *, keep: bool) -> Index:
        directory = self.folder / "indexes" / keys.index
        bank = VectorBank([one for one in self._bases() if one != directory], parts.embedder.fingerprint)
        meter = current_meter()
        run = IndexRun(
            jobs=self._jobs,
            max_cost_usd=meter.left_usd if meter is not None else None,
            runner=lambda own, jobs: SharingRunner(own, jobs, self._shelf, keep=keep),
            known=bank.known,
            on_event=self._count,
        )
        with KnowledgeBase(directory, parts.pipeline, parts) as kb:
            report = kb.index(*self._documents, run=run)
        made = _read_record(directory).plus(report, bank.taken)
        (directory / RECORD).write_text(json.dumps(asdict(made)), "utf-8")
        self.counts["taken"] += bank.taken
        self.counts["indexes"] += bool(report.embedded or bank.taken)
        return _index(directory, keys, parts.embedder.fingerprint, made)

    def _count(self, event: Event) -> None:
        if isinstance(event, Embedded):
            self.counts["embedded"] += event.texts

    def _bases(self) -> list[Path]:
        """The knowledge bases that are there, from earlier runs too; one that was cut short has vectors as well."""
        found = sorted((self.folder / "indexes").glob("*"))
        return [one for one in found if exists(one) and _is_whole(one)]


def _index(directory: Path, keys: Keys, fingerprint: str, made: Made) -> Index:
    with closing(open_catalog(directory, check_seal=False)) as connection:
        files = [f"{row.source} {row.content_hash}" for row in Catalog(connection).files().values()]
        chunks, characters = connection.execute(
            "SELECT count(*), coalesce(sum(length(text)), 0) FROM chunks WHERE live = 1"
        ).fetchone()
    return Index(directory, keys, fingerprint, content_id(*files)[:16], chunks, characters, made)


def bytes_of(directory: Path, store: str) -> int:
    """What a knowledge base takes on disk, without the vector stores that another trial has put beside it."""
    own, others = directory / f"store-{store}", directory.glob("store-*")
    left_out = {one for one in others if one != own}
    return sum(
        path.stat().st_size
        for path in directory.rglob("*")
        if path.is_file() and path.name != RECORD and not left_out.intersection(path.parents)
    )


def _share(made: Made) -> float:
    """Of the vectors of an index, those that were copied."""
    return made.taken / max(1, made.taken + made.embedded)


def _is_whole(directory: Path) -> bool:
    try:
        open_catalog(directory, check_seal=False).close()
    except Damaged:
        return False
    return True


def _read_record(directory: Path) -> Made:
    try:
        return Made(**json.loads((directory / RECORD).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return Made()

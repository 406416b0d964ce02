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
from ragkit.errors import KnowledgeBaseDamaged
from ragkit.index.catalog.directory import knowledge_base_exists, open_catalog
from ragkit.index.catalog.sqlite import Catalog
from ragkit.index.report import IndexEvent, IndexReport, TextsEmbedded
from ragkit.index.vector_reuse import ReusableVectors, count_distinct_vectors
from ragkit.knowledge_base.cost_estimate import embedding_cost
from ragkit.knowledge_base.indexing import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.settings import Pipeline
from ragkit.records import content_id
from ragkit.tune.reuse import CachedQueryEmbedder, PreparedCache, ReusingRunner, StageKeys, embedder_key
from ragkit.usage.meter import current_meter

BUILD_RECORD_FILE = "made.json"
"""Beside each knowledge base: what making it took."""


@dataclass(frozen=True)
class BuildRecord:
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

    def add_run(self, report: IndexReport, taken: int) -> BuildRecord:
        """With one more run."""
        seconds = {f"{name}_seconds": getattr(self, f"{name}_seconds") + s for name, s in report.stage_seconds.items()}
        counted = {"embedded": report.embedded, "taken": taken, "tokens": report.tokens}
        return replace(self, **seconds, **{name: getattr(self, name) + one for name, one in counted.items()})


@dataclass(frozen=True)
class TrialIndex:
    """A knowledge base that is ready to be searched."""

    directory: Path
    stage_keys: StageKeys
    fingerprint: str
    """Of its embedder."""
    content_digest: str
    """Digest of the files in it."""
    chunks: int
    characters: int
    """Of all chunks."""
    build_record: BuildRecord


@dataclass
class IndexCost:
    """What an index would take by itself, without another one to take from."""

    seconds: float
    cost_usd: float | None


class IndexBuilder:
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
        self._cache = PreparedCache()
        self._embedders: dict[str, EmbeddingProvider] = {}
        self._query_embedders: dict[str, CachedQueryEmbedder] = {}
        self._indexes: dict[str, TrialIndex] = {}
        self.counts: Counter[str] = self._cache.counts
        """Of this run: `read`, `split`, `embedded` (texts), `taken` (vectors copied), `indexes`."""
        self._initial_vectors = count_distinct_vectors(self._existing_indexes())

    @property
    def new_vectors(self) -> int:
        """Different (text, embedder) that have a vector now and had none when this run began."""
        return count_distinct_vectors(self._existing_indexes()) - self._initial_vectors

    def components(self, pipeline: Pipeline, *, known_questions: bool = False) -> PipelineComponents:
        """The parts of a pipeline; an embedder that several of them name is made once."""
        bare = PipelineComponents(pipeline)
        key = embedder_key(bare)
        embedder = self._embedders.setdefault(key, bare.embedder)
        if not known_questions:
            return PipelineComponents(pipeline, embedder)
        return PipelineComponents(pipeline, embedder, self.query_embedder(pipeline))

    def query_embedder(self, pipeline: Pipeline) -> CachedQueryEmbedder:
        """Who embeds the questions of every trial with this embedder."""
        parts = self.components(pipeline)
        return self._query_embedders.setdefault(embedder_key(parts), CachedQueryEmbedder(parts.embedder))

    def get_index(self, pipeline: Pipeline, later: Sequence[Pipeline] = ()) -> TrialIndex:
        """The knowledge base for a pipeline, brought in line with the documents.

        Args:
            pipeline: whose.
            later: the pipelines whose turn comes after it: what one of them splits alike is kept for it.
        """
        parts = self.components(pipeline)
        keys = StageKeys.from_components(parts)
        known = self._indexes.get(keys.index)
        if known is not None and parts.external_store(known.directory) is None:
            return known
        wanted = {
            other.split
            for one in later
            if (other := StageKeys.from_components(self.components(one))).index != keys.index
        }
        made = self._build_index(parts, keys, keep=keys.split in wanted)
        self._indexes[keys.index] = made
        self._cache.donors.setdefault(keys.load, made.directory)
        return made

    def standalone_cost(self, index: TrialIndex) -> IndexCost:
        """What making it would have taken without the others: where it took from them, what those needed."""
        made, others = (
            index.build_record,
            [one for one in self._indexes.values() if one.stage_keys.index != index.stage_keys.index],
        )
        load = made.load_seconds or max(
            (one.build_record.load_seconds for one in others if one.stage_keys.load == index.stage_keys.load),
            default=0.0,
        )
        cut = made.split_seconds or max(
            (one.build_record.split_seconds for one in others if one.stage_keys.split == index.stage_keys.split),
            default=0.0,
        )
        seconds_each, tokens_each = self._embedding_rates(index.fingerprint)
        characters = index.characters * _reused_share(made)
        embed = made.embed_seconds + characters * seconds_each
        tokens = made.tokens + round(characters * tokens_each)
        embedder = next((one for one in self._embedders.values() if one.fingerprint == index.fingerprint), None)
        cost = embedding_cost(embedder, tokens) if embedder is not None else None
        return IndexCost(load + cut + embed + made.store_seconds, cost)

    def _embedding_rates(self, fingerprint: str) -> tuple[float, float]:
        """Seconds and tokens of an embedder for each character, over all that it embedded here."""
        own = [one for one in self._indexes.values() if one.fingerprint == fingerprint]
        characters = sum(one.characters * (1 - _reused_share(one.build_record)) for one in own) or 1.0
        return sum(one.build_record.embed_seconds for one in own) / characters, sum(
            one.build_record.tokens for one in own
        ) / characters

    def _build_index(self, parts: PipelineComponents, keys: StageKeys, *, keep: bool) -> TrialIndex:
        directory = self.folder / "indexes" / keys.index
        bank = ReusableVectors(
            [one for one in self._existing_indexes() if one != directory], parts.embedder.fingerprint
        )
        meter = current_meter()
        run = IndexOptions(
            jobs=self._jobs,
            max_cost_usd=meter.remaining_usd if meter is not None else None,
            runner_factory=lambda own, jobs: ReusingRunner(own, jobs, self._cache, keep=keep),
            find_known_vectors=bank.find_vectors,
            on_event=self._count_event,
        )
        with KnowledgeBase(directory, parts.pipeline, parts) as kb:
            report = kb.index(*self._documents, options=run)
        made = _read_build_record(directory).add_run(report, bank.reused_count)
        (directory / BUILD_RECORD_FILE).write_text(json.dumps(asdict(made)), "utf-8")
        self.counts["taken"] += bank.reused_count
        self.counts["indexes"] += bool(report.embedded or bank.reused_count)
        return _describe_index(directory, keys, parts.embedder.fingerprint, made)

    def _count_event(self, event: IndexEvent) -> None:
        if isinstance(event, TextsEmbedded):
            self.counts["embedded"] += event.texts

    def _existing_indexes(self) -> list[Path]:
        """The knowledge bases that are there, from earlier runs too; one that was cut short has vectors as well."""
        found = sorted((self.folder / "indexes").glob("*"))
        return [one for one in found if knowledge_base_exists(one) and _is_readable(one)]


def _describe_index(directory: Path, keys: StageKeys, fingerprint: str, made: BuildRecord) -> TrialIndex:
    with closing(open_catalog(directory, check_seal=False)) as connection:
        files = [f"{row.source} {row.content_hash}" for row in Catalog(connection).files().values()]
        chunks, characters = connection.execute(
            "SELECT count(*), coalesce(sum(length(text)), 0) FROM chunks WHERE live = 1"
        ).fetchone()
    return TrialIndex(directory, keys, fingerprint, content_id(*files)[:16], chunks, characters, made)


def size_on_disk(directory: Path, store: str) -> int:
    """What a knowledge base takes on disk, without the vector stores that another trial has put beside it."""
    own, others = directory / f"store-{store}", directory.glob("store-*")
    left_out = {one for one in others if one != own}
    return sum(
        path.stat().st_size
        for path in directory.rglob("*")
        if path.is_file() and path.name != BUILD_RECORD_FILE and not left_out.intersection(path.parents)
    )


def _reused_share(made: BuildRecord) -> float:
    """Of the vectors of an index, those that were copied."""
    return made.taken / max(1, made.taken + made.embedded)


def _is_readable(directory: Path) -> bool:
    try:
        open_catalog(directory, check_seal=False).close()
    except KnowledgeBaseDamaged:
        return False
    return True


def _read_build_record(directory: Path) -> BuildRecord:
    try:
        return BuildRecord(**json.loads((directory / BUILD_RECORD_FILE).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return BuildRecord()

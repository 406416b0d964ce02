"""The knowledge bases of a grid search: one per combination of load, split and embed options, with build costs.

They are kept in one directory, so that an interrupted search can resume.
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
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.settings import Pipeline
from ragkit.records import content_id
from ragkit.tune.reuse import CachedQueryEmbedder, PreparedCache, ReusingRunner, StageKeys, embedder_key
from ragkit.usage.meter import current_meter

BUILD_RECORD_FILE = "made.json"
"""The file in each knowledge base with its build record."""


@dataclass(frozen=True)
class BuildRecord:
    """The cost of building an index, summed over all runs."""

    load_seconds: float = 0.0
    split_seconds: float = 0.0
    embed_seconds: float = 0.0
    store_seconds: float = 0.0
    embedded: int = 0
    """Texts that were embedded."""
    taken: int = 0
    """Vectors that were copied from another index."""
    tokens: int = 0
    """Tokens of the embedded texts."""

    def add_run(self, report: IndexReport, taken: int) -> BuildRecord:
        """A copy with another run added."""
        seconds = {f"{name}_seconds": getattr(self, f"{name}_seconds") + s for name, s in report.stage_seconds.items()}
        changes = {"embedded": report.embedded, "taken": taken, "tokens": report.tokens}
        return replace(self, **seconds, **{name: getattr(self, name) + count for name, count in changes.items()})


@dataclass(frozen=True)
class TrialIndex:
    """A knowledge base that is ready for searches."""

    directory: Path
    stage_keys: StageKeys
    fingerprint: str
    """The fingerprint of its embedder."""
    content_digest: str
    """The digest of its files."""
    chunks: int
    characters: int
    """The total length of its chunks."""
    build_record: BuildRecord


@dataclass
class IndexCost:
    """The estimated cost of an index that reuses nothing."""

    seconds: float
    cost_usd: float | None


class IndexBuilder:
    """Builds the indexes of trials, each once.

    Args:
        folder: the working directory; created if missing.
        documents: paths to index.
        jobs: workers that read and split; 0: the number in the pipelines.
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
        """Counts of this run: `read`, `split`, `embedded` (texts), `taken` (vectors copied), `indexes`."""
        self._initial_vectors = count_distinct_vectors(self._existing_indexes())

    @property
    def new_vectors(self) -> int:
        """Distinct (text, embedder) pairs that were embedded in this run."""
        return count_distinct_vectors(self._existing_indexes()) - self._initial_vectors

    def components(self, pipeline: Pipeline, *, known_questions: bool = False) -> PipelineComponents:
        """The components of a pipeline. Embedders are shared; with `known_questions`, cached query embeddings too."""
        components = PipelineComponents(pipeline)
        embedder = self._embedders.setdefault(embedder_key(components), components.embedder)
        return PipelineComponents(pipeline, embedder, self.query_embedder(pipeline) if known_questions else None)

    def query_embedder(self, pipeline: Pipeline) -> CachedQueryEmbedder:
        """The cached query embedder of a pipeline, shared between trials."""
        components = self.components(pipeline)
        return self._query_embedders.setdefault(embedder_key(components), CachedQueryEmbedder(components.embedder))

    def get_index(self, pipeline: Pipeline, later: Sequence[Pipeline] = ()) -> TrialIndex:
        """The knowledge base for a pipeline, updated to the documents.

        Args:
            pipeline: the pipeline.
            later: the pipelines of later trials; chunks that they share are kept in memory.
        """
        components = self.components(pipeline)
        keys = StageKeys.from_components(components)
        known = self._indexes.get(keys.index)
        if known is not None and components.external_store(known.directory) is None:
            return known
        later_keys = [StageKeys.from_components(self.components(pipeline_)) for pipeline_ in later]
        keep = any(later_key.split == keys.split and later_key.index != keys.index for later_key in later_keys)
        index = self._build_index(components, keys, keep=keep)
        self._indexes[keys.index] = index
        self._cache.donors.setdefault(keys.load, index.directory)
        return index

    def standalone_cost(self, index: TrialIndex) -> IndexCost:
        """The cost of an index without reuse: for a reused stage, the cost of the index that it was reused from."""
        record, keys = index.build_record, index.stage_keys
        other_indexes = [candidate for candidate in self._indexes.values() if candidate.stage_keys.index != keys.index]
        same_load = [
            candidate.build_record.load_seconds for candidate in other_indexes if candidate.stage_keys.load == keys.load
        ]
        same_split = [
            candidate.build_record.split_seconds
            for candidate in other_indexes
            if candidate.stage_keys.split == keys.split
        ]
        load = record.load_seconds or max(same_load, default=0.0)
        split = record.split_seconds or max(same_split, default=0.0)
        seconds_each, tokens_each = self._embedding_rates(index.fingerprint)
        characters = index.characters * _reused_share(record)
        embed = record.embed_seconds + characters * seconds_each
        tokens = record.tokens + round(characters * tokens_each)
        embedder = next(
            (candidate for candidate in self._embedders.values() if candidate.fingerprint == index.fingerprint), None
        )
        cost = embedding_cost(embedder, tokens) if embedder is not None else None
        return IndexCost(load + split + embed + record.store_seconds, cost)

    def _embedding_rates(self, fingerprint: str) -> tuple[float, float]:
        """Seconds and tokens of an embedder per character, over all indexes."""
        indexes = [index for index in self._indexes.values() if index.fingerprint == fingerprint]
        characters = sum(index.characters * (1 - _reused_share(index.build_record)) for index in indexes) or 1.0
        seconds = sum(index.build_record.embed_seconds for index in indexes)
        return seconds / characters, sum(index.build_record.tokens for index in indexes) / characters

    def _build_index(self, components: PipelineComponents, keys: StageKeys, *, keep: bool) -> TrialIndex:
        directory = self.folder / "indexes" / keys.index
        donors = [path for path in self._existing_indexes() if path != directory]
        reusable = ReusableVectors(donors, components.embedder.fingerprint)
        meter = current_meter()
        run = IndexOptions(
            jobs=self._jobs,
            max_cost_usd=meter.remaining_usd if meter is not None else None,
            runner_factory=lambda components, jobs: ReusingRunner(components, jobs, self._cache, keep=keep),
            find_known_vectors=reusable.find_vectors,
            on_event=self._count_event,
        )
        with KnowledgeBase(directory, components.pipeline, components) as kb:
            report = kb.index(*self._documents, options=run)
        record = _read_build_record(directory).add_run(report, reusable.reused_count)
        (directory / BUILD_RECORD_FILE).write_text(json.dumps(asdict(record)), "utf-8")
        self.counts["taken"] += reusable.reused_count
        self.counts["indexes"] += bool(report.embedded or reusable.reused_count)
        return _describe_index(directory, keys, components.embedder.fingerprint, record)

    def _count_event(self, event: IndexEvent) -> None:
        if isinstance(event, TextsEmbedded):
            self.counts["embedded"] += event.texts

    def _existing_indexes(self) -> list[Path]:
        """The knowledge bases in the working directory, those of earlier and interrupted runs included."""
        paths = sorted((self.folder / "indexes").glob("*"))
        return [path for path in paths if knowledge_base_exists(path) and _is_readable(path)]


def _describe_index(directory: Path, keys: StageKeys, fingerprint: str, record: BuildRecord) -> TrialIndex:
    with closing(open_catalog(directory, verify_checksums=False)) as connection:
        files = [f"{row.source} {row.content_hash}" for row in Catalog(connection).files().values()]
        counts = "SELECT count(*), coalesce(sum(length(text)), 0) FROM chunks WHERE live = 1"
        chunks, characters = connection.execute(counts).fetchone()
    return TrialIndex(directory, keys, fingerprint, content_id(*files)[:16], chunks, characters, record)


def size_on_disk(directory: Path, store: str) -> int:
    """Bytes of a knowledge base on disk, without the vector stores of other trials."""
    own_store, store_directories = directory / f"store-{store}", directory.glob("store-*")
    excluded = {path for path in store_directories if path != own_store}
    return sum(
        path.stat().st_size
        for path in directory.rglob("*")
        if path.is_file() and path.name != BUILD_RECORD_FILE and not excluded.intersection(path.parents)
    )


def _reused_share(record: BuildRecord) -> float:
    """The share of vectors that were copied."""
    return record.taken / max(1, record.taken + record.embedded)


def _is_readable(directory: Path) -> bool:
    try:
        open_catalog(directory, verify_checksums=False).close()
    except KnowledgeBaseDamaged:
        return False
    return True


def _read_build_record(directory: Path) -> BuildRecord:
    try:
        return BuildRecord(**json.loads((directory / BUILD_RECORD_FILE).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return BuildRecord()

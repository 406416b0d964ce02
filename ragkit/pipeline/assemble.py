"""From the names in a pipeline to the parts themselves."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import cast

from ragkit.embed import EMBEDDERS
from ragkit.embed.base import EmbeddingProvider, TokenizingEmbedder
from ragkit.index.build import ANY_LOADER, BuildStages
from ragkit.index.build_fingerprint import BuildFingerprint
from ragkit.index.build_runner import BuildRunner
from ragkit.index.catalog.directory import NewKnowledgeBase
from ragkit.index.external_store import ExternalStore, StoreLocation
from ragkit.lexical.analyzer import ANALYZER_VERSION
from ragkit.lexical.base import LexicalIndex
from ragkit.lexical.bm25_index import Bm25Index
from ragkit.load import LOADERS
from ragkit.load.options import LOADER_VERSIONS
from ragkit.load.parsing import ParseLimits
from ragkit.load.router import LoaderRoute
from ragkit.load.walk import FolderOptions
from ragkit.pipeline.components import ComponentConfig
from ragkit.pipeline.runners import RUNNERS, LocalOptions, RayOptions
from ragkit.pipeline.sections import ADDRESS_OPTIONS
from ragkit.pipeline.settings import Pipeline
from ragkit.records import JSON, Chunk, Document, content_id
from ragkit.registry import Part, Registry
from ragkit.retrieve import RERANKERS, RETRIEVERS
from ragkit.retrieve.base import ChunkIndex, Reranker, Retriever, RetrieverDependencies
from ragkit.retrieve.options import RerankOptions, RewriteOptions, SearchOptions
from ragkit.retrieve.query_rewriting import QueryRewriter
from ragkit.retrieve.stages import StageFactory, build_staged_retriever
from ragkit.split import SPLITTERS
from ragkit.split.base import Splitter, TokenStartsFunction
from ragkit.split.chunks import SPECIAL_TOKENS, build_chunks, embedding_text
from ragkit.split.token_index import estimate_token_starts
from ragkit.store import STORES

_WALK_OPTIONS = frozenset(field.name for field in fields(FolderOptions))
"""Settings of the folder walk: they decide which files are looked at, never what is in a chunk."""


MEMORY_STORE = "memory"
"""The store that keeps nothing: a knowledge base that names it searches its catalog."""
CATALOG_STORES = frozenset({"sqlite", MEMORY_STORE})
"""Stores that need nothing beside the catalog: its own vectors are searched, exactly, from the memory map.
With a path of its own `sqlite` is a store like any other."""


class PipelineComponents:
    """The parts of one pipeline, made when they are first needed."""

    def __init__(
        self, pipeline: Pipeline, embedder: EmbeddingProvider | None = None, asker: EmbeddingProvider | None = None
    ) -> None:
        """The parts of `pipeline`.

        Args:
            pipeline: what is assembled.
            embedder: the embedder that it names, where one has been made already: a model is loaded once then.
            asker: who embeds questions in its place, such as one that knows them; its rows must be the same.
        """
        self.pipeline = pipeline
        self._embedder = embedder
        self._query_embedder = asker
        self._rerankers: dict[RerankOptions, Reranker] = {}
        self._rewriters: dict[RewriteOptions, QueryRewriter] = {}

    def runner(self, workers: int = 0) -> BuildRunner:
        """The runner that the pipeline names, for one build; `workers` overrides its own option unless it is 0.

        Raises:
            MissingExtra: an optional dependency of the runner is not installed.
            WorkerError: the cluster cannot be reached.
        """
        choice = self.pipeline.runner
        options = choice.options
        if workers and isinstance(options, LocalOptions | RayOptions):
            options = replace(options, workers=workers)
        build = cast("Callable[[object, PipelineComponents], BuildRunner]", RUNNERS.find(choice.name))
        return build(options, self)

    @property
    def folder_options(self) -> FolderOptions:
        """Which files of a folder are read."""
        for choice in self.pipeline.loaders:
            if isinstance(choice.options, FolderOptions):
                return choice.options
        return FolderOptions()

    @cached_property
    def embedder(self) -> EmbeddingProvider:
        """The embedder, without its model, which is loaded at its first text."""
        return self._embedder or create_component(EMBEDDERS, self.pipeline.embedder)

    @cached_property
    def build_fingerprint(self) -> BuildFingerprint:
        """What decides chunks and vectors."""
        load = {
            f"{choice.name}.{key}": value
            for choice in self.pipeline.loaders
            for key, value in component_options_json(choice).items()
            if key not in _WALK_OPTIONS
        }
        split: dict[str, JSON] = {"name": "+".join(choice.name for choice in self.pipeline.splitters)}
        for choice in self.pipeline.splitters:
            split |= component_options_json(choice)
        if all(map(_has_header, self.pipeline.splitters)):
            split.pop("header", None)  # knowledge bases from before there was this option have headers too
        embed = {"name": self.pipeline.embedder.name, "fingerprint": self.embedder.fingerprint}
        return BuildFingerprint(load, split, embed, ANALYZER_VERSION, dict(LOADER_VERSIONS))

    def loader_fingerprint(self, loader: str) -> str:
        """The recipe of the documents that a loader makes: `loader:digest`."""
        recipe = self.build_fingerprint
        settings = json.dumps([recipe.load, recipe.split, recipe.embed], sort_keys=True)
        version = (
            str(recipe.versions) if loader == ANY_LOADER else recipe.versions.get(loader) or _plugin_version(loader)
        )
        return f"{loader}:{content_id(loader, version, settings, recipe.lexicon)}"

    def current_fingerprint(self, recipe: str) -> str:
        """The recipe that the loader of a stored recipe has today."""
        return self.loader_fingerprint(recipe.partition(":")[0])

    def split_document(self, document: Document) -> list[Chunk]:
        """The chunks of a document, by the splitter that its name is routed to."""
        for choice, splitter in self._splitters:
            if choice.matches(document.source):
                recipe = self.current_fingerprint("")
                most = self._max_tokens
                return build_chunks(document, splitter, self._token_starts, recipe, _has_header(choice), most)
        return []

    def embedding_text(self, chunk: Chunk) -> str:
        """What the embedder sees of a chunk: its header, where the splitter of its file has one, and its text."""
        taken = next((choice for choice in self.pipeline.splitters if choice.matches(chunk.source)), None)
        bare = taken is not None and not _has_header(taken)
        return chunk.text if bare else embedding_text(chunk, self._token_starts)

    def build_stages(self, lexicon: LexicalIndex, runner: BuildRunner) -> BuildStages:
        """Everything that a build drives."""
        return BuildStages(runner, self._count_tokens, self.embedder, lexicon, self.loader_fingerprint)

    @property
    def loader_routes(self) -> tuple[LoaderRoute, ...]:
        """The loaders that are named for some of the files."""
        return tuple(
            LoaderRoute(choice.name, choice.options, choice.only)
            for choice in self.pipeline.loaders
            if not isinstance(choice.options, FolderOptions)
        )

    @property
    def parse_limits(self) -> ParseLimits:
        """What one file may cost."""
        folder = self.folder_options
        return ParseLimits(folder.max_seconds, folder.max_memory_mb, folder.max_text_mb, folder.max_file_mb)

    def external_store(self, directory: Path) -> ExternalStore | None:
        """The vector store beside the catalog of a knowledge base; None when the catalog itself is searched."""
        choice, options = self.pipeline.store, self.pipeline.store.options
        path = getattr(options, "path", None)
        if choice.name == MEMORY_STORE or (choice.name in CATALOG_STORES and not path):
            return None
        place = directory / f"store-{choice.name}"
        own = path == "" and not any(getattr(options, address, "") for address in ADDRESS_OPTIONS)
        if isinstance(path, str | Path) and is_dataclass(options) and not isinstance(options, type):
            # an absolute path, so that a store is the same one from whatever directory it is used
            path = str(Path(path).absolute()) if path else ""
            choice = ComponentConfig(choice.name, replace(options, path=path))
            options = replace(options, path=path or str(place))
        chosen = ComponentConfig(choice.name, options)
        identity = f"{choice.name}:{content_id(json.dumps(component_options_json(choice), sort_keys=True))}"
        return ExternalStore(StoreLocation(identity, lambda: create_component(STORES, chosen), place if own else None))

    @property
    def new_knowledge_base(self) -> NewKnowledgeBase:
        """What a knowledge base that has to be made begins with."""
        return NewKnowledgeBase(
            self.build_fingerprint.to_json(), lambda connection: Bm25Index(connection).create_tables()
        )

    @property
    def top_k(self) -> int:
        """How many hits a search gives when nobody says."""
        return int(getattr(self.pipeline.retriever.options, "top_k", 8))

    def create_retriever(self, passages: ChunkIndex, mode: str | None = None) -> Retriever:
        """The retriever of the pipeline, or the one that `mode` names with its own defaults."""
        choice = self.pipeline.retriever
        if mode is not None and mode != choice.name:
            options = RETRIEVERS.options_class(mode)
            top_k = getattr(choice.options, "top_k", None)
            choice = ComponentConfig(mode, options(**({"top_k": top_k} if top_k else {})) if options else None)
        build = cast("Callable[[object, RetrieverDependencies], Retriever]", RETRIEVERS.find(choice.name))
        parts = RetrieverDependencies(passages, self._query_embedder or self.embedder)
        if not isinstance(choice.options, SearchOptions):  # a plugin's, with stages of its own or none
            return build(choice.options, parts)
        workshop = StageFactory(self._get_reranker, self._get_rewriter)
        return build_staged_retriever(lambda given: build(choice.options, given), parts, choice.options, workshop)

    def _get_reranker(self, options: RerankOptions) -> Reranker:
        """The reranker of these options: made once, as it holds a model or connections."""
        if options not in self._rerankers:
            build = cast("Callable[[RerankOptions, EmbeddingProvider], Reranker]", RERANKERS.find(options.name))
            self._rerankers[options] = build(options, self.embedder)
        return self._rerankers[options]

    def _get_rewriter(self, options: RewriteOptions) -> QueryRewriter:
        """The rewriter of these options: made once, as it remembers what was written."""
        if options not in self._rewriters:
            self._rewriters[options] = QueryRewriter(options)
        return self._rewriters[options]

    @cached_property
    def _splitters(self) -> list[tuple[ComponentConfig, Splitter]]:
        return [(choice, create_component(SPLITTERS, choice)) for choice in self.pipeline.splitters]

    @cached_property
    def _token_starts(self) -> TokenStartsFunction:
        embedder = self.embedder
        return embedder.token_starts if isinstance(embedder, TokenizingEmbedder) else estimate_token_starts

    @property
    def _max_tokens(self) -> int | None:
        """Tokens of one text that the embedder reads, where that is known."""
        embedder = self.embedder
        return embedder.max_tokens if isinstance(embedder, TokenizingEmbedder) else None

    def _count_tokens(self, texts: Sequence[str]) -> int:
        """Tokens of some texts as the embedder reads them, special tokens included."""
        most = self._max_tokens or sys.maxsize
        return sum(min(len(self._token_starts(text)) + SPECIAL_TOKENS, most) for text in texts)


def _has_header(choice: ComponentConfig) -> bool:
    """Whether a splitter's chunks are embedded with their headers."""
    return bool(getattr(choice.options, "header", True))


def _plugin_version(loader: str) -> str:
    """The version of a plugin's loader; '' when it is not installed any more."""
    known = loader in LOADERS.names()
    return str(getattr(LOADERS.find(loader), "version", "")) if known else ""


def create_component(registry: Registry[Part], choice: ComponentConfig) -> Part:
    """The part that a choice names, with its options."""
    part = cast("Callable[..., Part]", registry.find(choice.name))
    return part() if choice.options is None else part(choice.options)


def component_options_json(choice: ComponentConfig) -> dict[str, JSON]:
    """A choice's options as plain values: what JSON would give back."""
    options = choice.options
    if not is_dataclass(options) or isinstance(options, type):
        return {}
    plain: dict[str, JSON] = json.loads(json.dumps(asdict(options), default=str))
    return plain

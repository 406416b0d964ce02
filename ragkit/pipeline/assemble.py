"""Create the components that a pipeline names."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, cast

from ragkit.embed import EMBEDDERS
from ragkit.embed.base import ApproximatedEmbedder, EmbeddingProvider, PricedEmbedder, Row, Rows, TokenizingEmbedder
from ragkit.errors import InvalidOption, PipelineError
from ragkit.index.build_fingerprint import BuildFingerprint
from ragkit.index.catalog.directory import NewKnowledgeBase
from ragkit.index.sources.copies import root_name
from ragkit.lexical.bm25_index import Bm25Index
from ragkit.load import LOADERS
from ragkit.load.files.walk import FolderOptions
from ragkit.load.sources import SOURCES
from ragkit.load.sources.base import Source
from ragkit.lru_cache import LruCache
from ragkit.pipeline.components import ComponentConfig
from ragkit.pipeline.runners import RUNNERS, LocalOptions, RayOptions
from ragkit.pipeline.sections import ADDRESS_OPTIONS
from ragkit.pipeline.settings import Pipeline
from ragkit.records import JSON, content_id
from ragkit.registry import Component, Registry
from ragkit.retrieve import RERANKERS, RETRIEVERS
from ragkit.retrieve.base import Reranker, Retriever, RetrieverDependencies
from ragkit.retrieve.options import RerankOptions, RewriteOptions, SearchOptions
from ragkit.split import SPLITTERS
from ragkit.split.base import EmbeddingSplitter, Splitter
from ragkit.split.options import ChunkContextOptions
from ragkit.store import STORES
from ragkit.store.base import Store
from ragkit.usage.meter import current_meter
from ragkit.usage.pricing import LOCAL_PROVIDERS

if TYPE_CHECKING:  # imported by the methods that need them, so that `ragkit status` loads no agent and no loader
    from ragkit.answer.score_calibration import ScoreCalibration
    from ragkit.index.build import BuildStages
    from ragkit.index.build_runner import BuildRunner
    from ragkit.index.context_writer import ContextWriter
    from ragkit.index.external_store import ExternalStore
    from ragkit.lexical.base import LexicalIndex
    from ragkit.load.process.parsing import ParseLimits
    from ragkit.load.router import LoaderRoute
    from ragkit.records import Chunk, Document
    from ragkit.retrieve.base import ChunkIndex
    from ragkit.retrieve.query_rewriting import QueryRewriter
    from ragkit.split.base import TokenStartsFunction

_WALK_OPTIONS = frozenset(field.name for field in fields(FolderOptions))
"""Options of the directory walk. They select files and do not change chunks, so they are not fingerprinted."""

PROGRAM_EMBEDDER = "(given by the program)"
"""The name, in fingerprints, of an embedder that no pipeline names."""

LOCAL_SOURCE = "folder"
"""The source that is read in place, without copies."""
MEMORY_STORE = "memory"
"""The store without persistence: a knowledge base that names it searches its catalog."""
CATALOG_STORES = frozenset({"sqlite", MEMORY_STORE})
"""Stores for which the vectors in the catalog are searched, exactly and memory-mapped. With a `path`, `sqlite` is an
external store."""


MAX_QUESTION_VECTORS = 64
"""Vectors of questions that are kept."""


class PipelineComponents:
    """The components of a pipeline, created on first use."""

    def __init__(
        self,
        pipeline: Pipeline,
        embedder: EmbeddingProvider | None = None,
        query_embedder: EmbeddingProvider | None = None,
        *,
        of_program: bool = False,
    ) -> None:
        """Args:
        pipeline: the configuration.
        embedder: an instance of the embedder that it names, to share a loaded model.
        query_embedder: embeds questions instead, for example from a cache; its vectors must be the same.
        of_program: `embedder` is not the one that the pipeline names, but replaces it.
        """
        self.of_program = of_program
        self.pipeline = pipeline
        self._embedder = embedder
        self._query_embedder = query_embedder
        self._is_estimate = False
        self._split_tokens = 0
        self._loader_fingerprints: dict[str, str] = {}
        self._rerankers: dict[RerankOptions, Reranker] = {}
        self._rewriters: dict[RewriteOptions, QueryRewriter] = {}
        self.question_vectors: LruCache[str, Row] = LruCache(MAX_QUESTION_VECTORS)
        """The vectors of the last questions that were searched, by `embedder`: an answer needs them again."""
        self.calibration: ScoreCalibration | None = None
        """The score calibration of `embedder`, once it was read or measured, which `calibration_lock` guards."""
        self.calibration_lock = Lock()

    def create_runner(self, workers: int = 0) -> BuildRunner:
        """The runner of the pipeline, for one build; `workers` overrides its option unless it is 0.

        Raises:
            InvalidOption: a Ray run would embed sentences at a cost that it cannot limit.
            MissingExtra: an optional dependency of the runner is not installed.
            WorkerError: the cluster cannot be reached.
        """
        component = self.pipeline.runner
        options = component.options
        if component.name == "ray" and self.has_paid_splitter:
            model = getattr(self.embedder, "model", self.embedder.fingerprint)
            reason = f"the splitter 'semantic' embeds sentences with {model}, whose cost Ray workers cannot limit"
            expected = f"'local': {reason}"
            raise InvalidOption("run.name", "ray", expected)
        if workers and isinstance(options, LocalOptions | RayOptions):
            options = replace(options, workers=workers)
        build = cast("Callable[[object, PipelineComponents], BuildRunner]", RUNNERS.find(component.name))
        return build(options, self)

    def for_estimate(self) -> PipelineComponents:
        """The components for a cost estimate, which pays for nothing.

        If `has_paid_splitter`, sentences are compared by hashed words and counted instead of embedded: chunks are about
        as many and as long, but not the same.
        """
        result = PipelineComponents(self.pipeline, self.embedder, self._query_embedder, of_program=self.of_program)
        result._is_estimate = True
        return result

    @property
    def has_paid_splitter(self) -> bool:
        """Whether a splitter embeds sentences, with an embedder that is not known to be free."""
        embedder = self.embedder
        free = isinstance(embedder, PricedEmbedder) and embedder.provider in LOCAL_PROVIDERS
        return not free and any(isinstance(splitter, EmbeddingSplitter) for _, splitter in self._splitters)

    def pop_split_tokens(self) -> int:
        """Tokens that splitters would have embedded since the last call, in a cost estimate; otherwise 0."""
        tokens, self._split_tokens = self._split_tokens, 0
        return tokens

    @property
    def stays_in_process(self) -> bool:
        """Whether a file can be prepared in this process only.

        It needs a component of this program, or a splitter that embeds, whose cost this process counts; or it is for an
        estimate, which other processes do not know of.
        """
        uses = ((LOADERS, self.pipeline.loaders), (SPLITTERS, self.pipeline.splitters))
        named = any(component.name in registry.of_program for registry, components in uses for component in components)
        embeds = any(isinstance(splitter, EmbeddingSplitter) for _, splitter in self._splitters)
        return (
            self._is_estimate
            or self.of_program
            or named
            or embeds
            or self.pipeline.embedder.name in EMBEDDERS.of_program
        )

    @property
    def folder_options(self) -> FolderOptions:
        """Options of the directory walk."""
        options = (component.options for component in self.pipeline.loaders)
        return next((found for found in options if isinstance(found, FolderOptions)), FolderOptions())

    @cached_property
    def sources(self) -> dict[str, tuple[ComponentConfig, Source]]:
        """Source id -> the configuration and the source, for each entry of `sources:`.

        Raises:
            InvalidOption: two entries are the same source.
            MissingExtra: an optional dependency of a source is not installed.
        """
        found: dict[str, tuple[ComponentConfig, Source]] = {}
        for component in self.pipeline.sources:
            source = create_component(SOURCES, component, Source)
            root = source.location if component.name == LOCAL_SOURCE else root_name(component.name, source.location)
            if root in found:
                raise InvalidOption("sources", root, "one entry for each source")
            found[root] = component, source
        return found

    @cached_property
    def embedder(self) -> EmbeddingProvider:
        """The embedder. Its model is loaded when it embeds the first text."""
        return self._embedder or create_component(EMBEDDERS, self.pipeline.embedder, EmbeddingProvider)

    @property
    def embeds_on_demand(self) -> bool:
        """Whether index runs may publish chunks before they are embedded: the setting of the embedder; only where the
        catalog itself is searched, since other stores need a vector for each row."""
        store = self.pipeline.store
        in_catalog = store.name == MEMORY_STORE or (store.name in CATALOG_STORES and not _store_path(store))
        return in_catalog and not self.of_program and getattr(self.pipeline.embedder.options, "when", "") == "question"

    def check_store(self) -> None:
        """Import what the store needs, so that nothing is embedded before it is missed. Raises MissingExtra."""
        if self.pipeline.store.name not in {MEMORY_STORE, *CATALOG_STORES}:
            STORES.find(self.pipeline.store.name)

    @cached_property
    def static_embedder(self) -> EmbeddingProvider:
        """Finds the candidates among chunks that have no vector yet."""
        if isinstance(self.embedder, ApproximatedEmbedder):
            return self.embedder.static_embedder
        from ragkit.embed.static import StaticEmbedder

        return StaticEmbedder()

    @cached_property
    def build_fingerprint(self) -> BuildFingerprint:
        """The fingerprint of every option that determines chunks and vectors."""
        from ragkit.lexical.analyzer import ANALYZER_VERSION
        from ragkit.load.options import LOADER_VERSIONS  # the options of all loaders, which searches do not need

        load = {
            f"{component.name}.{key}": value
            for component in self.pipeline.loaders
            for key, value in component_options_json(component).items()
            if key not in _WALK_OPTIONS
        }
        for value in load.values():
            if isinstance(value, dict) and value.get("empty_access") == "":
                del value["empty_access"]  # older knowledge bases lack this option
        split: dict[str, JSON] = {"name": "+".join(component.name for component in self.pipeline.splitters)}
        for component in self.pipeline.splitters:
            split |= component_options_json(component)
        if all(map(_has_header, self.pipeline.splitters)):
            split.pop("header", None)  # older knowledge bases lack this option and have headers
        split.pop("context", None)
        split |= _context_fingerprint(self.pipeline.splitters)
        name = PROGRAM_EMBEDDER if self.of_program else self.pipeline.embedder.name
        embed = {"name": name, "fingerprint": self.embedder.fingerprint}
        return BuildFingerprint(load, split, embed, ANALYZER_VERSION, dict(LOADER_VERSIONS))

    def loader_fingerprint(self, loader: str) -> str:
        """The fingerprint of the documents that a loader produces: `loader:digest`. Cached: it is read per document."""
        if loader not in self._loader_fingerprints:
            self._loader_fingerprints[loader] = self._compute_fingerprint(loader)
        return self._loader_fingerprints[loader]

    def _compute_fingerprint(self, loader: str) -> str:
        from ragkit.index.build import ANY_LOADER

        build = self.build_fingerprint
        settings = json.dumps([build.load, build.split, build.embed], sort_keys=True)
        version = str(build.versions) if loader == ANY_LOADER else build.versions.get(loader) or _plugin_version(loader)
        return f"{loader}:{content_id(loader, version, settings, build.lexicon)}"

    def current_fingerprint(self, stored: str) -> str:
        """The current fingerprint of the loader in a stored fingerprint."""
        return self.loader_fingerprint(stored.partition(":")[0])

    def split_document(self, document: Document) -> list[Chunk]:
        """The chunks of a document, by the first splitter that matches its name."""
        from ragkit.split.chunks import MAX_HEADER_TOKENS, build_chunks

        for component, splitter in self._splitters:
            if component.matches(document.source):
                context = _context_options(component)
                reserved = (MAX_HEADER_TOKENS if _has_header(component) else 0) + (context.max_tokens if context else 0)
                fingerprint = self.current_fingerprint("")
                return build_chunks(document, splitter, self._token_starts, fingerprint, reserved, self._max_tokens)
        return []

    def context_options(self, source: str) -> ChunkContextOptions | None:
        """The options of contextual chunks for a file; None: its chunks have no context."""
        splitter = self._find_splitter(source)
        return None if splitter is None else _context_options(splitter)

    @property
    def has_contexts(self) -> bool:
        """Whether a model writes contexts for the chunks of some files."""
        return any(map(_context_options, self.pipeline.splitters))

    def add_contexts(self, chunks: Sequence[Chunk], sentences: Sequence[str]) -> list[Chunk]:
        """The chunks of a document with these contexts. Their ids depend on them."""
        from ragkit.split.chunks import assign_chunk_ids

        pairs = zip(chunks, sentences, strict=True)
        return assign_chunk_ids((replace(chunk, context=text) for chunk, text in pairs), self.current_fingerprint(""))

    def embedding_texts(self, chunks: Sequence[Chunk]) -> list[str]:
        """The texts that are embedded of the chunks of one document: the header, if the splitter of its file adds one,
        and the text."""
        from ragkit.split.chunks import cut_header, join_embedding_text

        splitter = self._find_splitter(chunks[0].source) if chunks else None
        context = _context_options(splitter) if splitter is not None else None
        limit = context.max_tokens if context is not None else 0
        with_headings = splitter is None or _has_header(splitter)
        headers: dict[tuple[str, tuple[str, ...]], str] = {}
        texts: list[str] = []
        for chunk in chunks:
            path = (chunk.title, chunk.heading)
            if path not in headers:
                headers[path] = cut_header(*path, self._token_starts) if with_headings else ""
            texts.append(join_embedding_text(chunk, headers[path], self._token_starts, limit))
        return texts

    def _find_splitter(self, source: str) -> ComponentConfig | None:
        """The first splitter that matches a name."""
        return next((component for component in self.pipeline.splitters if component.matches(source)), None)

    def build_stages(self, lexicon: LexicalIndex, runner: BuildRunner, contexts: ContextWriter) -> BuildStages:
        """The stages of a build."""
        from ragkit.index.build import BuildStages

        return BuildStages(runner, self._count_tokens, self.embedder, lexicon, self.loader_fingerprint, contexts)

    @property
    def loader_routes(self) -> tuple[LoaderRoute, ...]:
        """The loaders with options or files of their own."""
        from ragkit.load.router import LoaderRoute

        loaders = [loader for loader in self.pipeline.loaders if not isinstance(loader.options, FolderOptions)]
        return tuple(LoaderRoute(loader.name, loader.options, loader.only) for loader in loaders)

    @property
    def parse_limits(self) -> ParseLimits:
        """Limits of parsing a file."""
        from ragkit.load.process.parsing import ParseLimits

        folder = self.folder_options
        mapped = max((getattr(loader.options, "MAPPED_MB", 0) for loader in self.pipeline.loaders), default=0)
        return ParseLimits(
            folder.max_seconds,
            folder.max_memory_mb + mapped,
            folder.max_text_mb,
            folder.max_file_mb,
            reads_scans=not self._is_estimate,
        )

    def external_store(self, directory: Path) -> ExternalStore | None:
        """The vector store of a knowledge base; None if the catalog itself is searched."""
        component, options = self.pipeline.store, self.pipeline.store.options
        path = _store_path(component)
        if component.name == MEMORY_STORE or (component.name in CATALOG_STORES and not path):
            return None
        from ragkit.index.external_store import ExternalStore, StoreLocation

        default_path = directory / f"store-{component.name}"
        is_inside = path == "" and not any(getattr(options, address, "") for address in ADDRESS_OPTIONS)
        if isinstance(path, str | Path) and is_dataclass(options) and not isinstance(options, type):
            # absolute, so that the identity of the store does not depend on the working directory
            path = str(Path(path).absolute()) if path else ""
            component = ComponentConfig(component.name, replace(options, path=path))
            options = replace(options, path=path or str(default_path))
        config = ComponentConfig(component.name, options)
        identity = f"{component.name}:{content_id(json.dumps(component_options_json(component), sort_keys=True))}"
        own_path = default_path if is_inside else None
        return ExternalStore(StoreLocation(identity, lambda: create_component(STORES, config, Store), own_path))

    @property
    def has_records(self) -> bool:
        """Whether it loads rows as documents of their own."""
        return any(getattr(loader.options, "records", None) is not None for loader in self.pipeline.loaders)

    @property
    def has_local_store(self) -> bool:
        """Whether the vector store is in files of this machine, which no other machine can search."""
        options = self.pipeline.store.options
        if self.pipeline.store.name == MEMORY_STORE or not hasattr(options, "path"):
            return False
        if self.pipeline.store.name in CATALOG_STORES:
            return bool(getattr(options, "path", None))
        return not any(getattr(options, address, "") for address in ADDRESS_OPTIONS)

    @property
    def new_knowledge_base(self) -> NewKnowledgeBase:
        """The initial content of a new knowledge base."""
        fingerprint = self.build_fingerprint.to_json()
        return NewKnowledgeBase(fingerprint, lambda connection: Bm25Index(connection).create_tables())

    @property
    def top_k(self) -> int:
        """The default number of hits."""
        return int(getattr(self.pipeline.retriever.options, "top_k", 8))

    def create_retriever(self, passages: ChunkIndex, mode: str | None = None) -> Retriever:
        """The retriever of the pipeline, or the one that `mode` names, with its defaults."""
        from ragkit.retrieve.stages import StageFactory, build_staged_retriever

        component = self.pipeline.retriever
        if mode is not None and mode != component.name:
            options = RETRIEVERS.options_class(mode)
            top_k = getattr(component.options, "top_k", None)
            component = ComponentConfig(mode, options(**({"top_k": top_k} if top_k else {})) if options else None)
        retriever = _find_component(RETRIEVERS, component.name, Retriever)
        build = cast("Callable[[object, RetrieverDependencies], Retriever]", retriever)
        dependencies = RetrieverDependencies(passages, self._query_embedder or self.embedder, self.question_vectors)
        if not isinstance(component.options, SearchOptions):  # a plugin without ragkit's stages
            return build(component.options, dependencies)
        stages = StageFactory(self._get_reranker, self._get_rewriter)
        create = partial(build, component.options)
        return build_staged_retriever(create, dependencies, component.options, stages)

    @property
    def reranker(self) -> tuple[str, Reranker] | None:
        """The name and the reranker of the pipeline; None without one that scores texts."""
        options = getattr(self.pipeline.retriever.options, "rerank", None)
        reranker = self._get_reranker(options) if options is not None else None
        return (options.name, reranker) if options is not None and reranker is not None and reranker.weight else None

    def _get_reranker(self, options: RerankOptions) -> Reranker:
        """The reranker with these options; cached, because it holds a model or connections."""
        if options not in self._rerankers:
            reranker = _find_component(RERANKERS, options.name, Reranker)
            build = cast("Callable[[RerankOptions, EmbeddingProvider], Reranker]", reranker)
            self._rerankers[options] = build(options, self.embedder)
        return self._rerankers[options]

    def _get_rewriter(self, options: RewriteOptions) -> QueryRewriter:
        """The rewriter with these options; cached, because it caches rewritten questions."""
        from ragkit.retrieve.query_rewriting import QueryRewriter

        if options not in self._rewriters:
            self._rewriters[options] = QueryRewriter(options)
        return self._rewriters[options]

    @cached_property
    def _splitters(self) -> list[tuple[ComponentConfig, Splitter]]:
        created = [
            (component, create_component(SPLITTERS, component, Splitter)) for component in self.pipeline.splitters
        ]
        for _, splitter in created:
            if isinstance(splitter, EmbeddingSplitter):
                splitter.use_embedder(self._embed_sentences)
        return created

    def _embed_sentences(self, texts: Sequence[str]) -> Rows:
        """Unit vectors of the sentences of a document. Raises BudgetExceeded if the budget is spent."""
        if self._is_estimate and self.has_paid_splitter:
            from ragkit.embed.hashing import HashingEmbedder

            self._split_tokens += self._count_tokens(texts)
            return HashingEmbedder().embed_texts(texts)
        meter = current_meter()
        if meter is not None:
            meter.check_budget()
        return self.embedder.embed_texts(texts)

    @cached_property
    def _token_starts(self) -> TokenStartsFunction:
        from ragkit.split.token_index import estimate_token_starts

        embedder = self.embedder
        return embedder.token_starts if isinstance(embedder, TokenizingEmbedder) else estimate_token_starts

    @cached_property
    def _max_tokens(self) -> int | None:
        """The token limit of the embedder, or None if it is unknown."""
        embedder = self.embedder
        return embedder.max_tokens if isinstance(embedder, TokenizingEmbedder) else None

    def _count_tokens(self, texts: Sequence[str]) -> int:
        """Tokens that the embedder reads, special tokens included."""
        from ragkit.split.chunks import SPECIAL_TOKENS

        limit = self._max_tokens or sys.maxsize
        return sum(min(len(self._token_starts(text)) + SPECIAL_TOKENS, limit) for text in texts)


def _store_path(component: ComponentConfig) -> object:
    return getattr(component.options, "path", None)


def _has_header(component: ComponentConfig) -> bool:
    """Whether a splitter's chunks are embedded with their headers."""
    return bool(getattr(component.options, "header", True))


def _context_options(component: ComponentConfig) -> ChunkContextOptions | None:
    """The options of contextual chunks of a splitter."""
    options = getattr(component.options, "context", None)
    return options if isinstance(options, ChunkContextOptions) else None


def _context_fingerprint(splitters: Sequence[ComponentConfig]) -> dict[str, JSON]:
    """The options that determine contexts; empty without any, as in older knowledge bases."""
    values: dict[str, JSON] = {}
    for number, component in enumerate(splitters):
        options = _context_options(component)
        prefix = "context" if len(splitters) == 1 else f"{number}.context"
        if options is not None:
            for name in ("model", "max_tokens", "document_tokens"):
                values[f"{prefix}.{name}"] = getattr(options, name)
    return values


def _plugin_version(loader: str) -> str:
    """The version of a plugin's loader; '' if it is not installed."""
    return str(getattr(LOADERS.find(loader), "version", "")) if loader in LOADERS.names() else ""


def create_component(registry: Registry[Component], config: ComponentConfig, protocol: type) -> Component:
    """Create a component with its options.

    Raises:
        UnknownName: the name is not registered.
        MissingExtra: its optional dependency is not installed.
        PipelineError: it lacks a member of its protocol.
    """
    build = cast("Callable[..., Component]", _find_component(registry, config.name, protocol))
    component = build() if config.options is None else build(config.options)
    _check_members(registry, config.name, component, protocol)
    return component


def _find_component(registry: Registry[Component], name: str, protocol: type) -> type[Component]:
    component_class = registry.find(name)
    _check_members(registry, name, component_class, protocol)
    return component_class


def _check_members(registry: Registry[Component], name: str, component: object, protocol: type) -> None:
    message = registry.missing_members(name, component, protocol)
    if message:
        raise PipelineError([message])


def component_options_json(config: ComponentConfig) -> dict[str, JSON]:
    """The options of a component as JSON values."""
    options = config.options
    if not is_dataclass(options) or isinstance(options, type):
        return {}
    values: dict[str, JSON] = json.loads(json.dumps(asdict(options), default=str))
    return values

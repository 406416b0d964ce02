"""A knowledge base as one object: index sources, search, ask, verify, migrate."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Literal, Self

from ragkit.errors import InvalidOption, NotAKnowledgeBase
from ragkit.index.access.restricted_reader import RestrictedReader
from ragkit.index.access.rules import Grants, as_grants
from ragkit.index.access.stores import AccessFile, AccessStore, AccessTable
from ragkit.index.aggregate import FieldAggregate
from ragkit.index.catalog.database_url import is_database_url
from ragkit.index.catalog.directory import CATALOG_FILE, knowledge_base_exists, open_catalog
from ragkit.index.catalog.sqlite import Catalog, FileRow, unchanged_sources
from ragkit.index.reader import CatalogReader
from ragkit.knowledge_base.filters import Where, read_filter
from ragkit.knowledge_base.restricted_readers import RestrictedReaders
from ragkit.knowledge_base.session import Session, SessionParts
from ragkit.knowledge_base.sources.source_files import OriginalFile, SourceFiles
from ragkit.knowledge_base.sources.source_status import SourceStatus, read_source_statuses
from ragkit.knowledge_base.status import KnowledgeBaseStatus, find_failures, read_status
from ragkit.knowledge_base.stored_settings import check_settings, read_stored_settings
from ragkit.lexical.bm25_index import Bm25Index
from ragkit.lru_cache import LruCache
from ragkit.pipeline.assemble import PROGRAM_EMBEDDER, PipelineComponents
from ragkit.pipeline.settings import Pipeline
from ragkit.records import JSON, Document

if TYPE_CHECKING:  # imported by the methods that need them: `ragkit status` loads no agent, no loader
    import numpy as np
    from numpy.typing import NDArray

    from ragkit.agent.memory.memory import ConversationMemory
    from ragkit.agent.tools.base import Tool, ToolCallable
    from ragkit.answer.agent import RAGAgent
    from ragkit.answer.base import Answer
    from ragkit.embed.base import EmbeddingProvider
    from ragkit.index.access.audit import DocumentAccess
    from ragkit.index.catalog.database_url import DatabaseUrl
    from ragkit.index.freshness import Freshness
    from ragkit.index.reader import CatalogSnapshot, DocumentSummary
    from ragkit.index.report import IndexReport
    from ragkit.index.verify import VerificationReport
    from ragkit.knowledge_base.answering import Answering
    from ragkit.knowledge_base.copying.migrate import CopyOptions, CopyReport
    from ragkit.knowledge_base.index_options import IndexOptions
    from ragkit.knowledge_base.indexing import Indexer
    from ragkit.knowledge_base.shared import SharedKnowledgeBase, Writer
    from ragkit.load.pages.rectangles import Rectangle
    from ragkit.records import Chunk, Hit
    from ragkit.retrieve.base import Explanation
    from ragkit.usage.ledger import Ledger
    from ragkit.usage.meter import Meter

SearchMode = Literal["dense", "lexical", "hybrid"]

MAX_CONTENTS = 32
"""Descriptions of the contents that are kept, one for each filter."""


class KnowledgeBase:
    """One index over folders, files and web pages, kept in a directory. Created by `open`; searches are thread-safe."""

    def __init__(self, path: Path, pipeline: Pipeline, components: PipelineComponents | None = None) -> None:
        """Like `open`, but without reading what the directory holds.

        Args:
            path: directory of the knowledge base.
            pipeline: its settings.
            components: the components of `pipeline`, if they exist already.
        """
        self.path = path
        self.pipeline = pipeline
        self._components = components or PipelineComponents(pipeline)
        self._reader_lock = Lock()
        self._reader: CatalogReader | None = None
        self._shared: SharedKnowledgeBase | None = None
        self._reader_inode = 0
        self._weights_checked = False
        self._contents: LruCache[str, str] = LruCache(MAX_CONTENTS)
        """Descriptions of the contents by generation and filter."""
        self._get_grants: Callable[[], Grants | None] | None = None
        self._whole: KnowledgeBase | None = None
        """The knowledge base of everything, of one that is restricted."""

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        pipeline: Pipeline | str | os.PathLike[str] | None = None,
        *,
        check: bool = True,
        embedder: EmbeddingProvider | None = None,
    ) -> Self:
        """Open the knowledge base in the directory `path`, or in a database. The first `index` creates it.

        Args:
            path: its directory, or the address of a database: `postgresql://user@host/database?schema=manuals`. Then
                a local copy is searched, which is updated when something is published.
            pipeline: a Pipeline, the path of a pipeline file, or the name of a ready-made pipeline. None: the
                settings that the knowledge base was built with, or the defaults if it does not exist yet. A file
                without a `store` section keeps the current store.
            check: compare `pipeline` and `embedder` with the settings that the knowledge base was built with.
            embedder: embeds in place of the embedder of the pipeline. Its `fingerprint` identifies it: a knowledge base
                that was built with it is opened with it, and the command line cannot search it.

        Raises:
            SettingsMismatch: it was built with other loader, splitter or embedder settings.
            InvalidOption: `embedder` lacks a method or attribute of EmbeddingProvider.
            PipelineError: the pipeline file is invalid.
            KnowledgeBaseDamaged: a file of the knowledge base is missing, truncated or altered.
            DatabaseFailed: the database cannot be reached, and there is no local copy.
        """
        shared = _open_shared(path) if isinstance(path, str) and is_database_url(path) else None
        try:
            directory = Path(path) if shared is None else shared.directory
            return cls._open_directory(directory, shared, pipeline, check, embedder)
        except BaseException:
            if shared is not None:
                shared.close()
            raise

    @classmethod
    def _open_directory(
        cls,
        directory: Path,
        shared: SharedKnowledgeBase | None,
        pipeline: Pipeline | str | os.PathLike[str] | None,
        check: bool,
        embedder: EmbeddingProvider | None,
    ) -> Self:
        """`open` in a directory; `shared` is the database that it is a copy of."""
        stored = read_stored_settings(directory)
        if isinstance(pipeline, Pipeline):
            chosen = pipeline
        elif pipeline is not None:
            chosen = Pipeline.load(Path(pipeline) if isinstance(pipeline, os.PathLike) else pipeline)
        else:
            chosen = stored.load_pipeline() if stored else Pipeline.default()
        if pipeline is not None and stored is not None and not chosen.has_own_store:
            chosen = chosen.with_store_from(stored.load_pipeline())
        kb = cls(directory, chosen, _create_components(chosen, embedder))
        kb._shared = shared
        own = stored is not None and stored.build_fingerprint.embed.get("name") == PROGRAM_EMBEDDER
        if check and stored is not None and (pipeline is not None or embedder is not None or own):
            check_settings(directory, stored.build_fingerprint, kb._components.build_fingerprint)
        return kb

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def as_user(self, user: str, groups: Sequence[str] = ()) -> Self:
        """This knowledge base as a user with groups reads it: without the documents that others may read only.

        Close this one, not the result. Raises InvalidOption for an invalid name.
        """
        grants = as_grants(user, groups)
        return self.restricted_by(lambda: grants)

    def restricted_by(self, get_grants: Callable[[], Grants | None]) -> Self:
        """Like `as_user`; `get_grants` is asked at each read, and returns None for one that may read everything."""
        if self.is_restricted:
            raise InvalidOption("knowledge base", "restricted to a user", "one that was opened, which reads everything")
        restricted = copy(self)
        restricted._whole = self
        restricted._get_grants = get_grants
        restricted.access = self.access
        return restricted

    @property
    def is_restricted(self) -> bool:
        """Whether it is read as a user."""
        return self._whole is not None

    @property
    def grants(self) -> Grants | None:
        """What the user is as whom it is read; None if everything is read."""
        return None if self._get_grants is None else self._get_grants()

    def open_writer(self) -> Self:
        """A second instance with the same settings and components, which can write while this one is searched."""
        writer = type(self)(self.path, self.pipeline, self._components)
        if self._shared is not None:  # with connections of its own, as another process has
            from ragkit.knowledge_base.shared import SharedKnowledgeBase

            writer._shared = SharedKnowledgeBase(self._shared.url)
        return writer

    @property
    def max_file_bytes(self) -> int:
        """Files larger than this are not indexed."""
        return int(self._components.folder_options.max_file_mb * 2**20)

    def require_exists(self) -> None:
        """Check that something was indexed here.

        Raises:
            NotAKnowledgeBase: the directory is missing, or holds no knowledge base.
        """
        if not knowledge_base_exists(self.path):
            if self._shared is not None:
                reason = "is not a knowledge base"
                raise NotAKnowledgeBase(self.place, reason, "build it with `ragkit index FOLDER`")
            open_catalog(self.path)

    def close(self) -> None:
        """Close all files, and the connections to the database."""
        self._close_reader()
        if self._whole is None:
            if "access" in self.__dict__:
                self.access.close()
            if self._shared is not None:
                self._shared.close()
        if self._whole is None and "ledger" in self.__dict__:  # opened on first use
            self.ledger.close()

    def _close_reader(self) -> None:
        if self._whole is not None:
            return  # the reader belongs to the knowledge base of everything
        if "_restricted_readers" in self.__dict__:
            self._restricted_readers.close()
        with self._reader_lock:
            reader, self._reader = self._reader, None
            if reader is not None:
                reader.close()

    @property
    def place(self) -> str:
        """Its directory, or the address of its database without the password."""
        return str(self.path) if self._shared is None else str(self._shared.url)

    def refresh(self) -> bool:
        """Update the local copy of a knowledge base in a database now; returns whether anything was new.

        Searches do so anyway, at most once a second. In a directory there is nothing to do.
        """
        return self._shared is not None and self._shared.refresh()

    @property
    def database(self) -> DatabaseUrl | None:
        """The address of one in a database; None for a directory."""
        return None if self._shared is None else self._shared.url

    def require_vectors(self) -> None:
        """Check that the local copy of a knowledge base in a database has the vectors.

        Raises:
            InvalidOption: the copy leaves them in the database.
        """
        if self._shared is not None:
            with self.reader.snapshot() as snapshot:
                if not Catalog(snapshot.connection).has_vectors():
                    value = f"{self._shared.url.max_copy_gb:g}"
                    raise InvalidOption("max_gb", value, "an address without it: this reads all vectors")

    def follow(self, kind: str = "reader") -> None:
        """Update the local copy in a thread when something is published, until `close`: for servers.

        `kind`: what the status of the database calls this process.
        """
        if self._shared is not None:
            self._shared.follow(kind)

    @cached_property
    def ledger(self) -> Ledger:
        """The cost ledger: one row for each call that used tokens."""
        from ragkit.usage.ledger import FILE_NAME, Ledger, LedgerTables, create_tables

        if self._whole is not None:
            return self._whole.ledger  # which closes it
        place: Path | LedgerTables = self.path / FILE_NAME
        if self._shared is not None:
            from ragkit.index.catalog.postgres_tables import PostgresTables

            place = PostgresTables(self._shared.url, "ledger", create_tables, serial=False)
        # from Python 3.12 on, cached_property lets threads compute at once: all of them get one ledger
        ledger: Ledger = self.__dict__.setdefault("ledger", Ledger(place))
        return ledger

    @cached_property
    def access(self) -> AccessStore:
        """The users of the knowledge base, and the rules of who may read what."""
        return AccessFile(self.path) if self._shared is None else AccessTable(self._shared.url)

    @cached_property
    def _restricted_readers(self) -> RestrictedReaders:
        return RestrictedReaders(self.access)

    # indexing

    @cached_property
    def _source_files(self) -> SourceFiles:
        return SourceFiles(self.path, self._components.folder_options, elsewhere=self._shared is not None)

    @cached_property
    def _indexer(self) -> Indexer:
        from ragkit.knowledge_base.indexing import Indexer

        return Indexer(self.path, self._components, self.ledger)

    @contextmanager
    def _writing(self, *, create: bool = False) -> Iterator[tuple[Indexer, Writer | None]]:
        """The indexer; for a database the one of the writer's copy, which is published at the end of the block."""
        if self.is_restricted:
            raise InvalidOption("knowledge base", "restricted to a user", "one that was opened, to change it")
        if self._shared is None:
            self.close()  # some stores allow one open handle only, and a damaged knowledge base is rebuilt in its place
            yield self._indexer, None
            return
        from ragkit.knowledge_base.indexing import Indexer

        self._check_store()
        with self._shared.write(self._components.new_knowledge_base if create else None) as writer:
            yield Indexer(writer.directory, self._components, self.ledger), writer

    def _check_store(self) -> None:
        """Raises InvalidOption if the vector store of a knowledge base in a database is one of this machine."""
        if self._shared is not None and self._components.has_local_store:
            allowed = "sqlite (the local copy), or a store on a server, for a knowledge base in a database"
            raise InvalidOption("store.name", self.pipeline.store.name, allowed)

    def index(self, *sources: str | os.PathLike[str], options: IndexOptions | None = None) -> IndexReport:
        """Index folders, files, web pages and configured sources. Sources that are not named stay as they are.

        Args:
            sources: paths, URLs, and ids of configured sources (`s3:bucket`); none: all that are known or configured.
            options: settings of this run; None: the defaults.

        Raises:
            LoadError: a source does not exist.
            SettingsMismatch: the knowledge base was built with other settings, and `options.rebuild` is not set.
            KnowledgeBaseLocked: another process writes to it.
            BudgetExceeded: the run costs more than `options.max_cost_usd`; what was embedded is kept.
            PriceUnknown: `options.max_cost_usd` is set, and the price of the embedder is unknown.
        """
        from ragkit.knowledge_base.index_options import IndexOptions

        run = options or IndexOptions()
        if self._shared is not None and run.dry_run:
            return self._dry_run(self._shared, sources, run)
        with self._writing(create=True) as (indexer, writer), self._access_default(run):
            return indexer.index(sources, self._writer_options(writer, run))

    def embed_remaining(self, stop: Callable[[], bool] = lambda: False) -> int:
        """Embed the chunks that have no vector yet; returns how many are left.

        Readers go on meanwhile. What an interruption leaves, the next call embeds.

        Args:
            stop: asked before each batch, of a second or so.

        Raises:
            KnowledgeBaseLocked: another process writes to it.
        """
        if self._shared is not None or not knowledge_base_exists(self.path):
            return 0
        with closing(open_catalog(self.path, verify_checksums=False)) as connection:
            if Catalog(connection).static_embedder() is None:
                return 0
        with self._writing() as (indexer, _), self._use_ledger("index"):
            return indexer.fill(lambda event: None, stop)[1]

    @contextmanager
    def _access_default(self, run: IndexOptions) -> Iterator[None]:
        """Set who may read documents that do not say it, before one can be read; afterwards the catalog expects it."""
        default = self.pipeline.access.default
        if not default or run.dry_run:
            yield
            return
        is_new = self._shared is None and not knowledge_base_exists(self.path)
        if self.access.read().default != default:
            self.access.update(lambda settings: settings.with_default(default))
        yield
        if is_new:
            self.access.update(lambda settings: settings)

    def _dry_run(
        self, shared: SharedKnowledgeBase, sources: Sequence[str | os.PathLike[str]], run: IndexOptions
    ) -> IndexReport:
        """A dry run over the readers' copy, which knows the vectors in the database."""
        from ragkit.knowledge_base.shared import find_in_database

        shared.refresh()
        fingerprint = self._components.embedder.fingerprint
        if knowledge_base_exists(self.path):
            run = replace(run, find_known_vectors=find_in_database(shared.database, fingerprint))
        return self._indexer.index(sources, run)

    def _writer_options(self, writer: Writer | None, run: IndexOptions) -> IndexOptions:
        return run if writer is None else writer.options(run, self._components.embedder.fingerprint)

    def add(self, documents: Document | Sequence[Document], options: IndexOptions | None = None) -> IndexReport:
        """Add documents of the program. They are kept in the knowledge base, and stay until they are removed.

        The documents of a source replace those that were added under that source before. The source is that of the
        document, or `source` in its metadata, or its id; `page`, `heading` and `title` in the metadata are cited.
        Several documents of one source are its parts: `manual.pdf#page=3`. Each call looks at all added documents, so
        add many at once.

        Args:
            documents: one document or several.
            options: settings of this run; None: the defaults.

        Raises:
            InvalidOption: metadata that JSON cannot represent.
            SettingsMismatch, KnowledgeBaseLocked, BudgetExceeded, PriceUnknown: as `index`.
        """
        from ragkit.knowledge_base.index_options import IndexOptions

        given = [documents] if isinstance(documents, Document) else list(documents)
        run = options or IndexOptions()
        with self._writing(create=True) as (indexer, writer), self._access_default(run):
            return indexer.add(given, self._writer_options(writer, run))

    def remove(self, *sources: str | os.PathLike[str]) -> int:
        """Remove files, or folders with everything below them. Returns the number of removed documents.

        The next index run over a folder that contains them adds them again.
        """
        with self._writing() as (indexer, _):
            names = [indexer.source_files.resolver.normalize(source) for source in sources]
            return indexer.remove(lambda catalog: names)

    def remove_documents(self, documents: Mapping[str, str]) -> int:
        """Remove documents, each only if its source still has the one with this id. Returns how many were removed.

        `documents`: ids by source.
        """
        with self._writing() as (indexer, _):
            return indexer.remove(lambda catalog: unchanged_sources(catalog, documents))

    def remove_outdated(self, folder: str) -> int:
        """Remove the documents below a folder whose files have changed or are gone. Returns how many were removed."""
        with self._writing() as (indexer, _):
            return indexer.remove(lambda catalog: indexer.outdated_sources(catalog, folder))

    def clear(self) -> None:
        """Remove all files, chunks and vectors. The knowledge base stays, empty."""
        with self._writing() as (indexer, _):
            indexer.clear()

    def verify(self, *, repair: bool = False) -> VerificationReport:
        """Read everything and report what is wrong; `repair` rebuilds what is damaged."""
        from ragkit.index.verify import verify

        if self._shared is not None:
            from ragkit.knowledge_base.copying.shared_copy import verify_shared

            self._close_reader()
            return verify_shared(self._shared, self._components.external_store(self.path), repair=repair)
        self.close()
        store = self._components.external_store(self.path)
        report = verify(self.path, Bm25Index, store)
        if report.is_sound or not repair:
            return report
        if store is not None and all(problem.part == "store" for problem in report.problems):
            repaired = self._indexer.refill_store(store)
            return replace(verify(self.path, Bm25Index, store), repaired=repaired)
        with self._use_ledger("verify"):
            repaired = self._indexer.rebuild(report.problems[0].part, report.problems[0].message)
        return replace(verify(self.path, Bm25Index, store), repaired=repaired)

    def copy(self, options: CopyOptions | None = None) -> CopyReport:
        """Copy everything into the vector store that the pipeline names, and use that store from now on.

        Nothing is embedded: the vectors come from the catalog. An interrupted copy continues where it stopped. The
        store is recorded only after it was verified against the catalog.

        Raises:
            NotAKnowledgeBase: nothing was indexed.
            KnowledgeBaseDamaged: a file is missing, truncated or altered.
            KnowledgeBaseLocked: another process is writing.
            StoreError: the store is unreachable, or holds documents of another application (`CopyOptions.overwrite`).
        """
        from ragkit.knowledge_base.copying.migrate import CopyOptions, copy_to_store

        self.embed_remaining()  # by the embedder of the pipeline; for other stores each chunk has a vector
        with self._writing() as (indexer, _):
            return copy_to_store(indexer.path, self._components, options or CopyOptions())

    def copy_to(self, target: str | os.PathLike[str], *, overwrite: bool = False) -> CopyReport:
        """Copy everything to another knowledge base: a directory, or the address of a database. Nothing is embedded.

        Args:
            target: where to; this knowledge base stays as it is.
            overwrite: replace the documents that the target holds.

        Raises:
            NotAKnowledgeBase: nothing was indexed, or the target holds something else.
            InvalidOption: the target holds documents, and `overwrite` is not set; or the vectors of this one are in the
                database only.
            KnowledgeBaseLocked: another process is writing.
            DatabaseFailed: the database cannot be reached.
        """
        from ragkit.knowledge_base.copying.shared_copy import copy_knowledge_base

        self.require_exists()
        self.refresh()
        self.require_vectors()
        self.embed_remaining()
        self.close()
        settings = self.access.read()
        return copy_knowledge_base(self.path, self.pipeline.store.name, target, settings, overwrite=overwrite)

    # searching

    @property
    def reader(self) -> CatalogReader:
        """The open read side, of what the principal may read. Threads share one reader."""
        if self._whole is None:
            return self._whole_reader()
        grants = self._get_grants() if self._get_grants is not None else frozenset()
        whole = self._whole.reader
        return whole if grants is None else self._whole._restricted_readers.get(whole, grants)

    def _whole_reader(self) -> CatalogReader:
        if self._shared is not None:
            if knowledge_base_exists(self.path):
                self._shared.refresh_if_old()
            else:
                self._shared.refresh()
        with self._reader_lock:
            if self._reader is not None and self._shared is not None and self._reader_inode != self._catalog_inode():
                self._reader = None  # the copy was fetched again; snapshots of the old one end by themselves
            if self._reader is None:
                self.require_exists()
                self._check_store()
                self._reader_inode = self._catalog_inode()
                store = self._components.external_store(self.path)
                remote = None if self._shared is None else self._shared.vectors
                self._reader = CatalogReader(self.path, Bm25Index, store, remote_vectors=remote)
            return self._reader

    def _catalog_inode(self) -> int:
        try:
            return (self.path / CATALOG_FILE).stat().st_ino
        except FileNotFoundError:
            return 0

    @contextmanager
    def session(self) -> Iterator[Session]:
        """The knowledge base as it is now, for one task: until the end of the block, no index run changes it.

        Raises:
            NotAKnowledgeBase: nothing was indexed.
            KnowledgeBaseDamaged: a file is missing, truncated or altered.
        """
        contents = None if self.is_restricted else self._contents
        parts = SessionParts(
            self._components, lambda: self._source_files, self._check_snapshot, self._use_ledger, contents
        )
        with self.reader.snapshot() as snapshot:
            session = Session(snapshot, parts)
            try:
                yield session
            finally:
                session.close()

    def search(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Hit]:
        """The chunks that match a question, best first.

        Args:
            question: natural language.
            top_k: number of hits, >= 1; None: the setting of the pipeline.
            where: a metadata filter, as a mapping or as text: `year >= 2024`.
            mode: `dense`, `lexical` or `hybrid`; None: the setting of the pipeline.

        Raises:
            NotAKnowledgeBase: nothing was indexed.
            KnowledgeBaseDamaged: a file is missing, truncated or altered.
            InvalidFilter: `where` is not a filter.
        """
        with self.session() as session:
            return session.search(question, top_k, where, mode)

    async def asearch(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Hit]:
        """Like `search`, in a thread."""
        import asyncio

        return await asyncio.to_thread(self.search, question, top_k, where, mode)

    def explain(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Explanation]:
        """Like `search`, each hit with the reasons for its rank."""
        with self.session() as session:
            return session.explain(question, top_k, where, mode)

    def create_filter(self, where: Where = None, source: str = "") -> Mapping[str, JSON] | None:
        """A filter from text or a mapping, and for the documents of one source: a file, folder, URL or name.

        Raises:
            InvalidFilter: `where` is not a filter, or no document has this source.
        """
        if not source:
            return read_filter(where)
        with self.session() as session:
            return session.create_filter(where, source)

    def filter_notes(self, where: Where) -> list[str]:
        """One line for each field of a filter that no document has, or for a filter that matches no document."""
        with self.session() as session:
            return session.filter_notes(where)

    def _use_ledger(self, verb: str) -> AbstractContextManager[object]:
        """Record the calls of a block in the ledger, unless an enclosing meter does that already."""
        from ragkit.usage.meter import current_meter, use_meter

        meter = current_meter()
        if meter is not None and meter.has_call_listener:
            return nullcontext()
        return use_meter(self.create_meter(verb))

    # answering

    def agent(
        self,
        model: str | None = None,
        max_cost_usd: float | None = None,
        memory: ConversationMemory | None = None,
        *,
        tools: Sequence[Tool | ToolCallable] = (),
        where: Where = None,
        top_k: int | None = None,
    ) -> RAGAgent:
        """The agent that answers from this knowledge base, to combine with other agents or tools.

        Args:
            model: `provider:model`; None: the setting of the pipeline.
            max_cost_usd: cost limit of one answer; None: the setting of the pipeline.
            memory: the conversation that the agent continues, if any.
            tools: tools in addition to `search_knowledge_base`.
            where: a metadata filter that applies to every search, whatever the model asks for; see `search`.
            top_k: number of passages per search; None: the setting of the pipeline.
        """
        from ragkit.knowledge_base.answering import QuestionOptions

        options = QuestionOptions(top_k=top_k, model=model, max_cost_usd=max_cost_usd)
        return self._answering.create_agent(self, options, where, memory, tools)

    @cached_property
    def _answering(self) -> Answering:
        from ragkit.knowledge_base.answering import Answering

        return Answering(self._components, lambda: self.ledger)

    def ask(  # noqa: PLR0913 - the options of a question, by keyword
        self,
        question: str,
        *,
        where: Where = None,
        source: str = "",
        top_k: int | None = None,
        model: str | None = None,
        max_cost_usd: float | None = None,
        on_text: Callable[[str], None] | None = None,
        on_restart: Callable[[], None] | None = None,
    ) -> Answer:
        """A cited answer. Without a model it is composed of sentences from the documents.

        Args:
            question: natural language.
            where: a metadata filter that applies to every search of the agent; see `search`.
            source: search only the documents of this file, folder, URL or name.
            top_k: number of passages per search; None: the setting of the pipeline.
            model: `provider:model`; None: the setting of the pipeline.
            max_cost_usd: cost limit of the answer; None: the setting of the pipeline.
            on_text: called with each piece of the answer as it streams.
            on_restart: called when the stream broke and the answer begins again; see `RAGAgent.ask`.

        Raises:
            NotAKnowledgeBase: nothing was indexed.
            KnowledgeBaseDamaged: a file is missing, truncated or altered.
            ProviderError: the model's service failed, after all retries.
            BudgetExceeded: a limit was reached.
            PriceUnknown: there is a limit of cost, and a price is unknown.
            RunError: the run ended without an answer.
            InvalidFilter: `where` is not a filter, or no document has this source.
        """
        from ragkit.knowledge_base.answering import QuestionOptions

        options = QuestionOptions(where, source, top_k, model, max_cost_usd)
        with self.session() as session:
            return self._answering.ask(session, question, options, on_text, on_restart)

    async def aask(
        self,
        question: str,
        *,
        where: Where = None,
        source: str = "",
        top_k: int | None = None,
        model: str | None = None,
        max_cost_usd: float | None = None,
    ) -> Answer:
        """Asynchronous version of `ask`. Cancelling it cancels the run."""
        import asyncio

        from ragkit.knowledge_base.answering import QuestionOptions

        options = QuestionOptions(where, source, top_k, model, max_cost_usd)
        opened = self.session()
        session = await asyncio.to_thread(opened.__enter__)
        try:
            if not self._answering.needs_model(options):
                return await asyncio.to_thread(self._answering.ask, session, question, options)
            agent = await asyncio.to_thread(self._answering.prepare, session, question, options)
            result = await agent.arun(question)
            return await asyncio.to_thread(agent.build_answer, question, result)
        finally:
            await asyncio.shield(asyncio.to_thread(opened.__exit__, None, None, None))

    def chat(
        self,
        *,
        model: str | None = None,
        max_cost_usd: float | None = None,
        where: Where = None,
        source: str = "",
        top_k: int | None = None,
    ) -> RAGAgent:
        """An agent that remembers the conversation; the arguments are those of `ask`."""
        from ragkit.agent.memory.memory import ConversationMemory

        self.require_ready()
        condition = self.create_filter(where, source)
        return self.agent(model, max_cost_usd, ConversationMemory(), where=condition, top_k=top_k)

    def estimate_cost(self, agent: RAGAgent, question: str) -> float | None:
        """Estimated cost of one answer of `agent` in USD; None if a price is unknown."""
        searched = agent.searcher if isinstance(agent.searcher, Session) else self
        with searched.session() as session:
            return self._answering.estimate_cost(agent, question, session)

    def check_budget(self, agent: RAGAgent, question: str, *, known: bool = False) -> None:
        """Check the estimated cost of an answer against the limits of the agent and of the enclosing meters.

        Args:
            agent: from `agent` or `chat`.
            question: the question that it will be asked.
            known: also refuse if a price is unknown.

        Raises:
            BudgetTooSmall: the estimate exceeds a limit.
            PriceUnknown: a price is unknown, and `known` is set.
        """
        searched = agent.searcher if isinstance(agent.searcher, Session) else self
        self._answering.check_budget(agent, question, searched.session, known=known)

    # documents and status

    @property
    def has_records(self) -> bool:
        """Whether the pipeline loads rows as documents of their own; then agents have the tool `aggregate_records`."""
        return self._components.has_records

    def aggregate(self, field: str = "", where: Where = None) -> FieldAggregate:
        """Count the documents that a filter selects, and add up the numbers in one of their metadata fields.

        Raises InvalidFilter for an invalid filter.
        """
        with self.session() as session:
            return session.aggregate(field, where)

    def chunks(self) -> Iterator[Chunk]:
        """Every chunk, sorted by source and offset."""
        with self.reader.snapshot() as snapshot:
            yield from snapshot.iter_chunks()

    def documents(self) -> list[tuple[str, str, int]]:
        """(source, title, number of chunks) of every document, sorted by source."""
        with self.reader.snapshot() as snapshot:
            return list(snapshot.iter_documents())

    def document(self, source: str) -> Document | None:
        """The document of a source, with the indexed text, or None."""
        with self.session() as session:
            return session.document(source)

    def chunk(self, chunk_id: str) -> Chunk | None:
        """The chunk with this id, or None."""
        with self.session() as session:
            return session.chunk(chunk_id)

    def audit_access(self) -> list[DocumentAccess]:
        """Who may read each document, and why, sorted by source."""
        from ragkit.index.access.audit import audit_access

        settings = self.access.read()
        with self.reader.snapshot() as snapshot:
            return list(audit_access(Catalog(snapshot.connection), settings))

    def document_rows(self, after: str = "", limit: int = 50, text: str = "") -> list[DocumentSummary]:
        """The next `limit` documents after the source `after`; `text` filters by source and title."""
        with self.reader.snapshot() as snapshot:
            return snapshot.list_documents(after, limit, text)

    def find_document(self, document_id: str) -> Document | None:
        """The document with this id, with the indexed text, or None."""
        with self.session() as session:
            return session.find_document(document_id)

    def failures(self) -> list[FileRow]:
        """The files that could not be indexed, or whose `access` was not understood, sorted by source."""
        with self.reader.snapshot() as snapshot:
            return find_failures(snapshot)

    def known_sources(self) -> list[str]:
        """The ids of the sources of earlier runs: folders, files, URLs and configured sources."""
        from ragkit.index.catalog.directory import read_marker_roots

        return read_marker_roots(self.path)

    def sources(self) -> list[SourceStatus]:
        """The sources of earlier runs and of the pipeline, with their last run, sorted by id."""
        rows: list[str] = []
        if self.known_sources():
            with self.reader.snapshot() as snapshot:
                rows = [row.source for row in Catalog(snapshot.connection).files().values() if row.status == "indexed"]
        roots = {**dict.fromkeys(self.known_sources()), **dict.fromkeys(self._components.sources)}
        return read_source_statuses(sorted(roots), self._components.sources, rows, self._source_files)

    def status(self) -> KnowledgeBaseStatus:
        """What the knowledge base holds."""
        with self.reader.snapshot() as snapshot:
            status = read_status(snapshot, self.path, self.pipeline, self._source_files)
            if snapshot.is_restricted:  # sizes and processes are not those of what the principal may read
                return replace(status, kb=self.place, vectors=status.chunks, bytes=0)
        if self._shared is None:
            return status
        return replace(status, kb=self.place, database=self._shared.status())

    def freshness(self, timeout_s: float | None = None) -> Freshness:
        """Whether the sources have changed since the last index run.

        Compares file times, and contents only where times do not tell. After `timeout_s` seconds (None: the default)
        the result is marked as incomplete.
        """
        from ragkit.index.freshness import CHECK_TIMEOUT_S

        reader = self.reader
        store = reader.external_store
        with reader.snapshot() as snapshot:
            catalog = Catalog(snapshot.connection)
            outdated = store is not None and not store.is_current(catalog)
            freshness = self._source_files.check_freshness(catalog, CHECK_TIMEOUT_S if timeout_s is None else timeout_s)
        return replace(freshness, outdated_store=self.pipeline.store.name if outdated else "")

    def require_ready(self) -> None:
        """Check that a search can run.

        Raises:
            NotAKnowledgeBase: nothing was indexed.
            KnowledgeBaseDamaged: a file is missing, truncated or altered.
            SettingsMismatch: the vectors are of another model.
        """
        with self.session() as session:
            session.require_ready()

    def _check_snapshot(self, snapshot: CatalogSnapshot) -> None:
        """Check that there are chunks, and once that their vectors come from the weights of the embedder in use."""
        from ragkit.embed.base import ProbingEmbedder
        from ragkit.index.build_fingerprint import check_embedder_weights

        if not len(snapshot.arrays.chunk_keys) and not snapshot.is_restricted:
            raise NotAKnowledgeBase(self.place, "holds no documents", "fill it with `ragkit index FOLDER`")
        embedder = self._components.embedder
        if not self._weights_checked and isinstance(embedder, ProbingEmbedder):
            row = Catalog(snapshot.connection).embedder(embedder.fingerprint)
            if row is not None and row.probe is not None:
                check_embedder_weights(self.place, row.probe, embedder.probe())
        self._weights_checked = True

    # for answering and serving

    @property
    def top_k(self) -> int:
        """Default number of hits of a search."""
        return self._components.top_k

    @property
    def embedder_name(self) -> str:
        """`provider:model` of the embedder, or its fingerprint."""
        from ragkit.knowledge_base.cost_estimate import embedder_name

        return embedder_name(self._components.embedder)

    def create_meter(self, verb: str) -> Meter:
        """A meter that records its calls in the ledger under `verb`."""
        from ragkit.usage.meter import Meter

        return Meter(on_call=self.ledger.call_recorder(verb, self.pipeline.name))

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts: (len(texts), dimension)."""
        return self._components.embedder.embed_texts(texts)

    def rerank(self, question: str, texts: Sequence[str]) -> tuple[str, NDArray[np.float64]]:
        """The relevance of texts for a question, higher is better: (len(texts),); and what has measured it.

        By the reranker of the pipeline; without one, cosines of the embedder, in [-1, 1].
        """
        from ragkit.records import Chunk, Hit

        found = self._components.reranker
        if found is None:
            return self.embedder_name, (self.embed(texts) @ self._components.embedder.embed_query(question)).astype(
                "f8"
            )
        name, reranker = found
        chunks = [Chunk(str(n), "", "", text, 0, len(text), 1, 1) for n, text in enumerate(texts)]
        return name, reranker.scores(question, [Hit(chunk, 0.0) for chunk in chunks])

    def rectangles(self, source: str, start: int, end: int) -> list[Rectangle]:
        """Where `document(source).text[start:end]` stands on the pages of a PDF file, for example of a citation.

        Read from the file when asked for. Empty for other formats, for files in archives and mails, and for files that
        have changed since they were indexed.
        """
        with self.session() as session:
            return session.rectangles(source, start, end)

    def original(self, source: str) -> OriginalFile | None:
        """The file that a document was read from, as it was indexed.

        None if it has changed since, was deleted, or is on another machine. Of a part of a file, such as an attachment
        of a mail, it is the whole file.
        """
        with self.session() as session:
            row = session.file_row(source)
        if row is None or self._has_hidden_parts(row.source):
            return None
        return self._source_files.read_original(row)

    def _has_hidden_parts(self, source: str) -> bool:
        """Whether a file holds documents that the principal may not read: an archive, a mail, a table of records."""
        reader = self.reader
        if not isinstance(reader, RestrictedReader):
            return False
        with reader.snapshot() as snapshot:
            return reader.shares_hidden_content(snapshot, source)

    def is_stale(self, source: str) -> bool:
        """Whether the file has changed since it was indexed, or was deleted."""
        with self.session() as session:
            return session.is_stale(source)


def _open_shared(address: str) -> SharedKnowledgeBase:
    from ragkit.index.catalog.database_url import DatabaseUrl
    from ragkit.knowledge_base.shared import SharedKnowledgeBase

    shared = SharedKnowledgeBase(DatabaseUrl.parse(address))
    try:
        shared.refresh()
    except BaseException:
        shared.close()
        raise
    return shared


def _create_components(pipeline: Pipeline, embedder: EmbeddingProvider | None) -> PipelineComponents:
    if embedder is None:
        return PipelineComponents(pipeline)
    from ragkit.embed import EMBEDDERS
    from ragkit.embed.base import EmbeddingProvider

    missing = EMBEDDERS.missing_members(type(embedder).__name__, embedder, EmbeddingProvider)
    if missing:
        raise InvalidOption("embedder", type(embedder).__name__, f"an EmbeddingProvider: {missing}")
    return PipelineComponents(pipeline, embedder, of_program=True)

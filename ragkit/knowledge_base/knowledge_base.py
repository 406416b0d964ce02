"""A knowledge base as one object: index sources, search, ask, verify, copy."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ragkit.argument_types import check_types
from ragkit.errors import InvalidOption
from ragkit.index.access.rules import as_grants
from ragkit.index.aggregate import FieldAggregate
from ragkit.knowledge_base.filters import Where
from ragkit.knowledge_base.locate import find_location
from ragkit.knowledge_base.location import Location
from ragkit.knowledge_base.question_options import QuestionOptions
from ragkit.knowledge_base.read_side import OPENER, ReadingPrincipal, ReadSide
from ragkit.knowledge_base.session import Session
from ragkit.knowledge_base.status import KnowledgeBaseStatus
from ragkit.knowledge_base.stored_settings import check_settings, read_stored_settings
from ragkit.pipeline.assemble import PROGRAM_EMBEDDER, PipelineComponents
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document, SearchMode

if TYPE_CHECKING:  # imported by the methods that need them: `ragkit status` loads no agent, no loader
    from ragkit.agent.memory.memory import ConversationMemory
    from ragkit.agent.providers.base import Provider
    from ragkit.agent.tools.base import Tool, ToolCallable
    from ragkit.answer.agent import RAGAgent
    from ragkit.answer.answer_events import AnswerEvent
    from ragkit.answer.base import Answer
    from ragkit.answer.summaries import SummaryPlan
    from ragkit.embed.base import EmbeddingProvider
    from ragkit.index.report import IndexReport
    from ragkit.index.verify import VerificationReport
    from ragkit.knowledge_base.answering import Answering
    from ragkit.knowledge_base.copying.to_store import CopyOptions, CopyReport
    from ragkit.knowledge_base.index_options import IndexOptions
    from ragkit.knowledge_base.writing import Writer
    from ragkit.load.pages.rectangles import Rectangle
    from ragkit.records import Hit
    from ragkit.usage.ledger import Ledger


@check_types()
class KnowledgeBase:
    """One index over folders, files and web pages, in a directory or a database. Created by `open`.

    Searches are thread-safe. What it holds is read in a `session`; `location` is where it is, `principal` as whom it is
    read, `components` are the parts of its pipeline.
    """

    def __init__(
        self, location: Location | Path, pipeline: Pipeline, components: PipelineComponents | None = None
    ) -> None:
        """Like `open`, but without reading what the location holds.

        Args:
            location: where it is: a directory, or the copy of a database.
            pipeline: its settings.
            components: the components of `pipeline`, if they exist already.
        """
        self.location = Location(location) if isinstance(location, Path) else location
        self.path = self.location.path
        """Its directory; that of the local copy for one in a database."""
        self.pipeline = pipeline
        self.components = components or PipelineComponents(pipeline)
        self.principal = OPENER
        self.has_records = self.components.has_records
        """Whether the pipeline loads rows as documents of their own; then agents have the tool `aggregate_records`."""
        self._read_side = ReadSide(self.location, self.components)

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
                settings that the knowledge base was built with. If it does not exist yet: those of the `ragkit.yaml`
                beside its directory, or in a parent folder up to the root of the repository, else the defaults. A file
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
        location = find_location(path)
        try:
            location.refresh()
            return cls._open_location(location, pipeline, check, embedder)
        except BaseException:
            location.close()
            raise

    @classmethod
    def _open_location(
        cls,
        location: Location,
        pipeline: Pipeline | str | os.PathLike[str] | None,
        check: bool,
        embedder: EmbeddingProvider | None,
    ) -> Self:
        stored = read_stored_settings(location.path)
        if isinstance(pipeline, Pipeline):
            chosen = pipeline
        elif pipeline is not None:
            chosen = Pipeline.load(Path(pipeline) if isinstance(pipeline, os.PathLike) else pipeline)
        else:
            chosen = stored.load_pipeline() if stored else _first_pipeline(location)
        if pipeline is not None and stored is not None and not chosen.has_own_store:
            chosen = chosen.with_store_from(stored.load_pipeline())
        kb = cls(location, chosen, _create_components(chosen, embedder))
        own = stored is not None and stored.build_fingerprint.embed.get("name") == PROGRAM_EMBEDDER
        if check and stored is not None and (pipeline is not None or embedder is not None or own):
            check_settings(location.path, stored.build_fingerprint, kb.components.build_fingerprint)
        return kb

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files, and the connections to the database."""
        if not self.principal.is_restricted:  # else they belong to the knowledge base of everything
            self._read_side.close()
            self.location.close()

    def as_user(self, user: str | ReadingPrincipal, groups: Sequence[str] = ()) -> Self:
        """This knowledge base as a user with groups reads it: without the documents that others may read only.

        Close this one, not the result. Raises InvalidOption for an invalid name.
        """
        if self.principal.is_restricted:
            raise InvalidOption("knowledge base", "restricted to a user", "one that was opened, which reads everything")
        restricted = copy(self)
        if isinstance(user, ReadingPrincipal):
            restricted.principal = user
        else:
            grants = as_grants(user, groups)
            restricted.principal = ReadingPrincipal(lambda: grants)
        return restricted

    @property
    def ledger(self) -> Ledger:
        """The cost ledger: one row for each call that used tokens."""
        return self.location.ledger

    # writing

    @property
    def _writer(self) -> Writer:
        from ragkit.knowledge_base.writing import Writer

        if self.principal.is_restricted:
            raise InvalidOption("knowledge base", "restricted to a user", "one that was opened, to change it")
        return Writer(self.location, self.components, self._read_side.close)

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

        return self._writer.index(sources, options or IndexOptions())

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
        return self._writer.add(given, options or IndexOptions())

    def remove(self, *sources: str | os.PathLike[str]) -> int:
        """Remove files, or folders with everything below them. Returns the number of removed documents.

        The next index run over a folder that contains them adds them again.
        """
        return self._writer.remove(*sources)

    def clear(self) -> None:
        """Remove all files, chunks and vectors. The knowledge base stays, empty."""
        self._writer.clear()

    def embed_remaining(self, stop: Callable[[], bool] = lambda: False) -> int:
        """Embed the chunks that have no vector yet; returns how many are left.

        Readers go on meanwhile. What an interruption leaves, the next call embeds.

        Args:
            stop: asked before each batch, of a second or so.

        Raises:
            KnowledgeBaseLocked: another process writes to it.
        """
        return self._writer.embed_remaining(stop)

    def verify(self, *, repair: bool = False) -> VerificationReport:
        """Read everything and report what is wrong; `repair` rebuilds what is damaged."""
        return self._writer.verify(repair=repair)

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
        from ragkit.knowledge_base.copying.to_store import CopyOptions

        return self._writer.copy(options or CopyOptions())

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
        return self._writer.copy_to(target, overwrite=overwrite)

    # reading

    @contextmanager
    def session(self) -> Iterator[Session]:
        """The knowledge base as it is now, for one task: until the end of the block, no index run changes it.

        Raises:
            NotAKnowledgeBase: nothing was indexed.
            KnowledgeBaseDamaged: a file is missing, truncated or altered.
        """
        with self._read_side.reader(self.principal).snapshot() as snapshot:
            session = Session(snapshot, self._read_side)
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

    def aggregate(self, field: str = "", where: Where = None) -> FieldAggregate:
        """Count the documents that a filter selects, and add up the numbers in one of their metadata fields.

        Raises InvalidFilter for an invalid filter.
        """
        with self.session() as session:
            return session.aggregate(field, where)

    def rectangles(self, source: str, start: int, end: int) -> list[Rectangle]:
        """Where `document(source).text[start:end]` stands on the pages of a PDF file, for example of a citation.

        Read from the file when asked for. Empty for other formats, for files in archives and mails, and for files that
        have changed since they were indexed.
        """
        with self.session() as session:
            return session.rectangles(source, start, end)

    def status(self) -> KnowledgeBaseStatus:
        """What the knowledge base holds."""
        with self.session() as session:
            return session.status()

    # answering

    def agent(
        self,
        model: str | Provider | None = None,
        max_cost_usd: float | None = None,
        memory: ConversationMemory | None = None,
        *,
        tools: Sequence[Tool | ToolCallable] = (),
        where: Where = None,
        top_k: int | None = None,
    ) -> RAGAgent:
        """The agent that answers from this knowledge base, to combine with other agents or tools.

        Args:
            model: `provider:model`, or a Provider; None: the setting of the pipeline.
            max_cost_usd: cost limit of one answer; None: the setting of the pipeline.
            memory: the conversation that the agent continues, if any.
            tools: tools in addition to `search_knowledge_base`.
            where: a metadata filter that applies to every search, whatever the model asks for; see `search`.
            top_k: number of passages per search; None: the setting of the pipeline.
        """
        options = QuestionOptions(top_k=top_k, model=model, max_cost_usd=max_cost_usd)
        return self._answering.create_agent(self, options, where, memory, tools)

    @cached_property
    def _answering(self) -> Answering:
        from ragkit.knowledge_base.answering import Answering

        return Answering(self.components, self.location)

    def ask(  # noqa: PLR0913 - the options of a question, by keyword
        self,
        question: str,
        *,
        where: Where = None,
        source: str = "",
        top_k: int | None = None,
        model: str | Provider | None = None,
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
            model: `provider:model`, or a Provider; None: the setting of the pipeline.
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
        model: str | Provider | None = None,
        max_cost_usd: float | None = None,
    ) -> Answer:
        """Asynchronous version of `ask`. Cancelling it cancels the run."""
        options = QuestionOptions(where, source, top_k, model, max_cost_usd)
        async with self._asession() as session:
            return await self._answering.aask(session, question, options)

    def stream(
        self,
        question: str,
        *,
        where: Where = None,
        source: str = "",
        top_k: int | None = None,
        model: str | Provider | None = None,
        max_cost_usd: float | None = None,
    ) -> Generator[AnswerEvent, None, None]:
        """Answer a question, and yield what happens meanwhile; the arguments and errors are those of `ask`.

        Text (AnswerTextDelta) comes with unknown links taken out, each citation (AnswerCitation) once the text has it,
        and AnswerCompleted last, with the whole Answer. AnswerTextReset takes back what came before it: a connection
        broke, and the model starts over. Closing the generator ends the answer.
        """
        options = QuestionOptions(where, source, top_k, model, max_cost_usd)
        with self.session() as session:
            yield from self._answering.stream(session, question, options)

    async def astream(
        self,
        question: str,
        *,
        where: Where = None,
        source: str = "",
        top_k: int | None = None,
        model: str | Provider | None = None,
        max_cost_usd: float | None = None,
    ) -> AsyncGenerator[AnswerEvent, None]:
        """Asynchronous version of `stream`. Cancelling it cancels the run."""
        options = QuestionOptions(where, source, top_k, model, max_cost_usd)
        async with self._asession() as session, aclosing(self._answering.astream(session, question, options)) as events:
            async for event in events:
                yield event

    @asynccontextmanager
    async def _asession(self) -> AsyncIterator[Session]:
        import asyncio

        opened = self.session()
        session = await asyncio.to_thread(opened.__enter__)
        try:
            yield session
        finally:
            await asyncio.shield(asyncio.to_thread(opened.__exit__, None, None, None))

    def summarize(
        self,
        source: str,
        *,
        model: str | Provider | None = None,
        max_cost_usd: float | None = None,
        on_plan: Callable[[SummaryPlan], None] = lambda _: None,
    ) -> Answer:
        """A cited summary of one document: by a model part by part, without one its lead and central sentences.

        Args:
            source: the source, file name or title of the document.
            model: `provider:model`, or a Provider; None: the setting of the pipeline.
            max_cost_usd: cost limit of all requests together; None: the setting of the pipeline.
            on_plan: called with the number of requests and their estimated cost, before the first one.

        Raises:
            InvalidOption: no document has this name, or several have.
            BudgetTooSmall: the estimate exceeds the limit.
            NotAKnowledgeBase, KnowledgeBaseDamaged, ProviderError, BudgetExceeded, PriceUnknown, RunError: as `ask`.
        """
        options = QuestionOptions(model=model, max_cost_usd=max_cost_usd)
        with self.session() as session:
            return self._answering.summarize(session, source, options, on_plan)

    def chat(
        self,
        *,
        model: str | Provider | None = None,
        max_cost_usd: float | None = None,
        where: Where = None,
        source: str = "",
        top_k: int | None = None,
    ) -> RAGAgent:
        """An agent that remembers the conversation; the arguments are those of `ask`."""
        from ragkit.agent.memory.memory import ConversationMemory

        with self.session() as session:
            session.require_ready()
            condition = session.create_filter(where, source)
        return self.agent(model, max_cost_usd, ConversationMemory(), where=condition, top_k=top_k)


def _first_pipeline(location: Location) -> Pipeline:
    """The pipeline of a knowledge base that does not exist yet: the command line reads the same file."""
    found = None if location.exists() else location.find_pipeline_file()
    return Pipeline.load(found) if found is not None else Pipeline.default()


def _create_components(pipeline: Pipeline, embedder: EmbeddingProvider | None) -> PipelineComponents:
    if embedder is None:
        return PipelineComponents(pipeline)
    from ragkit.embed import EMBEDDERS
    from ragkit.embed.base import EmbeddingProvider

    missing = EMBEDDERS.missing_members(type(embedder).__name__, embedder, EmbeddingProvider)
    if missing:
        raise InvalidOption("embedder", type(embedder).__name__, f"an EmbeddingProvider: {missing}")
    return PipelineComponents(pipeline, embedder, of_program=True)

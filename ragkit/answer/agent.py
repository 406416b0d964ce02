"""`RAGAgent`: an agent with the tool `search_knowledge_base` whose answers have verified citations."""

from __future__ import annotations

import os
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import InitVar, dataclass, replace
from pathlib import Path
from typing import Literal, cast

from ragkit.agent.agent import Agent, AgentInput
from ragkit.agent.events import Event, ModelCallStarted, Retrying, RunEnded
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.loop.context_window import ContextWindow, leave_out_results
from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import Message, Role
from ragkit.agent.providers import PROVIDERS
from ragkit.agent.providers.base import Provider
from ragkit.agent.providers.signatures import adapt_provider
from ragkit.agent.result import AgentResult
from ragkit.agent.runtime.background_tasks import iterate_in_thread
from ragkit.agent.runtime.cancellation import Cancellation
from ragkit.agent.tools.base import Tool, ToolCallable
from ragkit.agent.tracing.trace import StepType
from ragkit.answer.answer_events import AnswerEvent, AnswerTranslator, CitationStream
from ragkit.answer.answer_text import AnswerStream, RestartableOutput
from ragkit.answer.base import Answer, Searchable
from ragkit.answer.checked_text import check_text, find_searches, hits_by_number, quoted_text
from ragkit.answer.conversation_view import show_extracts, show_passages
from ragkit.answer.extractive.provider import ExtractiveProvider
from ragkit.answer.extractive.quotes import ExtractiveAnswer
from ragkit.answer.first_search import FirstSearch
from ragkit.answer.passages import SHOWN_PASSAGES_KEY, RetrievedPassages
from ragkit.answer.prompt import EXTRACTS_INSTRUCTIONS, INSTRUCTIONS, SEARCH_RULE, add_extra_instructions
from ragkit.answer.searchers.aggregate_tool import INSTRUCTIONS as AGGREGATE_INSTRUCTIONS
from ragkit.answer.searchers.aggregate_tool import AggregateTool, Aggregator
from ragkit.answer.tool import DEFAULT_PASSAGES_BUDGET, DEFAULT_TOP_K, MAX_TOP_K, RAGTool
from ragkit.argument_types import check_types
from ragkit.embed.base import EmbeddingProvider
from ragkit.errors import InvalidOption, KnowledgeBaseError, LoadError, RunError
from ragkit.records import JSON, Document, Hit, Where
from ragkit.store.base import Store
from ragkit.usage.meter import Meter, UsageStats, use_meter

DEFAULT_CONFIG = AgentConfig(temperature=0.0, max_iterations=6, on_max_iterations="answer", text_tool_calls=False)


@check_types()
@dataclass(frozen=True)
class RAGOptions:
    """How a RAGAgent searches and answers."""

    top_k: int = DEFAULT_TOP_K
    """Number of passages per search."""
    max_top_k: int = MAX_TOP_K
    """Passages per search that a model may ask for, unless `top_k` is larger."""
    where: Where = None
    """A metadata filter that applies to every search, whatever a model asks for."""
    score_threshold: float | None = None
    """The minimum cosine of question and passage, in [-1, 1]; None: no minimum."""
    instructions: str = INSTRUCTIONS
    """The system prompt. With extracts, the default says in other words when to abstain."""
    extra_instructions: str = ""
    """Added below the system prompt: form, tone or length of answers. They cannot cancel what stands above them."""
    passages_budget: int = DEFAULT_PASSAGES_BUDGET
    """Tokens of the passages of one search, by estimate: the best passages are shown, at least one."""
    tools: Sequence[Tool | ToolCallable] = ()
    """Tools in addition to `search_knowledge_base`, and to `aggregate_records` over records."""
    document_tools: Sequence[str] = ()
    """Tools that navigate documents: names of `ragkit.answer.document_tools.DOCUMENT_TOOLS`."""
    chunk_size: int = 200
    """Maximum length of a chunk, in tokens of the embedder, for documents that the agent splits itself."""
    chunk_overlap: int = 40
    """Maximum length of the whole sentences that a chunk repeats from the previous one, in tokens; one alone may have
    twice this length."""
    glob: str | Sequence[str] = "**/*"
    """Patterns of the files of `from_directory`, in `.gitignore` syntax: `*.md` matches at any depth."""
    memory: ConversationMemory | None = None
    """The conversation that the agent continues, if any."""
    passages: Literal["auto", "whole", "extracts"] = "auto"
    """What a search shows of its passages: `whole`, all of their text; `extracts`, the sentences and rows that are
    closest to the query; `auto`: extracts for models that run on this machine, which read slowly, else whole. With
    extracts of a first search and no other tools, the model cannot search again: small models do so in vain."""
    search: Literal["first", "model"] = "first"
    """`first`: ragkit searches for the question, and the first request to the model has the passages; `model`: the
    model decides whether to search. Without a model, ragkit always searches."""
    strict: bool = False
    """Whether a server answers with an error when the documents do not support an answer."""
    wishes: InitVar[str] = ""
    """The name of `extra_instructions` up to 0.3; deprecated."""

    def __post_init__(self, wishes: str) -> None:
        """Take the options by their old names."""
        if wishes:
            warnings.warn("wishes is now extra_instructions", DeprecationWarning, stacklevel=3)
            object.__setattr__(self, "extra_instructions", wishes)


@check_types()
class RAGAgent(Agent):
    """An agent over documents. `ask` returns an Answer; `run`, `stream` and the rest are those of `Agent`."""

    searcher: Searchable
    """What it searches: a knowledge base, a session of one, or a searcher."""
    options: RAGOptions
    """How it searches and answers."""
    strict: bool
    _build_usage: list[UsageStats]
    """What building the index cost, until the first run has taken it over."""

    def __init__(
        self,
        searcher: Searchable,
        provider: Provider | None = None,
        config: AgentConfig | None = None,
        options: RAGOptions | None = None,
        memory: ConversationMemory | None = None,
    ) -> None:
        """Without a provider, answers are quoted from the documents: no model, no cost.

        Over records (rows of tables), the agent also has the tool `aggregate_records`.
        """
        options = options or RAGOptions()
        provider = adapt_provider(provider or ExtractiveProvider(searcher))
        config = config or replace(DEFAULT_CONFIG, text_tool_calls=provider.writes_calls)
        is_extractive = isinstance(provider, ExtractiveProvider)
        if isinstance(provider, ExtractiveProvider):
            provider = provider.filtered(options.where)
        extracts = not is_extractive and _shows_extracts(provider, options)
        window = config.context_window or ContextWindow()
        if window.view is leave_out_results:
            window = replace(window, view=show_extracts if extracts else show_passages)
        search = RAGTool(
            searcher,
            top_k=options.top_k,
            max_top_k=options.max_top_k,
            where=options.where,
            score_threshold=options.score_threshold,
            passages_budget=options.passages_budget,
            contents=_describe_contents(searcher, options.where, provider),
            keeps_numbers=not is_extractive,
            estimates_evidence=not is_extractive,  # it estimates that of its answer
            extracts=extracts,
        ).tool
        records: list[Tool] = []
        if isinstance(searcher, Aggregator) and searcher.has_records:
            records = [AggregateTool(searcher, options.where).tool]
        searches_first = options.search == "first" and not is_extractive
        document_tools = _create_document_tools(searcher, options)
        if extracts and searches_first and not (records or document_tools or options.tools):
            search = replace(search, for_models=False)
        is_default = options.instructions == INSTRUCTIONS
        instructions = EXTRACTS_INSTRUCTIONS if extracts and is_default else options.instructions
        rules = [instructions, "" if searches_first else SEARCH_RULE, AGGREGATE_INSTRUCTIONS if records else ""]
        super().__init__(
            provider,
            [search, *records, *document_tools, *options.tools],
            config=replace(config, context_window=window),
            memory=options.memory if memory is None else memory,
            name="rag",
            instructions=add_extra_instructions("\n".join(filter(None, rules)), options.extra_instructions),
            opening=FirstSearch(searcher, options.where) if searches_first else None,
        )
        object.__setattr__(self, "searcher", searcher)
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "strict", options.strict)
        object.__setattr__(self, "_build_usage", [])

    @contextmanager
    def session(self) -> Iterator[RAGAgent]:
        """This agent over one state of the documents: it searches, quotes and verifies in that, until the block ends.

        `run` and `build_answer` of one answer belong into one session. `ask` opens its own.
        """
        with self.searcher.session() as searcher:
            if searcher is self.searcher:
                yield self
                return
            is_extractive = isinstance(self.provider, ExtractiveProvider)
            provider = ExtractiveProvider(searcher) if is_extractive else self.provider
            agent = RAGAgent(searcher, provider, self.config, self.options, self.memory)
            object.__setattr__(agent, "_build_usage", self._build_usage)
            yield agent

    @asynccontextmanager
    async def asession(self) -> AsyncIterator[RAGAgent]:
        """Asynchronous version of `session`."""
        import asyncio

        session = self.session()
        agent = await asyncio.to_thread(session.__enter__)
        try:
            yield agent
        finally:
            await asyncio.shield(asyncio.to_thread(session.__exit__, None, None, None))

    def create_meter(self) -> Meter:
        """The meter of a run. The first one includes what it cost to embed the documents."""
        meter = super().create_meter()
        while self._build_usage:
            with suppress(IndexError):  # another thread took it
                meter.carry_over(self._build_usage.pop())
        return meter

    @classmethod
    def from_documents(
        cls,
        documents: Sequence[Document],
        provider: Provider | None = None,
        store: Store | None = None,
        *,
        embedder: EmbeddingProvider | None = None,
        config: AgentConfig | None = None,
        options: RAGOptions | None = None,
    ) -> RAGAgent:
        """An agent over documents, which are split, embedded and added to the store.

        The usage of its first run includes what it cost to embed them. The agent searches everything in the store.

        Args:
            documents: the output of a loader, `Document("some text")`, or none for a filled store. `source`, `page`,
                `heading` and `start_line` in the metadata of a document are cited.
            provider: answers the questions; None quotes the documents, without a model.
            store: holds the vectors; None keeps them in memory.
            embedder: of the documents, and of everything else in the store; None is minilm.
            config: settings of the agent.
            options: settings of the search and the answer.
        """
        options, config = options or RAGOptions(), config or DEFAULT_CONFIG
        from ragkit.answer.searchers.document_searcher import DocumentSearcher
        from ragkit.split.options import RecursiveOptions
        from ragkit.split.recursive import RecursiveSplitter
        from ragkit.store.backends.memory import MemoryStore
        from ragkit.store.options import MemoryOptions

        store = store or MemoryStore(MemoryOptions())
        splitter = RecursiveSplitter(RecursiveOptions(options.chunk_size, options.chunk_overlap))
        with use_meter(Meter(config.prices, on_call=config.on_call)) as meter:
            searcher = DocumentSearcher(documents, store, embedder, splitter, options.top_k)
            searcher.calibration()  # embeds a few texts, which no question should pay
        agent = cls(searcher, provider, config, options)
        agent._build_usage.append(meter.usage())
        return agent

    @classmethod
    def from_files(
        cls,
        paths: Sequence[str | os.PathLike[str]],
        provider: Provider | None = None,
        store: Store | None = None,
        *,
        embedder: EmbeddingProvider | None = None,
        config: AgentConfig | None = None,
        options: RAGOptions | None = None,
    ) -> RAGAgent:
        """An agent over files; the other arguments are those of `from_documents`.

        Raises:
            LoadError: a file cannot be read.
            InvalidOption: `paths` is empty, or a single path.
        """
        from ragkit.load.document_loader import DocumentLoader

        if isinstance(paths, str | os.PathLike) or not paths:
            raise InvalidOption("paths", paths, "a list of at least one path")
        documents = [document for path in paths for document in DocumentLoader.from_file(Path(path))]
        return cls.from_documents(documents, provider, store, embedder=embedder, config=config, options=options)

    @classmethod
    def from_directory(
        cls,
        path: str | os.PathLike[str],
        provider: Provider | None = None,
        store: Store | None = None,
        *,
        embedder: EmbeddingProvider | None = None,
        config: AgentConfig | None = None,
        options: RAGOptions | None = None,
    ) -> RAGAgent:
        """An agent over the files of a directory; the other arguments are those of `from_documents`.

        Args:
            path: the directory. Files that cannot be read are skipped and logged.
            provider: as for `from_documents`.
            store: as for `from_documents`.
            embedder: as for `from_documents`.
            config: as for `from_documents`.
            options: as for `from_documents`; `options.glob` selects the files.

        Raises:
            LoadError: the directory does not exist, or no file in it has text and matches `options.glob`.
        """
        from ragkit.load.document_loader import DocumentLoader

        glob = (options or RAGOptions()).glob
        documents = DocumentLoader.from_directory(Path(path), glob)
        if not documents:
            shown = glob if isinstance(glob, str) else ", ".join(glob)
            raise LoadError(
                str(path), f"contains no readable file that matches {shown}", "check the path and `RAGOptions.glob`"
            )
        return cls.from_documents(documents, provider, store, embedder=embedder, config=config, options=options)

    def ask(
        self,
        question: str,
        *,
        memory: ConversationMemory | None = None,
        on_text: Callable[[str], None] | None = None,
        on_restart: Callable[[], None] | None = None,
    ) -> Answer:
        """Answer a question.

        Args:
            question: natural language.
            memory: the conversation to continue.
            on_text: called with each piece of text as it is streamed, including text before a tool call.
            on_restart: called when the stream broke and the answer begins again with other words; the text so far is
                void. Words that are repeated are not streamed twice. Without it, a stream that breaks after its first
                text raises ProviderError.

        Raises:
            ProviderError, BudgetExceeded, RunError: as `run`.
        """
        with self.session() as agent:
            return agent._ask(question, memory, on_text, on_restart)

    def _ask(
        self,
        question: str,
        memory: ConversationMemory | None,
        on_text: Callable[[str], None] | None,
        on_restart: Callable[[], None] | None,
    ) -> Answer:
        can_restart = on_text is None or on_restart is not None
        text = AnswerStream(question) if on_text is None else self._open_conversation(question, memory)[0]
        output = RestartableOutput(on_text, on_restart)
        for event in self.stream(question, memory=memory, retry_after_text=can_restart):
            if on_text is not None:
                output.write(text.add(event))
            if isinstance(event, Retrying) and event.discard_text:
                output.restart()
            if isinstance(event, ModelCallStarted | RunEnded):
                output.end_part()
            if isinstance(event, RunEnded):
                return self.build_answer(question, event.result)
        raise RunError("the run ended without a result")

    def stream_answer(
        self, question: str, *, memory: ConversationMemory | None = None
    ) -> Generator[AnswerEvent, None, None]:
        """Answer a question and yield what happens: text, citations as they are resolved, and last AnswerCompleted.

        Closing the generator ends the run. Raises the errors of `ask`.

        Args:
            question: natural language.
            memory: the conversation to continue.
        """
        with self.session() as agent:
            translator = AnswerTranslator(*agent._open_conversation(question, memory))
            with closing(agent.stream(question, memory=memory, retry_after_text=True)) as events:
                for event in events:
                    yield from translator.add(event)
                    if translator.needs_documents:
                        yield from agent._resolve(translator, question)

    async def astream_answer(
        self, question: str, *, memory: ConversationMemory | None = None
    ) -> AsyncGenerator[AnswerEvent, None]:
        """Asynchronous version of `stream_answer`."""
        import asyncio

        async with self.asession() as agent:
            translator = AnswerTranslator(*await asyncio.to_thread(agent._open_conversation, question, memory))
            async with aclosing(agent.astream_events(question, memory=memory, retry_after_text=True)) as events:
                async for event in events:
                    for translated in translator.add(event):
                        yield translated
                    if translator.needs_documents:
                        for translated in await asyncio.to_thread(agent._resolve, translator, question):
                            yield translated

    def astream_events(
        self,
        given: AgentInput,
        *,
        memory: ConversationMemory | None = None,
        cancel: Cancellation | None = None,
        retry_after_text: bool = False,
    ) -> AsyncGenerator[Event, None]:
        """Like `astream`; a provider that computes, instead of waiting for a service, runs in a thread."""
        if self.provider.blocking:
            return self.astream(given, memory=memory, cancel=cancel, retry_after_text=retry_after_text)
        events = iterate_in_thread(
            lambda: self.stream(given, memory=memory, cancel=cancel, retry_after_text=retry_after_text)
        )
        return cast("AsyncGenerator[Event, None]", events)

    def _open_conversation(
        self, question: str, memory: ConversationMemory | None
    ) -> tuple[AnswerStream, CitationStream]:
        """The streams of an answer that continues a conversation."""
        conversation = self.memory if memory is None else memory
        earlier = () if conversation is None else conversation.load_messages()
        state = conversation.tool_state if earlier and conversation is not None else {}
        return self.open_streams(question, earlier, state)

    def _resolve(self, translator: AnswerTranslator, question: str) -> list[AnswerEvent]:
        with self.searcher.session() as searcher:
            return translator.resolve(searcher, lambda result: self.build_answer(question, result))

    def open_streams(
        self, question: str, earlier: Sequence[Message] = (), state: Mapping[str, JSON] | None = None
    ) -> tuple[AnswerStream, CitationStream]:
        """The text to show while a run streams, and its citations.

        Args:
            question: the question.
            earlier: the conversation before it.
            state: the state of tools after `earlier`.
        """
        earlier = (*earlier, *self._restore_passages(earlier, state or {}))
        quotes = isinstance(self.provider, ExtractiveProvider)  # of the documents, so their links are safe
        is_data = self.config.response_format is not None
        text = AnswerStream(question, earlier, cleans=not quotes, is_data=is_data)
        return text, CitationStream(earlier, cites=not (quotes or is_data))

    def build_answer(self, question: str, result: AgentResult) -> Answer:
        """Build the Answer of a finished run, with verified citations; a model's statements are held against them.

        Raises:
            KnowledgeBaseError: the documents could not be searched.
        """
        last = result.new_messages[-1] if result.new_messages else Message.assistant(result.content)
        for call in result.tool_calls:
            # only the user can repair a knowledge base, so the error must not end as a tool message
            if isinstance(call.error, KnowledgeBaseError):
                raise call.error
        with self.searcher.session() as searcher:
            if isinstance(last.data, ExtractiveAnswer):
                checked = quoted_text(question, result.content, last.data, searcher)
            else:
                messages = (*self._restore_passages(result.messages, result.state), *result.messages)
                shown = hits_by_number(find_searches(result), messages)
                checked = check_text(self, question, result, shown, searcher)
        return Answer(
            question=question,
            text=checked.text,
            citations=checked.citations,
            abstained=checked.abstained,
            evidence=checked.evidence,
            model=_model_name(result, self.provider, self.config),
            usage=result.usage,
            trace=result.trace,
            trace_id=result.trace.id,
            searched_for=checked.searched_for,
            outcome=checked.outcome,
            notices=checked.notices,
            unknown_citations=checked.unknown_citations,
            statements=checked.statements,
        )

    def _restore_passages(self, messages: Sequence[Message], state: Mapping[str, JSON]) -> list[Message]:
        """A message with the passages that were shown in the conversation and whose results are no longer in it."""
        ids = state.get(SHOWN_PASSAGES_KEY)
        if not isinstance(ids, list):
            return []
        present = {
            n for message in messages if isinstance(message.data, RetrievedPassages) for n in message.data.numbers
        }
        missing = [(n, str(chunk_id)) for n, chunk_id in enumerate(ids, start=1) if n not in present]
        with self.searcher.session() as searcher:
            chunks = [(n, searcher.chunk(chunk_id)) for n, chunk_id in missing]
        hits = {n: Hit(chunk, 0.0) for n, chunk in chunks if chunk is not None}
        return [Message(Role.TOOL, data=RetrievedPassages("", tuple(hits.values()), tuple(hits), None))] if hits else []


def _shows_extracts(provider: Provider, options: RAGOptions) -> bool:
    """Whether the searches of an agent show extracts of their passages."""
    return options.passages == "extracts" or (options.passages == "auto" and provider.on_this_machine)


def _create_document_tools(searcher: Searchable, options: RAGOptions) -> list[Tool]:
    if not options.document_tools:
        return []
    from ragkit.answer.document_tools import DocumentTools

    return DocumentTools(searcher, options.where).select(options.document_tools)


def _describe_contents(searcher: Searchable, where: Where, provider: Provider) -> str:
    """What the documents are, for a model; '' if that is not known."""
    if isinstance(provider, ExtractiveProvider):
        return ""
    try:
        with searcher.session() as session:
            return session.describe_contents(where)
    except KnowledgeBaseError:  # the first search says so
        return ""


def _model_name(result: AgentResult, provider: Provider, config: AgentConfig) -> str:
    """The answering model as `provider:model`; only the provider if it has no choice of models."""
    calls = [span for span in result.trace.steps if span.type is StepType.LLM_CALL]
    name = calls[-1].name if calls else config.model or provider.default_model
    has_prefix = name in {"", provider.name} or name.partition(":")[0] in {provider.name, *PROVIDERS.specs}
    return name if has_prefix else f"{provider.name}:{name}"

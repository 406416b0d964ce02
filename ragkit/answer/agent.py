"""`RAGAgent`: an agent with the tool `search_knowledge_base` whose answers have verified citations."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ragkit.agent.agent import Agent
from ragkit.agent.config import AgentConfig
from ragkit.agent.events import Retrying, RunEnded, TextChunk
from ragkit.agent.memory import ConversationMemory
from ragkit.agent.messages import Message
from ragkit.agent.providers import PROVIDERS
from ragkit.agent.providers.base import Provider
from ragkit.agent.result import AgentResult
from ragkit.agent.tools.base import Tool, ToolCallable
from ragkit.agent.trace import StepType
from ragkit.answer.aggregate_tool import INSTRUCTIONS as AGGREGATE_INSTRUCTIONS
from ragkit.answer.aggregate_tool import AggregateTool, Aggregator
from ragkit.answer.base import Answer, Searcher
from ragkit.answer.citations import cite, resolve_citations
from ragkit.answer.extractive import NOT_IN_DOCUMENTS, ExtractiveAnswer, ExtractiveProvider
from ragkit.answer.link_sanitizer import sanitize_links
from ragkit.answer.score_calibration import get_calibration
from ragkit.answer.tool import DEFAULT_TOP_K, RAGTool, RetrievedPassages
from ragkit.embed.base import EmbeddingProvider
from ragkit.errors import InvalidOption, KnowledgeBaseError, LoadError, RunError
from ragkit.records import Document, Hit
from ragkit.store.base import Store
from ragkit.usage.meter import Meter, UsageStats, use_meter

INSTRUCTIONS = f"""\
You answer questions about the user's documents, which you can read only through search_knowledge_base.
Search before you answer, with the words that the documents would use; search again with other words when the \
passages do not answer the question.
Say only what the passages say. Behind every statement put the number of the passage that it comes from, as [1].
When the passages do not answer the question, answer with exactly: {NOT_IN_DOCUMENTS}
"""
DEFAULT_CONFIG = AgentConfig(max_iterations=6, on_max_iterations="answer", text_tool_calls=False)


@dataclass(frozen=True)
class RAGOptions:
    """How a RAGAgent searches and answers."""

    top_k: int = DEFAULT_TOP_K
    """Number of passages per search."""
    score_threshold: float | None = None
    """The minimum cosine of question and passage, in [-1, 1]; None: no minimum."""
    instructions: str = INSTRUCTIONS
    """The system prompt."""
    tools: Sequence[Tool | ToolCallable] = ()
    """Tools in addition to `search_knowledge_base`, and to `aggregate_records` over records."""
    chunk_size: int = 200
    """Maximum length of a chunk, in tokens of the embedder, for documents that the agent splits itself."""
    chunk_overlap: int = 40
    """Maximum length of the text that a chunk repeats from the previous one, in tokens."""
    glob: str | Sequence[str] = "**/*"
    """Patterns of the files of `from_directory`, in `.gitignore` syntax: `*.md` matches at any depth."""
    memory: ConversationMemory | None = None
    """The conversation that the agent continues, if any."""


class RAGAgent(Agent):
    """An agent over documents. `ask` returns an Answer; `run`, `stream` and the rest are those of `Agent`."""

    searcher: Searcher
    _build_usage: list[UsageStats]
    """What building the index cost, until the first run has taken it over."""

    def __init__(
        self,
        searcher: Searcher,
        provider: Provider | None = None,
        config: AgentConfig | None = None,
        options: RAGOptions | None = None,
        memory: ConversationMemory | None = None,
    ) -> None:
        """Without a provider, answers are quoted from the documents: no model, no cost.

        Over records (rows of tables), the agent also has the tool `aggregate_records`.
        """
        options = options or RAGOptions()
        tool = RAGTool(searcher, top_k=options.top_k, score_threshold=options.score_threshold)
        records = [AggregateTool(searcher).tool] if isinstance(searcher, Aggregator) and searcher.has_records else []
        super().__init__(
            provider or ExtractiveProvider(searcher),
            [tool.tool, *records, *options.tools],
            config=config or DEFAULT_CONFIG,
            memory=options.memory if memory is None else memory,
            name="rag",
            instructions=f"{options.instructions}\n{AGGREGATE_INSTRUCTIONS}" if records else options.instructions,
        )
        object.__setattr__(self, "searcher", searcher)
        object.__setattr__(self, "_build_usage", [])

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
        from ragkit.answer.document_searcher import DocumentSearcher
        from ragkit.split.options import RecursiveOptions
        from ragkit.split.recursive import RecursiveSplitter
        from ragkit.store.backends.memory import MemoryStore
        from ragkit.store.options import MemoryOptions

        store = store or MemoryStore(MemoryOptions())
        splitter = RecursiveSplitter(RecursiveOptions(options.chunk_size, options.chunk_overlap))
        with use_meter(Meter(config.prices, on_call=config.on_call)) as meter:
            searcher = DocumentSearcher(documents, store, embedder, splitter, options.top_k)
            get_calibration(searcher)  # embeds a few texts, which no question should pay
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
            on_restart: called when the stream broke and the answer begins again; the text so far is void. Without it,
                a stream that breaks after its first text raises ProviderError.

        Raises:
            ProviderError, BudgetExceeded, RunError: as `run`.
        """
        can_restart = on_text is None or on_restart is not None
        for event in self.stream(question, memory=memory, retry_after_text=can_restart):
            if isinstance(event, TextChunk) and on_text is not None:
                on_text(event.text)
            if isinstance(event, Retrying) and event.discard_text and on_restart is not None:
                on_restart()
            if isinstance(event, RunEnded):
                return self.build_answer(question, event.result)
        raise RunError("the run ended without a result")

    def build_answer(self, question: str, result: AgentResult) -> Answer:
        """Build the Answer of a finished run, with verified citations.

        Raises:
            KnowledgeBaseError: the documents could not be searched.
        """
        last = result.new_messages[-1] if result.new_messages else Message.assistant(result.content)
        for call in result.tool_calls:
            # only the user can repair a knowledge base, so the error must not end as a tool message
            if isinstance(call.error, KnowledgeBaseError):
                raise call.error
        searches = [call.data for call in result.tool_calls if isinstance(call.data, RetrievedPassages)]
        if isinstance(last.data, ExtractiveAnswer):
            citations = [cite(q.n, q.hit, q.unit.start, q.unit.end, self.searcher) for q in last.data.quotes]
            abstained = last.data.abstained
            text = result.content  # quoted from the documents, so its links are safe
        else:
            shown = _hits_by_number(searches, result.messages)
            text = sanitize_links(result.content, [question, *(hit.chunk.text for hit in shown.values())])
            citations = resolve_citations(text, shown, self.searcher)
            abstained = result.content.strip().startswith(NOT_IN_DOCUMENTS.rstrip("."))
        return Answer(
            question=question,
            text=text,
            citations=tuple(citations),
            abstained=abstained,
            evidence=max((search.evidence for search in searches), default=0.0),
            model=_model_name(result, self.provider, self.config),
            usage=result.usage,
            trace=result.trace,
            trace_id=result.trace.id,
        )


def _hits_by_number(searches: Sequence[RetrievedPassages], messages: Sequence[Message]) -> dict[int, Hit]:
    """The hits shown to the model, in this run and in earlier turns of the conversation, by citation number."""
    earlier = [message.data for message in messages if isinstance(message.data, RetrievedPassages)]
    return {n: hit for search in (*earlier, *searches) for n, hit in zip(search.numbers, search.hits, strict=True)}


def _model_name(result: AgentResult, provider: Provider, config: AgentConfig) -> str:
    """The answering model as `provider:model`; only the provider if it has no choice of models."""
    calls = [span for span in result.trace.steps if span.type is StepType.LLM_CALL]
    name = calls[-1].name if calls else config.model or provider.default_model
    has_prefix = name in {"", provider.name} or name.partition(":")[0] in {provider.name, *PROVIDERS.specs}
    return name if has_prefix else f"{provider.name}:{name}"

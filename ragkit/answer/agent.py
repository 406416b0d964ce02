"""`RAGAgent`: an agent with the tool `search_knowledge_base` whose answers have verified citations."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
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
from ragkit.agent.tools.base import Tool
from ragkit.agent.trace import StepType
from ragkit.answer.base import Answer, Searcher
from ragkit.answer.citations import cite, resolve_citations
from ragkit.answer.extractive import NOT_IN_DOCUMENTS, ExtractiveAnswer, ExtractiveProvider
from ragkit.answer.link_sanitizer import sanitize_links
from ragkit.answer.tool import RAGTool, RetrievedPassages
from ragkit.embed.base import EmbeddingProvider
from ragkit.errors import KnowledgeBaseError, RunError
from ragkit.records import Document, Hit
from ragkit.store.base import Store

INSTRUCTIONS = f"""\
You answer questions about the user's documents, which you can read only through search_knowledge_base.
Search before you answer, with the words that the documents would use; search again with other words when the \
passages do not answer the question.
Say only what the passages say. Behind every statement put the number of the passage that it comes from, as [1].
When the passages do not answer the question, answer with exactly: {NOT_IN_DOCUMENTS}
"""


@dataclass(frozen=True)
class RAGOptions:
    """How a RAGAgent searches and answers."""

    top_k: int = 8
    """Number of passages per search."""
    score_threshold: float | None = None
    """Passages with a lower score are dropped."""
    instructions: str = INSTRUCTIONS
    """The system prompt."""
    tools: Sequence[Tool] = ()
    """Tools in addition to `search_knowledge_base`."""


class RAGAgent(Agent):
    """An agent over documents. `ask` returns an Answer; `run`, `stream` and the rest are those of `Agent`."""

    searcher: Searcher

    def __init__(
        self,
        searcher: Searcher,
        provider: Provider | None = None,
        config: AgentConfig | None = None,
        options: RAGOptions | None = None,
        memory: ConversationMemory | None = None,
    ) -> None:
        """Without a provider, answers are quoted from the documents: no model, no cost."""
        options = options or RAGOptions()
        tool = RAGTool(searcher, top_k=options.top_k, score_threshold=options.score_threshold)
        super().__init__(
            provider or ExtractiveProvider(searcher),
            [tool.tool, *options.tools],
            config=config or AgentConfig(max_iterations=6, on_max_iterations="answer", text_tool_calls=False),
            memory=memory,
            name="rag",
            instructions=options.instructions,
        )
        object.__setattr__(self, "searcher", searcher)

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

        Args:
            documents: the output of a loader, or `Document("some text")`.
            provider: answers the questions; None quotes the documents, without a model.
            store: holds the vectors; None keeps them in memory.
            embedder: None is minilm.
            config: settings of the agent.
            options: settings of the search and the answer.
        """
        options = options or RAGOptions()
        from ragkit.answer.document_searcher import DocumentSearcher
        from ragkit.store.backends.memory import MemoryStore
        from ragkit.store.options import MemoryOptions

        store = store or MemoryStore(MemoryOptions())
        return cls(DocumentSearcher(documents, store, embedder, top_k=options.top_k), provider, config, options)

    @classmethod
    def from_files(
        cls,
        paths: Sequence[str | os.PathLike[str]],
        provider: Provider | None = None,
        store: Store | None = None,
        *,
        embedder: EmbeddingProvider | None = None,
    ) -> RAGAgent:
        """An agent over files. Raises LoadError if one of them cannot be read."""
        from ragkit.load.document_loader import DocumentLoader

        documents = [document for path in paths for document in DocumentLoader.from_file(Path(path))]
        return cls.from_documents(documents, provider, store, embedder=embedder)

    @classmethod
    def from_directory(
        cls,
        path: str | os.PathLike[str],
        provider: Provider | None = None,
        store: Store | None = None,
        *,
        embedder: EmbeddingProvider | None = None,
    ) -> RAGAgent:
        """An agent over the files of a directory. Files that cannot be read are skipped and logged."""
        from ragkit.load.document_loader import DocumentLoader

        return cls.from_documents(DocumentLoader.from_directory(Path(path)), provider, store, embedder=embedder)

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

"""A knowledge base as one object: index folders into it, search it, ask it, look after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from ragkit.agent.config import AgentConfig
from ragkit.agent.memory import ConversationMemory
from ragkit.answer.agent import RAGAgent, RAGOptions
from ragkit.answer.base import Answer
from ragkit.embed.base import ProbingEmbedder
from ragkit.errors import LoadError, NotAKnowledgeBase
from ragkit.index.build_fingerprint import check_embedder_weights
from ragkit.index.catalog.directory import knowledge_base_exists, open_catalog
from ragkit.index.catalog.sqlite import Catalog, FileRow
from ragkit.index.freshness import CHECK_TIMEOUT_S, Freshness
from ragkit.index.reader import CatalogReader, CatalogSnapshot, DocumentSummary
from ragkit.index.report import FileFailure, IndexReport
from ragkit.index.source_ids import display_name
from ragkit.index.verify import VerificationReport, verify
from ragkit.knowledge_base.answer_provider import model_name, resolve_answer_provider
from ragkit.knowledge_base.cost_estimate import (
    CALIBRATION_TOKENS,
    agent_model_name,
    check_estimate,
    embedder_name,
    embedding_cost,
    estimate_answer_cost,
)
from ragkit.knowledge_base.indexing import Indexer, IndexOptions
from ragkit.knowledge_base.migrate import CopyOptions, CopyReport, copy_to_store
from ragkit.knowledge_base.stored_settings import read_build_fingerprint, read_stored_settings
from ragkit.lexical.bm25_index import Bm25Index
from ragkit.load.file_io import FileStat
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.settings import Pipeline
from ragkit.records import JSON, Chunk, Document, Hit
from ragkit.retrieve.base import Explanation
from ragkit.usage.ledger import FILE_NAME, Ledger
from ragkit.usage.limits import Limits
from ragkit.usage.meter import Meter, current_meter, use_meter
from ragkit.usage.pricing import PriceBook
from ragkit.usage.tokens import estimate_tokens

SearchMode = Literal["dense", "lexical", "hybrid"]
Where = Mapping[str, JSON] | None
MAX_LISTED_FAILURES = 100
"""Files that could not be indexed, in a status."""


@dataclass(frozen=True)
class KnowledgeBaseStatus:
    """What is in a knowledge base."""

    kb: str
    pipeline: str
    generation: int
    files: int
    failed: int
    documents: int
    chunks: int
    vectors: int
    bytes: int
    """On disk."""
    sources: tuple[str, ...]
    """What was named when it was indexed."""
    settings: Mapping[str, JSON]
    stale: int
    """Indexed files that have changed, or are gone, since."""
    store: str
    """The name of its vector store."""
    failures: tuple[FileFailure, ...]
    """The first files that could not be indexed, by source; `failed` says how many there are."""

    def to_json(self) -> dict[str, JSON]:
        """The shape of `status --json`, with names of sources as a person reads them."""
        failures: list[JSON] = [{**asdict(one), "source": display_name(one.source)} for one in self.failures]
        return {**asdict(self), "sources": [display_name(source) for source in self.sources], "failures": failures}


class KnowledgeBase:
    """One index of some folders, in a directory of its own. Made by `open`; safe to search from many threads."""

    def __init__(self, path: Path, pipeline: Pipeline, parts: PipelineComponents | None = None) -> None:
        """As `open`, without a look at what is there. `parts`: those of the pipeline, where they are made already."""
        self.path = path
        self.pipeline = pipeline
        self._components = parts or PipelineComponents(pipeline)
        self.ledger = Ledger(path / FILE_NAME)
        """What was spent on this knowledge base: a row for every call that used tokens."""
        self._indexer = Indexer(path, self._components, self.ledger)
        self._reader_lock = Lock()
        self._reader: CatalogReader | None = None
        self._weights_checked = False

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        pipeline: Pipeline | str | os.PathLike[str] | None = None,
        *,
        check: bool = True,
    ) -> Self:
        """The knowledge base in the directory `path`; it is made there by the first `index`.

        Args:
            path: its directory.
            pipeline: a Pipeline, the path of a pipeline file, or the name of a ready-made one. None: the settings
                that the knowledge base was built with, or the default ones when there is none yet. A file that says
                nothing of the store leaves it as it is.
            check: hold `pipeline` against the settings that the knowledge base was built with.

        Raises:
            SettingsMismatch: it was built with other loader, splitter or embedder settings.
            PipelineError: the pipeline file cannot be used.
            KnowledgeBaseDamaged: a file of the knowledge base is missing, cut short, foreign or altered.
        """
        directory = Path(path)
        stored = read_stored_settings(directory)
        if isinstance(pipeline, Pipeline):
            chosen = pipeline
        elif pipeline is not None:
            chosen = Pipeline.load(Path(pipeline) if isinstance(pipeline, os.PathLike) else pipeline)
        else:
            chosen = stored.load_pipeline() if stored else Pipeline.default()
        if pipeline is not None and stored is not None and not chosen.has_own_store:
            chosen = chosen.with_store_from(stored.load_pipeline())
        kb = cls(directory, chosen)
        if check and stored is not None and pipeline is not None:
            kb._indexer.check_settings(stored.build_fingerprint)
        return kb

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def require_exists(self) -> None:
        """Raises NotAKnowledgeBase when nothing has been indexed here yet."""
        if not knowledge_base_exists(self.path):
            open_catalog(self.path)

    def close(self) -> None:
        """Let go of every file."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self.ledger.close()

    # indexing

    def index(self, *sources: str | os.PathLike[str], run: IndexOptions | None = None) -> IndexReport:
        """Bring the knowledge base in line with folders and files. What is not named stays as it is.

        Raises:
            LoadError: a source does not exist.
            SettingsMismatch: the knowledge base was built with other settings, and `run.rebuild` is not set.
            KnowledgeBaseLocked: another process writes to it.
            BudgetExceeded: it would cost, or has cost, more than `run.max_cost_usd`; what was embedded is kept.
            PriceUnknown: with `run.max_cost_usd`, when nobody knows what the embedder costs.
        """
        self.close()  # a damaged knowledge base is built again in its place
        return self._indexer.index(sources, run or IndexOptions())

    def remove(self, *sources: str | os.PathLike[str]) -> int:
        """Take files out, and folders with all below them; returns how many documents went.

        They come back when a folder that holds them is indexed again.
        """
        self.close()  # some stores can be open only once
        return self._indexer.remove([self._indexer.source_resolver.normalize(source) for source in sources])

    def clear(self) -> None:
        """Take everything out: files, chunks and vectors. The directory stays a knowledge base, an empty one."""
        self.close()
        self._indexer.clear()

    def verify(self, *, repair: bool = False) -> VerificationReport:
        """Read everything and say what is wrong; with `repair`, make again what is."""
        self.close()
        derived = self._components.external_store(self.path)
        found = verify(self.path, Bm25Index, derived)
        if found.is_sound or not repair:
            return found
        if derived is not None and all(problem.part == "store" for problem in found.problems):
            done = self._indexer.refill_store(derived)
            return replace(verify(self.path, Bm25Index, derived), repaired=done)
        with self._metered("verify"):
            done = self._indexer.rebuild(found.problems[0].part, found.problems[0].message)
        return replace(verify(self.path, Bm25Index, derived), repaired=done)

    def copy(self, run: CopyOptions | None = None) -> CopyReport:
        """Bring everything into the vector store that the pipeline names, and make it the store from now on.

        Nothing is embedded: vectors come from the catalog. A run that was cut off is taken up where it stopped. The
        store is recorded only after it was held against the catalog and found the same.

        Raises:
            NotAKnowledgeBase, KnowledgeBaseDamaged, KnowledgeBaseLocked.
            StoreError: the store cannot be reached, or holds documents of somebody else (`CopyOptions.overwrite`).
        """
        self.close()
        return copy_to_store(self.path, self._components, run or CopyOptions())

    @property
    def reader(self) -> CatalogReader:
        """The open read side. Threads that ask for it first at the same time get the same."""
        with self._reader_lock:
            if self._reader is None:
                self._reader = CatalogReader(self.path, Bm25Index, self._components.external_store(self.path))
            return self._reader

    def search(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Hit]:
        """The chunks that speak of a question, best first.

        Args:
            question: in plain words.
            top_k: how many, at least 1; None: as the pipeline says.
            where: a filter in the one filter language.
            mode: `dense`, `lexical` or `hybrid`; None: as the pipeline says.

        Raises:
            NotAKnowledgeBase, KnowledgeBaseDamaged, InvalidFilter.
        """
        with self._metered("search"), self.reader.snapshot() as view:
            self._check_view(view)
            return self._components.create_retriever(view, mode).retrieve(question, top_k, where)

    def explain(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Explanation]:
        """The same as `search`, each hit with the reasons for its place."""
        with self._metered("search"), self.reader.snapshot() as view:
            self._check_view(view)
            return self._components.create_retriever(view, mode).explain(question, top_k, where)

    def _metered(self, verb: str) -> AbstractContextManager[object]:
        """Have the calls of a block written to the ledger, unless the run that it belongs to does that already."""
        meter = current_meter()
        if meter is not None and meter.has_call_listener:
            return nullcontext()
        return use_meter(self.create_meter(verb))

    def agent(
        self, model: str | None = None, max_cost_usd: float | None = None, memory: ConversationMemory | None = None
    ) -> RAGAgent:
        """The agent that answers from this knowledge base, for use beside other agents or with other tools.

        Args:
            model: `provider:model`; None: as the pipeline says.
            max_cost_usd: what one answer may cost; None: as the pipeline says.
            memory: the conversation that it keeps, if any.
        """
        answer = self.pipeline.answer
        provider = resolve_answer_provider(model or answer.provider, self)
        limit = answer.max_cost_usd if max_cost_usd is None else max_cost_usd
        costs = provider.remote or embedding_cost(self._components.embedder, 1) != 0
        limits = Limits(max_cost_usd=limit) if costs else Limits()
        config = AgentConfig(
            model=model_name(model or answer.provider),
            max_iterations=answer.max_iterations,
            limits=limits,
            prices=PriceBook.from_price_files() if costs else PriceBook(),
            on_call=self.ledger.call_recorder("ask" if memory is None else "chat", self.pipeline.name),
            # a model that calls tools by itself has no need to write calls into its text, as documents may do
            text_tool_calls=not provider.native_tools,
        )
        return RAGAgent(self, provider, config, RAGOptions(self.top_k), memory)

    def ask(
        self,
        question: str,
        *,
        model: str | None = None,
        max_cost_usd: float | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Answer:
        """A cited answer. Without a model's key it is made of sentences of the documents.

        Args:
            question: in plain words.
            model: `provider:model`; None: as the pipeline says.
            max_cost_usd: stop before more is spent; None: as the pipeline says.
            on_text: called with each piece of the answer as it comes.

        Raises:
            NotAKnowledgeBase, KnowledgeBaseDamaged, ProviderError, BudgetExceeded, PriceUnknown, RunError.
        """
        self.require_ready()
        agent = self.agent(model, max_cost_usd)
        self.check_budget(agent, question, known=max_cost_usd is not None)
        return agent.ask(question, on_text=on_text)

    def estimate_cost(self, agent: RAGAgent, question: str) -> float | None:
        """US dollars that one answer of `agent` is likely to cost; None: a price is unknown."""
        chat = estimate_answer_cost(agent, question, self.top_k, agent.memory)
        search = embedding_cost(self._components.embedder, estimate_tokens(question) + CALIBRATION_TOKENS)
        return None if chat is None or search is None else chat + search

    def check_budget(self, agent: RAGAgent, question: str, *, known: bool = False) -> None:
        """Look before an answer begins: is it likely to cost more than is left?

        Looked at are the limit of the agent and the budgets of the meters around this call.

        Args:
            agent: from `agent` or `chat`.
            question: what it is going to be asked.
            known: refuse when a price is unknown, so that nobody can say.

        Raises:
            BudgetTooSmall: it is.
            PriceUnknown: with `known`.
        """
        meter = current_meter()
        limits = (agent.config.limits.max_cost_usd, meter.remaining_usd if meter is not None else None)
        budget = min((limit for limit in limits if limit is not None), default=None)
        if budget is not None:
            check_estimate(agent_model_name(agent), self.estimate_cost(agent, question), budget, known=known)

    def chat(self, *, model: str | None = None, max_cost_usd: float | None = None) -> RAGAgent:
        """An agent that keeps the conversation: ask it one question after the other."""
        self.require_ready()
        return self.agent(model, max_cost_usd, ConversationMemory())

    def chunks(self) -> Iterator[Chunk]:
        """Every chunk, by source and place in it."""
        with self.reader.snapshot() as view:
            yield from view.iter_chunks()

    def documents(self) -> list[tuple[str, str, int]]:
        """(source, title, number of chunks) of every document, by source."""
        with self.reader.snapshot() as view:
            return list(view.iter_documents())

    def document(self, source: str) -> Document | None:
        """The document of a source, with the text that was indexed; None when there is none."""
        with self.reader.snapshot() as view:
            return view.document(source)

    def chunk(self, chunk_id: str) -> Chunk | None:
        """The chunk with this id; None when there is none."""
        with self.reader.snapshot() as view:
            return view.find_chunk(chunk_id)

    def document_rows(self, after: str = "", limit: int = 50, text: str = "") -> list[DocumentSummary]:
        """The next `limit` documents behind the source `after`; with `text` those that have it in source or title."""
        with self.reader.snapshot() as view:
            return view.list_documents(after, limit, text)

    def find_document(self, document_id: str) -> Document | None:
        """The document with this id, with the text that was indexed; None when there is none."""
        with self.reader.snapshot() as view:
            return view.find_document(document_id)

    def failures(self) -> list[FileRow]:
        """The files that could not be indexed, by source."""
        with self.reader.snapshot() as view:
            return [row for row in Catalog(view.connection).files().values() if row.status == "failed"]

    def status(self) -> KnowledgeBaseStatus:
        """What is in it."""
        with self.reader.snapshot() as view:
            catalog = Catalog(view.connection)
            files = catalog.files().values()
            failed = [FileFailure(row.source, row.reason, row.hint) for row in files if row.status == "failed"]
            return KnowledgeBaseStatus(
                kb=str(self.path),
                pipeline=self.pipeline.name,
                generation=catalog.generation(),
                files=sum(row.status == "indexed" for row in files),
                failed=len(failed),
                documents=sum(1 for _ in view.iter_documents()),
                chunks=len(view.arrays.chunk_keys),
                vectors=len(view.arrays.matrix),
                bytes=sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file()),
                sources=tuple(catalog.roots()),
                settings=asdict(read_build_fingerprint(catalog, self.path)),
                stale=sum(row.status == "indexed" and self._is_changed(row) for row in files),
                store=self.pipeline.store.name,
                failures=tuple(failed[:MAX_LISTED_FAILURES]),
            )

    def freshness(self, seconds: float = CHECK_TIMEOUT_S) -> Freshness:
        """Whether the sources are as they were at the last index run, by a look at the folders.

        Files are read only where their times do not tell. A look that takes longer than `seconds` stops there and
        says that it is not complete.
        """
        derived = self.reader.external_store
        with self.reader.snapshot() as view:
            catalog = Catalog(view.connection)
            behind = derived is not None and not derived.is_current(catalog)
            found = self._indexer.check_freshness(catalog, seconds)
        return replace(found, outdated_store=self.pipeline.store.name if behind else "")

    def require_ready(self) -> None:
        """Raises before a run begins what a search in it would raise: NotAKnowledgeBase, Damaged, SettingsMismatch."""
        with self.reader.snapshot() as view:
            self._check_view(view)

    def _check_view(self, view: CatalogSnapshot) -> None:
        """Is there something to search, and by the embedder that the vectors are from?

        The latter is asked once, and only where asking costs nothing.
        """
        if not len(view.arrays.chunk_keys):
            raise NotAKnowledgeBase(str(self.path), "holds no documents", "fill it with `ragkit index FOLDER`")
        embedder = self._components.embedder
        if not self._weights_checked and isinstance(embedder, ProbingEmbedder):
            row = Catalog(view.connection).embedder(embedder.fingerprint)
            if row is not None and row.probe is not None:
                check_embedder_weights(str(self.path), row.probe, embedder.probe())
        self._weights_checked = True

    # what answering and serving ask for

    @property
    def top_k(self) -> int:
        """How many hits a search gives when nobody says."""
        return self._components.top_k

    @property
    def embedder_name(self) -> str:
        """`provider:model` of the embedder, or its fingerprint."""
        return embedder_name(self._components.embedder)

    def create_meter(self, verb: str) -> Meter:
        """A meter whose calls are written to the ledger under `verb`."""
        return Meter(on_call=self.ledger.call_recorder(verb, self.pipeline.name))

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """How rare each term is among the chunks: (len(terms),)."""
        with self.reader.snapshot() as view:
            return Bm25Index(view.connection).idf(terms)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit rows of some texts: (len(texts), dimension)."""
        return self._components.embedder.embed_texts(texts)

    def embed_question(self, question: str) -> NDArray[np.float32]:
        """The unit row of a question: (dimension,)."""
        return self._components.embedder.embed_query(question)

    def is_stale(self, source: str) -> bool:
        """Whether the file on disk is not the one that was indexed, or is gone."""
        with self.reader.snapshot() as view:
            row = Catalog(view.connection).file(source)
        return row is None or self._is_changed(row)

    def _is_changed(self, row: FileRow) -> bool:
        path = self._indexer.source_resolver.resolve_path(row.source)
        try:
            stat = FileStat.from_stat(path.stat())
            if (stat.size, stat.mtime_ns, stat.ctime_ns, stat.inode) == (
                row.size,
                row.mtime_ns,
                row.ctime_ns,
                row.inode,
            ):
                return False
            return stat.size != row.size or self._indexer.hash_file(path) != row.content_hash
        except (OSError, LoadError):
            return True

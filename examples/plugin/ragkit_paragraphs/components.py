"""A loader, a splitter, an embedder, a vector store, a retriever, a reranker, a provider and a runner.

The constructor of a component takes its options, a frozen dataclass; pipeline files are validated against it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ragkit import Document, EmbeddingProvider, Hit, InvalidOption, Message, Provider, Role, SearchResult, VectorStore
from ragkit.agent.providers.base import Completion, ModelRequest
from ragkit.embed.base import Row, Rows, normalize_rows
from ragkit.index.build_runner import PendingEmbedding, PreparedFile
from ragkit.index.plan import FileTask
from ragkit.load.process.parsing import ParseFailure, ParseTask
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.run.index_worker import IndexWorker
from ragkit.records import Heading, Where
from ragkit.retrieve.base import Explanation, RetrieverDependencies
from ragkit.retrieve.explanations import explain_ranking
from ragkit.retrieve.options import RerankOptions
from ragkit.split.base import CharSpan, TokenStartsFunction
from ragkit.store.base import Filter, validate_documents, validate_ids, validate_query, validate_rows, validate_top_k
from ragkit.store.filters.language import evaluate, parse_filter


@dataclass(frozen=True)
class WikiOptions:
    """The markup of a wiki page."""

    bold: str = "'''"
    """The marks around bold words; they are removed."""


class WikiLoader:
    """Reads pages that start with `= Title =`."""

    version = "1"

    def __init__(self, options: WikiOptions) -> None:
        self._options = options

    def load(self, data: bytes, source: str) -> Document:
        """Parse a page and remove its marks."""
        text = data.decode("utf-8").replace(self._options.bold, "")
        title = text.partition("\n")[0].strip("= ")
        return Document(text, {"format": "wiki"}, source=source, title=title, format="wiki")


@dataclass(frozen=True)
class ParagraphOptions:
    """The limits of a paragraph."""

    blank_lines: int = 1
    """Number of blank lines between two paragraphs, >= 1."""
    short: Literal["keep", "join"] = "keep"
    """`join` appends the next paragraph to a paragraph of one word, such as a heading."""

    def __post_init__(self) -> None:
        if self.blank_lines < 1:
            raise InvalidOption("blank_lines", self.blank_lines, ">= 1")


class ParagraphSplitter:
    """One chunk per paragraph."""

    max_chunk_tokens = None
    """No limit."""

    def __init__(self, options: ParagraphOptions) -> None:
        self._options = options

    def spans(self, document: Document, token_starts: TokenStartsFunction, reserve: int = 0) -> Sequence[CharSpan]:
        """The paragraphs, without the white space around them."""
        text = document.text
        blank = re.compile(rf"\n(?:[ \t]*\n){{{self._options.blank_lines},}}")
        spans: list[CharSpan] = []
        start = 0
        for end in [*(match.end() for match in blank.finditer(text)), len(text)]:
            paragraph = text[start:end]
            words = len(paragraph.split())
            if words == 1 and self._options.short == "join" and end < len(text):
                continue
            if words:
                spans.append((end - len(paragraph.lstrip()), start + len(paragraph.rstrip())))
            start = end
        return spans


class LetterEmbedder:
    """Counts the letters a to z; the first number is 1, so that no vector is zero."""

    dimension = 27
    fingerprint = "letters-1"

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """(len(texts), 27)."""
        counts = [[1, *(text.lower().count(chr(97 + letter)) for letter in range(26))] for text in texts]
        return normalize_rows(np.array(counts, np.float32).reshape(-1, self.dimension))

    def embed_query(self, text: str) -> Row:
        """(27,)."""
        return np.asarray(self.embed_texts([text])[0], np.float32)


@dataclass(frozen=True)
class JsonFileOptions:
    """The location of the store."""

    path: str = ""
    """The file; empty: in the directory of the knowledge base."""


class JsonFileStore(VectorStore):
    """Keeps everything in one JSON file, which is written after every change. For a few documents."""

    persistent = True

    def __init__(self, options: JsonFileOptions) -> None:
        self._path = Path(options.path)
        self._rows: dict[str, tuple[Document, Rows]] = {}
        for fields, row in json.loads(self._path.read_text("utf-8")) if self._path.exists() else []:
            headings = tuple(Heading(**heading) for heading in fields.pop("headings"))
            own = {"page_starts": tuple(fields["page_starts"]), "headings": headings, "places": (), "parts": ()}
            document = Document(**{**fields, **own})
            self._rows[document.id] = (document, np.array(row, np.float32))

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """Add documents; an existing id is replaced."""
        rows, plain = validate_rows(embeddings, len(documents), self._dimension()), validate_documents(documents)
        self._rows |= {document.id: (document, row) for document, row in zip(plain, rows, strict=True)}
        self._write()
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """The nearest documents that match the filter, best first."""
        query, condition = validate_query(query_embedding, self._dimension()), parse_filter(filter)
        validate_top_k(top_k)
        found = [
            SearchResult(document, float(row @ query))
            for document, row in self._rows.values()
            if evaluate(condition, document.metadata)
        ]
        return sorted(found, key=lambda result: (-result.score, result.document.id))[:top_k]

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents; returns the number of deleted documents."""
        removed = [self._rows.pop(document_id, None) for document_id in validate_ids(ids)]
        self._write()
        return sum(document is not None for document in removed)

    def clear(self) -> None:
        """Delete all documents."""
        self._rows.clear()
        self._write()

    def count(self) -> int:
        """The number of documents."""
        return len(self._rows)

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """Every (id, document, vector), ordered by id."""
        for document_id in sorted(self._rows):
            yield document_id, *self._rows[document_id]

    def _dimension(self) -> int | None:
        return next((len(row) for _, row in self._rows.values()), None)

    def _write(self) -> None:
        rows = [
            ({**asdict(document), "metadata": dict(document.metadata)}, row.tolist())
            for document, row in self._rows.values()
        ]
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(rows), "utf-8")
        temporary.replace(self._path)  # a process that is killed leaves the old file or the new one


@dataclass(frozen=True)
class TitleOptions:
    """The number of hits."""

    top_k: int = 3
    """Maximum number of hits."""


class TitleRetriever:
    """The chunks nearest to the question, ordered by title."""

    def __init__(self, options: TitleOptions, dependencies: RetrieverDependencies) -> None:
        self._options, self._dependencies = options, dependencies

    def retrieve(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The hits."""
        return [explanation.hit for explanation in self.explain(question, top_k, where)]

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The hits with their scores."""
        index = self._dependencies.chunk_index
        query = self._dependencies.embedder.embed_query(question)
        found = index.search_dense(query, top_k or self._options.top_k, where)
        chunks = index.chunks([key for key, _ in found])
        titles = {key: chunk.title for (key, _), chunk in zip(found, chunks, strict=True)}
        return explain_ranking("dense", sorted(found, key=lambda pair: titles[pair[0]]), index)


class ShortFirstReranker:
    """Prefers short passages."""

    weight = 0.5
    diversity = 0.0

    def __init__(self, options: RerankOptions, embedder: EmbeddingProvider) -> None:
        """Uses neither the options nor the embedder."""

    def scores(self, question: str, hits: Sequence[Hit]) -> NDArray[np.float64]:
        """(len(hits),); higher is better."""
        return np.array([1000 / (1000 + len(hit.chunk.text)) for hit in hits])


class ParrotProvider(Provider):
    """Repeats the last message of the user."""

    name = "parrot"
    native_tools = False

    def complete(self, request: ModelRequest) -> Completion:
        """The last message of the user."""
        last = next(message for message in reversed(request.messages) if message.role is Role.USER)
        return Completion(Message.assistant(last.content))


@dataclass(frozen=True)
class SequentialOptions:
    """The parsers of a build."""

    parsers: int = 1
    """Number of files that are parsed at the same time, >= 1."""


class SequentialRunner:
    """Splits and embeds in the process that indexes, one file after the other."""

    max_parallel_batches = 1

    def __init__(self, options: SequentialOptions, components: PipelineComponents) -> None:
        self._worker = IndexWorker(components, options.parsers)

    def prepare_files(self, work: Sequence[FileTask]) -> Iterator[tuple[FileTask, PreparedFile | ParseFailure]]:
        """The result for each file, in order."""
        tasks = (ParseTask(task.path, task.source, task.stat) for task in work)
        yield from zip(work, self._worker.prepare(tasks), strict=True)

    def start_embedding(self, texts: Sequence[str]) -> PendingEmbedding:
        """Embed texts when the result is requested."""
        return lambda: self._worker.embed(texts)

    def __enter__(self) -> SequentialRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.close()

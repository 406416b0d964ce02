"""The other four kinds of components: a loader, a store, a retriever and a provider."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragkit.agent.messages import Message, Role
from ragkit.agent.providers.base import Completion, ModelRequest, Provider
from ragkit.records import Document, Hit, SearchResult
from ragkit.retrieve.base import Explanation, RetrieverDependencies, Where
from ragkit.retrieve.explanations import explain_ranking
from ragkit.store.base import Filter, Rows, validate_documents, validate_query, validate_rows, validate_top_k
from ragkit.store.filters.language import evaluate, parse_filter
from ragkit.store.vector_store import VectorStore


@dataclass(frozen=True)
class WikiOptions:
    """How a wiki page is read."""

    bold: str = "'''"
    """What stands around bold words; it is taken out."""


class WikiLoader:
    """`= Title =` and then text."""

    version = "1"

    def __init__(self, options: WikiOptions) -> None:
        self._options = options

    def load(self, data: bytes, source: str) -> Document:
        """The page, without its marks."""
        text = data.decode("utf-8").replace(self._options.bold, "")
        title = text.partition("\n")[0].strip("= ")
        return Document(text, {"format": "wiki"}, source=source, title=title, format="wiki")


@dataclass(frozen=True)
class JsonFileOptions:
    """Where the store lies."""

    path: str = ""
    """The file; empty: in the knowledge base."""


class JsonFileStore(VectorStore):
    """Everything in one JSON file, which is written after every change. For a few documents."""

    persistent = True

    def __init__(self, options: JsonFileOptions) -> None:
        self._path = Path(options.path)
        self._held: dict[str, tuple[Document, Rows]] = {}
        for fields, row in json.loads(self._path.read_text()) if self._path.exists() else []:
            self._held[fields["id"]] = (Document(**fields), np.array(row, np.float32))

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """Put documents in; an id that exists is replaced."""
        rows = validate_rows(embeddings, len(documents), None)
        plain = validate_documents(documents)
        self._held |= {document.id: (document, row) for document, row in zip(plain, rows, strict=True)}
        self._write()
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """The nearest, best first."""
        query, condition = validate_query(query_embedding, None), parse_filter(filter)
        found = [
            SearchResult(document, float(row @ query))
            for document, row in self._held.values()
            if evaluate(condition, document.metadata)
        ]
        return sorted(found, key=lambda one: (-one.score, one.document.id))[: validate_top_k(top_k)]

    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents; returns how many were there."""
        gone = [self._held.pop(one, None) for one in ids]
        self._write()
        return sum(one is not None for one in gone)

    def clear(self) -> None:
        """Remove all."""
        self._held.clear()
        self._write()

    def count(self) -> int:
        """How many there are."""
        return len(self._held)

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """Every one, in the order of the ids."""
        for identity in sorted(self._held):
            yield identity, *self._held[identity]

    def _write(self) -> None:
        kept = ("id", "text", "metadata", "source", "title")
        held = [({key: getattr(one, key) for key in kept}, row.tolist()) for one, row in self._held.values()]
        self._path.write_text(json.dumps(held))


@dataclass(frozen=True)
class TitleOptions:
    """How many are found."""

    top_k: int = 3
    """Hits at most."""


class TitleRetriever:
    """The chunks nearest to the question, by the alphabet of their titles."""

    def __init__(self, options: TitleOptions, parts: RetrieverDependencies) -> None:
        self._options, self._parts = options, parts

    def retrieve(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The hits."""
        return [one.hit for one in self.explain(question, top_k, where)]

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The hits with their reasons."""
        passages = self._parts.chunk_index
        query = self._parts.embedder.embed_query(question)
        found = passages.search_dense(query, top_k or self._options.top_k, where)
        titles = {
            key: chunk.title for (key, _), chunk in zip(found, passages.chunks([k for k, _ in found]), strict=True)
        }
        return explain_ranking("dense", sorted(found, key=lambda pair: titles[pair[0]]), passages)


class ParrotProvider(Provider):
    """Says what it was asked."""

    name = "parrot"
    native_tools = False

    def complete(self, request: ModelRequest) -> Completion:
        """The last thing that the user said."""
        said = [message.content for message in request.messages if message.role is Role.USER]
        return Completion(Message(Role.ASSISTANT, said[-1]))

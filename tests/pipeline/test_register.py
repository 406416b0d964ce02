"""Components that a program registers, used by name in its pipeline files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import ragkit
from ragkit.embed.hashing import HashingEmbedder
from ragkit.errors import InvalidOption, PipelineError, UnknownName
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.register import KINDS
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document, Hit
from ragkit.retrieve.base import RerankScores
from ragkit.retrieve.lexical import LexicalRetriever
from ragkit.split.base import CharSpan, TokenStartsFunction
from ragkit.store.backends.memory import MemoryStore
from ragkit.store.vector_store import VectorStore


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    for registry, _ in KINDS.values():
        registry.of_program.clear()


@dataclass(frozen=True)
class LineOptions:
    """Options of the splitter."""

    lines: int = 1
    """Lines of a chunk."""


class LineSplitter:
    max_chunk_tokens = None

    def __init__(self, options: LineOptions) -> None:
        self.options = options

    def spans(self, document: Document, token_starts: TokenStartsFunction, reserve: int = 0) -> Sequence[CharSpan]:
        starts = [0]
        for line in document.text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        starts = [*starts[:: self.options.lines], starts[-1]]
        return [(a, a + len(document.text[a:b].rstrip())) for a, b in pairwise(starts) if b > a]


class ShoutLoader:
    version = "1"

    def load(self, data: bytes, source: str) -> Document:
        return Document(data.decode().upper(), source=source)


class Embedder(HashingEmbedder):
    fingerprint = "mine"


class Store(MemoryStore):
    """Keeps its documents for the whole process."""

    kept: ClassVar[MemoryStore] = MemoryStore()

    def __init__(self) -> None:
        self.__dict__ = Store.kept.__dict__


class Newest:
    weight, diversity = 1.0, 0.0

    def __init__(self, options: object, embedder: object) -> None: ...

    def scores(self, question: str, hits: Sequence[Hit]) -> RerankScores:
        return np.array([float(hit.text.split()[0]) for hit in hits])


PIPELINE = """\
load:
  - {name: folder}
  - {name: shout, only: [.shout]}
split: {name: lines, lines: 1}
embed: {name: mine}
store: {name: shelf}
retrieve: {name: hybrid, rerank: {name: newest, candidates: 5, weight: 1}}
"""


def test_components_of_every_kind_are_used_by_name_in_a_pipeline_file(tmp_path: Path) -> None:
    for kind, name, component in (
        ("loader", "shout", ShoutLoader),
        ("splitter", "lines", LineSplitter),
        ("embedder", "mine", Embedder),
        ("store", "shelf", Store),
        ("reranker", "newest", Newest),
        ("retriever", "words", LexicalRetriever),
    ):
        ragkit.register(kind, name, component)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.shout").write_text("1 the hedge\n2 the boiler\n3 the hedge again\n")
    pipeline = Pipeline.from_yaml(PIPELINE)
    pipeline.validate()
    with KnowledgeBase.open(tmp_path / "kb", pipeline) as kb:
        report = kb.index(tmp_path / "docs")
        assert (report.failures, report.chunks["added"]) == ((), 3)
        assert [hit.text for hit in kb.search("hedge", top_k=2)] == ["3 THE HEDGE AGAIN", "2 THE BOILER"]
    words = Pipeline.from_yaml(PIPELINE.partition("retrieve")[0] + "retrieve: {name: words}\n")
    with KnowledgeBase.open(tmp_path / "kb", words) as kb:
        assert len(kb.search("hedge")) == 2
    assert isinstance(VectorStore.create("shelf"), Store)


def test_what_a_class_lacks_is_said_when_it_is_registered() -> None:
    with pytest.raises(InvalidOption, match="a complete splitter: the splitter 'lines' lacks the method spans"):
        ragkit.register("splitter", "lines", dict)
    with pytest.raises(InvalidOption, match=r"lacks the method add_documents, .*the method scan"):
        ragkit.register("store", "shelf", dict)


def test_a_store_needs_the_methods_that_its_base_class_only_announces() -> None:
    class FourMethods(VectorStore):
        add_documents = search = delete = clear = lambda self, *_: None  # type: ignore[assignment]

    with pytest.raises(InvalidOption, match="lacks the method count, the method scan"):
        ragkit.register("store", "shelf", FourMethods)


def test_a_built_in_name_cannot_be_replaced() -> None:
    with pytest.raises(InvalidOption, match="name must be a name that is not built in"):
        ragkit.register("store", "sqlite", Store)


def test_an_unknown_kind_is_met_with_the_nearest_one() -> None:
    with pytest.raises(UnknownName, match="did you mean 'store'"):
        ragkit.register("stores", "shelf", Store)


def test_an_object_in_place_of_a_class_is_refused() -> None:
    with pytest.raises(InvalidOption, match="component must be a class"):
        ragkit.register("store", "shelf", Store())  # type: ignore[arg-type]


def test_a_name_that_was_not_registered_is_unknown_in_a_pipeline_file() -> None:
    with pytest.raises(PipelineError, match="unknown store 'shelf'; available: chroma"):
        Pipeline.from_yaml("store: {name: shelf}\n")

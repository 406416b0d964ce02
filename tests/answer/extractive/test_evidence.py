"""The probability that the passages contain an answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ragkit.answer.extractive.evidence import EVIDENCE_THRESHOLD, MAX_PASSAGES, estimate_evidence
from ragkit.embed.base import EmbeddingProvider
from ragkit.embed.hashing import HashingEmbedder
from ragkit.embed.minilm import MiniLM
from ragkit.embed.options import HashingOptions
from ragkit.records import Chunk, Hit, SearchMode, Where
from ragkit.retrieve.base import Retriever, RetrieverDependencies
from ragkit.retrieve.hybrid import HybridRetriever
from ragkit.retrieve.in_memory_index import InMemoryChunkIndex
from ragkit.retrieve.lexical import LexicalRetriever
from ragkit.retrieve.options import HybridOptions, LexicalOptions
from tests.answer.hits import hit
from tests.answer.passages import Shelf

HANDBOOK = (
    "Every full-time employee has 27 working days of paid leave in a calendar year. Part-time staff have the same in "
    "proportion. Up to five unused days may be carried into the next year, and must be taken by 31 March.",
    "Claims for travel expenses must arrive within 30 days of the end of the journey. A private car is paid with 36 "
    "cents per kilometre, and only if the journey could not be made by train.",
    "The generator starts by itself when the mains fail. With a full tank it runs for 38 hours at full load. The tank "
    "is filled by the caretaker, Jon Bratte, before the first snow.",
    "`parse_row(line)` returns the cells of a row, or None for an empty line. It raises RowError when a quote is open.",
    "Pricing: the basic plan costs 12 euros a month, the team plan 40 euros. Both can be cancelled at any time.",
)
ANSWERABLE = (
    "How many days of holiday do full-time employees get?",
    "What is paid per kilometre for a private car?",
    "How long does the generator run on a full tank?",
    "Who fills the tank of the generator?",
    "What does parse_row return for an empty line?",
    "pricing?",
    "Until when can I take unused days of leave?",
    "When do I have to hand in my travel claims?",
)
OFF_TOPIC = (
    "Who won the world cup in 1998?",
    "Which yeast is best for a sourdough starter?",
    "How do I prune an apple tree in winter?",
    "What is the capital of Mongolia?",
    "When did the Ottoman Empire end?",
    "What is the boiling point of ethanol?",
    "What does open_socket return?",
    "visa?",
)
GERMAN = (
    "Jeder Vollzeitbeschäftigte hat 27 Arbeitstage bezahlten Urlaub im Kalenderjahr.",
    "Der Notstromgenerator läuft mit vollem Tank 38 Stunden unter Volllast.",
)


class Library(Shelf):
    """A Searcher over a few passages, with the components of a knowledge base."""

    def __init__(self, texts: Sequence[str], mode: str = "hybrid", *, hashing: bool = False) -> None:
        super().__init__({})
        chunks: list[Chunk] = [hit(text, source=f"/{place}.txt").chunk for place, text in enumerate(texts)]
        self._model: EmbeddingProvider = HashingEmbedder(HashingOptions(dimension=512)) if hashing else MiniLM()
        self._passages = InMemoryChunkIndex(chunks, self._model.embed_texts(texts))
        parts = RetrieverDependencies(self._passages, self._model)
        self._retriever: Retriever = HybridRetriever(HybridOptions(), parts)
        if mode == "lexical":
            self._retriever = LexicalRetriever(LexicalOptions(), parts)

    def likely(self, question: str) -> float:
        return estimate_evidence(question, self.search(question, MAX_PASSAGES), self)

    def search(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Hit]:
        return self._retriever.retrieve(question, top_k, where)

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        return self._passages._bm25_index.idf(terms)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._model.embed_texts(texts)

    def embed_question(self, question: str) -> NDArray[np.float32]:
        return self._model.embed_query(question)


@pytest.fixture(scope="module")
def handbook() -> Library:
    return Library(HANDBOOK)


@pytest.mark.parametrize("question", ANSWERABLE)
def test_a_question_that_a_passage_answers_is_not_refused(handbook: Library, question: str) -> None:
    assert handbook.likely(question) >= EVIDENCE_THRESHOLD


@pytest.mark.parametrize("question", OFF_TOPIC)
def test_a_question_about_something_else_is_refused(handbook: Library, question: str) -> None:
    assert handbook.likely(question) < EVIDENCE_THRESHOLD


@pytest.mark.parametrize(("mode", "hashing"), [("lexical", False), ("hybrid", True)])
def test_without_meanings_the_words_decide(mode: str, hashing: bool) -> None:
    library = Library(HANDBOOK, mode, hashing=hashing)
    assert library.likely("How long does the generator run on a full tank?") >= EVIDENCE_THRESHOLD
    assert library.likely("What does parse_row return for an empty line?") >= EVIDENCE_THRESHOLD
    assert library.likely("pricing?") >= EVIDENCE_THRESHOLD
    assert max(library.likely(question) for question in OFF_TOPIC) < EVIDENCE_THRESHOLD


def test_documents_and_questions_may_be_in_another_language() -> None:
    library = Library(GERMAN)
    assert library.likely("Wie lange läuft der Notstromgenerator mit vollem Tank?") >= EVIDENCE_THRESHOLD
    assert library.likely("Wie heißt die Hauptstadt der Mongolei?") < EVIDENCE_THRESHOLD


def test_a_knowledge_base_of_one_passage_answers_too() -> None:
    library = Library(HANDBOOK[2:3])
    assert library.likely("How long does the generator run?") >= EVIDENCE_THRESHOLD
    assert library.likely("Who won the world cup in 1998?") < EVIDENCE_THRESHOLD


def test_without_passages_there_is_no_evidence() -> None:
    assert estimate_evidence("How long?", [], Shelf({})) == 0


def test_a_question_without_words_is_refused(handbook: Library) -> None:
    assert handbook.likely("?!") < EVIDENCE_THRESHOLD


def test_the_likeliest_passage_decides_and_those_far_down_do_not_count() -> None:
    shelf = Shelf({"/a.txt": HANDBOOK[2]})
    question = "How long does the generator run on a full tank?"
    answer, other = hit(HANDBOOK[2], bm25=4), hit(HANDBOOK[4], source="/b.txt", bm25=5)
    alone = estimate_evidence(question, [answer], shelf)
    assert estimate_evidence(question, [other, answer], shelf) == pytest.approx(alone)
    assert (
        estimate_evidence(question, [*[other] * MAX_PASSAGES, answer], shelf)
        == estimate_evidence(question, [other], shelf)
        < alone
    )


def test_evidence_grows_with_the_cosine() -> None:
    library = Library(HANDBOOK)
    question = "How many days of holiday are there?"
    result = [
        estimate_evidence(question, [hit(HANDBOOK[0], dense=cosine)], library) for cosine in (0.0, 0.2, 0.4, 0.6, 0.8)
    ]
    assert result == sorted(result)
    assert (result[0] < 0.1, result[-1] > 0.9) == (True, True)


def test_names_missing_from_every_passage_lower_the_evidence() -> None:
    library = Library(HANDBOOK)
    passage: list[Hit] = [hit(HANDBOOK[2], dense=0.45)]
    known = estimate_evidence("Who is the caretaker Jon Bratte?", passage, library)
    unknown = estimate_evidence("Who is the caretaker Ada Quill?", passage, library)
    assert known > unknown

"""Misspelled words of a question, corrected by the terms of the index."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ragkit.answer.agent import RAGAgent
from ragkit.answer.extractive.spelling import MIN_LETTERS, correct_spelling
from ragkit.embed.minilm import common_words
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.knowledge_base.session import Session
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Document
from tests.answer.passages import Shelf

DATA = Path(__file__).parents[3] / "data"
QUESTIONS = [
    json.loads(line)["question"] for line in (DATA / "questions.jsonl").read_text("utf-8").splitlines() if line.strip()
]
PIPELINE = "embed: {name: hashing, dimension: 64}\n"


class Terms(Shelf):
    """A searcher that knows terms, each with the number of its chunks."""

    def __init__(self, **chunks: int) -> None:
        super().__init__({})
        self.chunks = {term: count for word, count in chunks.items() for term in extract_terms(word)}

    def missing_terms(self, terms: Sequence[str]) -> list[str]:
        return [term for term in terms if term not in self.chunks]

    def find_terms(self, prefixes: Sequence[str]) -> dict[str, int]:
        return {term: count for term, count in self.chunks.items() if term.startswith(tuple(prefixes))}


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    """The sample folder, without a model."""
    folder = tmp_path_factory.mktemp("sample")
    (folder / "ragkit.yaml").write_text(PIPELINE)
    with KnowledgeBase.open(folder / "kb", folder / "ragkit.yaml") as kb:
        kb.index(DATA / "sample")
        yield kb


@pytest.fixture(scope="module")
def sample(kb: KnowledgeBase) -> Iterator[Session]:
    with kb.session() as session:
        yield session


@pytest.mark.parametrize(
    ("question", "corrected"),
    [
        ("What is Dynmo?", "What is Dynamo?"),  # a letter is missing
        ("What is Dynnamo?", "What is Dynamo?"),  # a letter is doubled
        ("What is Dyanmo?", "What is Dynamo?"),  # two letters are swapped
        ("What is Dynamp's port?", "What is Dynamp's port?"),  # dynamp may be a name: dynamo and dynamic are as near
        ("who is responsbile for it", "who is responsible for it"),
        ("where is the configruatoin", "where is the configuration"),  # two edits of a long word
        ("How do I (re)start mecached?", "How do I (re)start memcached?"),  # no word of a dictionary
    ],
)
def test_a_misspelled_word_is_corrected(question: str, corrected: str) -> None:
    words = Terms(dynamo=9, responsible=5, configuration=40, memcached=12, port=3)
    if "Dynamp" in question:
        words.chunks["dynam"] = 9  # dynamic
    assert correct_spelling(question, words) == corrected


@pytest.mark.parametrize(
    "question",
    [
        "What is dynmo.conf?",
        "What does --dynmo do?",
        "What is dyn_mo or dynMo or DYNMO?",
        'What is "Dynmo"?',
        "What is `dynmo`?",
        "What is dynm0?",
        "Where is port 8081?",
        "Was ist ein Dynmo?",
        "Qu'est-ce que la dynmo ?",
        "What is dyn?",
        "Is it a dynamite?",  # a word of a dictionary
        "",
    ],
)
def test_identifiers_numbers_quotes_and_other_words_stay(question: str) -> None:
    assert correct_spelling(question, Terms(dynamo=9, port=3)) == question


def test_a_word_of_the_documents_is_never_corrected() -> None:
    assert correct_spelling("What is Dynmo?", Terms(dynamo=900, dynmo=1)) == "What is Dynmo?"


def test_a_term_that_is_rare_or_has_an_equal_rival_is_not_meant() -> None:
    assert correct_spelling("What is Dynmo?", Terms(dynamo=1)) == "What is Dynmo?"
    assert correct_spelling("Which graet is it?", Terms(great=9, grate=8)) == "Which graet is it?"
    # football is as near as foodball's neighbour of the documents, and in no document
    assert correct_spelling("Who likes foodball?", Terms(woodball=9)) == "Who likes foodball?"


def test_the_questions_of_the_sample_stay(sample: Session) -> None:
    assert [question for question in QUESTIONS if correct_spelling(question, sample) != question] == []


def test_typos_made_by_program_are_corrected_and_the_rest_of_the_question_stays(sample: Session) -> None:
    rng = random.Random(5)
    outcomes: list[str] = []
    for question in rng.sample(QUESTIONS, len(QUESTIONS)):
        candidates = [
            word for word in re.findall(r"(?<!\S)[a-z]{6,}(?=[?]?(?:\s|$))", question) if _is_frequent(word, sample)
        ]
        if candidates and len(outcomes) < 30:
            word = rng.choice(candidates)
            wrong = question.replace(word, _misspell(word, rng), 1)
            found = correct_spelling(wrong, sample)
            outcomes.append("corrected" if found == question else "left" if found == wrong else found)
    assert len(outcomes) == 30
    assert outcomes.count("corrected") >= 24
    assert set(outcomes) <= {"corrected", "left"}


def test_the_answer_says_what_was_searched(kb: KnowledgeBase) -> None:
    answer = kb.ask("How many days of holidya does an employee get?")
    assert answer.searched_for == "How many days of holiday does an employee get?"
    assert answer.to_json()["searched_for"] == answer.searched_for
    assert answer.question == "How many days of holidya does an employee get?"
    assert "holiday does" in str(answer.trace.tool_calls)
    assert kb.ask("How many days of holiday does an employee get?").searched_for == ""


def test_a_searcher_in_memory_corrects_too() -> None:
    texts = [f"The Dynamo of mill {n} has a brass wheel." for n in range(3)]
    agent = RAGAgent.from_documents([Document(text) for text in texts])
    assert agent.ask("Which wheel has the Dyanmo?").searched_for == "Which wheel has the Dynamo?"


def _is_frequent(word: str, session: Session) -> bool:
    """Whether a word is in the dictionary and in at least three chunks."""
    [term] = extract_terms(word)[:1]
    return len(word) > MIN_LETTERS and word in common_words() and session.find_terms([term]).get(term, 0) >= 3


def _misspell(word: str, rng: random.Random) -> str:
    """The word with two letters swapped, or one dropped or doubled; no other word of the dictionary."""
    while True:
        i = rng.randrange(1, len(word) - 1)
        swapped = word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        wrong = rng.choice([swapped, word[:i] + word[i + 1 :], word[:i] + word[i] + word[i:]])
        if wrong != word and wrong not in common_words():
            return wrong

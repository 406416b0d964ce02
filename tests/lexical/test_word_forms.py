"""Terms of questions in other languages than English: forms by the stem, and no change for English."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ragkit.lexical.analyzer import extract_terms
from ragkit.lexical.languages import detect_question_language
from ragkit.lexical.word_forms import FORM_WEIGHT, MAX_FORMS, question_terms
from ragkit.records import Chunk
from ragkit.retrieve.in_memory_index import InMemoryChunkIndex


class Terms:
    """An index with these terms, which counts its look-ups."""

    def __init__(self, *words: str) -> None:
        self.counts = {term: 1 for word in words for term in extract_terms(word)}
        self.searches = 0

    def find(self, prefixes: Sequence[str]) -> dict[str, int]:
        self.searches += 1
        return {term: n for term, n in self.counts.items() if term.startswith(tuple(prefixes))}


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Wie viele Urlaubstage stehen mir zu?", "German"),
        ("Ab wann ist man volljährig?", "German"),
        ("Quelle est la durée du préavis ?", "French"),
        ("¿Cuándo se termina el contrato?", "Spanish"),
        ("Wanneer moet de huurder betalen?", "Dutch"),
        ("När ska hyran betalas?", "Swedish"),
        ("When did the emperor die?", ""),
        ("Who was Ernst Mach?", ""),
        ("list all documents", ""),
        ("Kündigungsfrist", ""),
        ("", ""),
    ],
)
def test_the_language_of_a_question_is_detected_by_its_frequent_words(question: str, language: str) -> None:
    assert detect_question_language(question) == language


@pytest.mark.parametrize(
    ("question", "word", "form"),
    [
        ("Ab wann ist man volljährig?", "volljährig", "Volljährigkeit"),
        ("Wie lange kann ich einen Kauf widerrufen?", "widerrufen", "Widerruf"),
        ("¿Quién es contratado por el municipio?", "contratado", "contratar"),
        ("Quando sono nulli i contratti?", "contratti", "contratto"),
        ("När ska lägenheter besiktigas?", "lägenheter", "lägenheten"),
    ],
)
def test_a_form_with_the_same_stem_is_searched_for_with_less_weight(question: str, word: str, form: str) -> None:
    terms, forms = question_terms(question, Terms(form, "Vollmacht", "Tribunal").find)
    (written,) = extract_terms(word)
    assert written in terms
    assert forms == {extract_terms(form)[0]: FORM_WEIGHT}


def test_a_question_in_english_is_left_as_it_is_without_a_look_up() -> None:
    index = Terms("painting", "painters")
    question = "Which paints did the painters use?"
    assert question_terms(question, index.find) == (extract_terms(question), {})
    assert index.searches == 0


def test_the_number_of_forms_is_bounded() -> None:
    endings = [first + second for first in "abcdefgh" for second in "abcdefgh"]
    index = Terms()
    index.counts = {f"urlaub{ending}": 1 for ending in endings} | {"urlaubs": 9, "urlaube": 8}
    _, forms = question_terms("Wie lang ist der Urlaub?", index.find)
    assert {"urlaubs", "urlaube"} <= forms.keys()
    assert len(forms) <= MAX_FORMS


def test_a_german_question_finds_the_passage_with_another_form() -> None:
    import numpy as np

    from ragkit.embed.hashing import HashingEmbedder
    from ragkit.retrieve.base import RetrieverDependencies
    from ragkit.retrieve.lexical import LexicalRetriever
    from ragkit.retrieve.options import LexicalOptions

    texts = ["Die Volljährigkeit tritt mit dem 18. Lebensjahr ein.", "Das Haus steht leer."]
    chunks = [Chunk(str(n), str(n), "", text, 0, len(text), 1, 1) for n, text in enumerate(texts)]
    index = InMemoryChunkIndex(chunks, np.eye(2, 8, dtype=np.float32))
    retriever = LexicalRetriever(LexicalOptions(), RetrieverDependencies(index, HashingEmbedder()))
    assert retriever.retrieve("Wann ist man volljährig?")[0].text == texts[0]

"""Terms of questions in other languages than English: forms, compounds, words that ask; no change for English."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ragkit.lexical.analyzer import extract_terms
from ragkit.lexical.base import OneOf
from ragkit.lexical.languages import detect_question_language
from ragkit.lexical.word_forms import MAX_FORMS, MAX_WORDS, PART_WEIGHT, content_terms, question_terms
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
def test_a_form_with_the_same_stem_counts_as_the_word(question: str, word: str, form: str) -> None:
    terms, extra = question_terms(question, Terms(form, "Vollmacht", "Tribunal").find)
    (written,), (found,) = extract_terms(word), extract_terms(form)
    assert OneOf((written, found)) in terms
    assert extra == {}


@pytest.mark.parametrize(
    ("question", "word", "form"),
    [
        ("Wer wählt den Präsidenten?", "wählt", "gewählt"),
        ("Darf mir während der Elternzeit gekündigt werden?", "gekündigt", "kündigen"),
    ],
)
def test_a_german_verb_finds_its_forms_with_another_beginning(question: str, word: str, form: str) -> None:
    terms, _ = question_terms(question, Terms(form).find)
    assert OneOf((*extract_terms(word), *extract_terms(form))) in terms


def test_a_german_noun_has_no_forms_of_a_verb() -> None:
    terms, _ = question_terms("Wo ist der Markt mit der Marke?", Terms("merkte", "gemarkt").find)
    assert not any(isinstance(term, OneOf) for term in terms)


@pytest.mark.parametrize(
    ("question", "index", "found"),
    [
        ("Wie viele Urlaubstage gibt es?", ("Urlaub", "Tage", "Tag"), {"urlaub", "tage"}),
        ("Wie hoch ist der Umsatzsteuersatz?", ("Umsatz", "Steuer", "Satz"), {"umsatz", "steuer", "satz"}),
        ("Wann ist die Forderung verjährt?", ("Verjährungsfrist",), {"verjahrungsfrist"}),
        ("Wie viele Urlaubstage gibt es?", ("Urlaub",), set()),
        ("Hoeveel vakantiedagen zijn er?", ("vakantie", "dagen"), {"vakanti", "dagen"}),
        ("¿Cuándo es el telespectador?", ("tele", "espectador", "spectador"), set()),
    ],
)
def test_the_parts_of_a_compound_are_searched_for_with_less_weight(
    question: str, index: tuple[str, ...], found: set[str]
) -> None:
    _, extra = question_terms(question, Terms(*index).find)
    assert extra == dict.fromkeys(found, PART_WEIGHT)


def test_words_that_only_ask_are_no_terms_in_their_language() -> None:
    assert content_terms("Wie lange kann ich meinen Kauf widerrufen?") == extract_terms("lange Kauf widerrufen")
    assert content_terms("¿Cuándo termina el contrato?") == extract_terms("termina el contrato")
    assert content_terms("Was kann man?") == extract_terms("Was kann man?")
    assert content_terms("Who was Ernst Mann?") == extract_terms("Who was Ernst Mann?")


def test_a_question_in_english_is_left_as_it_is_without_a_look_up() -> None:
    index = Terms("painting", "painters")
    question = "Which paints did the painters use?"
    assert question_terms(question, index.find) == (extract_terms(question), {})
    assert index.searches == 0


def test_the_number_of_forms_is_bounded() -> None:
    endings = [first + second for first in "abcdefgh" for second in "abcdefgh"]
    index = Terms()
    index.counts = {f"urlaub{ending}": 1 for ending in endings} | {"urlaubs": 9, "urlaube": 8}
    terms, extra = question_terms("Wie lang ist der Urlaub?", index.find)
    assert isinstance(terms[-1], OneOf)
    assert {"urlaubs", "urlaube"} <= set(terms[-1].terms)
    assert len(terms[-1].terms) <= 1 + MAX_FORMS
    assert sum(len(term.terms) if isinstance(term, OneOf) else 1 for term in extra) <= MAX_FORMS


def test_only_so_many_words_of_a_long_question_are_looked_up() -> None:
    words = [f"Wagen{first}{second}" for first in "bcfghjkm" for second in "bfkmpvwx"]
    terms, _ = question_terms(f"Wie ist der {' '.join(words)}?", Terms(*(f"{word}en" for word in words)).find)
    assert sum(isinstance(term, OneOf) for term in terms) == MAX_WORDS < len(words)


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

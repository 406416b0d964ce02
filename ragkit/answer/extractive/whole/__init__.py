"""Whole documents: questions about them, their outlines and leads, and complete look-ups.

The modules are imported for such questions alone: most questions pay for `may_be_whole` only.
"""

from __future__ import annotations

from ragkit.answer.base import Searcher, both_filters
from ragkit.answer.extractive.quotes import LookedUp
from ragkit.records import Where

MAX_QUESTION_CHARS = 200
_WORDS = (
    *(
        "about",
        "summar",
        "sum up",
        "overview",
        "section",
        "chapter",
        "heading",
        "outline",
        "contents",
        "wrote",
        "author",
    ),
    *("when was", "date", "version", "changed", "differen", "compar", "document", "file", "paper", "pdf", "text"),
    *("erwähn", "nennen", "mencionan", "contain", "contien"),
    *("attend", "agenda", "participa", "took part", "present", "tagesordnung", "wer war"),
    *("mention", "minutes", "page", "present", "propos", "slides", "deck", "guide", "tl;dr", "tldr"),
    *(".htm", ".md", ".rst", ".doc", ".ppt", ".odt", ".odp", ".epub", ".eml", ".adoc", ".ipynb", ".tex", ".txt"),
    *("title", "titel", "título", "chapitre", "context"),
    *("worum", "wovon", "was steht", "zusammen", "überblick", "abschnitt", "kapitel", "überschrift", "gliederung"),
    *("inhalts", "geschrieben", "verfass", "autor", "von wem", "wann", "fassung", "zwischen", "vergleich", "dokument"),
    *("datei", "de quoi", "résum", "partie", "titre", "plan", "sommaire", "matières", "écrit", "rédigé", "auteur"),
    *("quand", "entre", "fichier", "de qué", "sobre qué", "resum", "seccion", "apartado", "capítulo", "índice"),
    *("esquema", "escri", "cuándo", "fecha", "versión", "archivo"),
)
"""What every form of such a question has one of."""


def may_be_whole(question: str) -> bool:
    """Whether a question may be one about whole documents: most are not, by their words."""
    text = question.lower()
    return len(text) <= MAX_QUESTION_CHARS + 20 and any(word in text for word in _WORDS)


def answer_whole(question: str, searcher: Searcher, where: Where = None) -> LookedUp | None:
    """The answer to a question about whole documents; None for every other question, which is then searched for.

    Args:
        question: natural language.
        searcher: a session of a knowledge base; others have no such answers.
        where: the filter of the documents.
    """
    if not may_be_whole(question):
        return None
    from ragkit.answer.extractive.whole.look_up import look_up  # noqa: PLC0415 - for few questions

    return look_up(question, searcher, where)


def limit_to_named(question: str, searcher: Searcher, where: Where = None) -> Where:
    """The filter of a search, with the documents that a question names by their file names, if it names any."""
    if "." not in question or len(question) > MAX_QUESTION_CHARS:
        return where
    from ragkit.answer.extractive.whole.look_up import named_files  # noqa: PLC0415 - for few questions

    return both_filters(where, named_files(question, searcher, where))

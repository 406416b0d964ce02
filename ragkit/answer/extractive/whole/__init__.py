"""Whole documents: questions about them, their outlines and leads, and complete look-ups.

The modules are imported for such questions alone: most questions pay for `may_be_whole` only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ragkit.answer.base import Searcher
from ragkit.answer.extractive.quotes import LookedUp
from ragkit.records import Where

if TYPE_CHECKING:
    from ragkit.answer.extractive.whole.scope import Scope

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
    *(
        "when was",
        "come out",
        "date",
        "version",
        "changed",
        "differen",
        "compar",
        "document",
        "file",
        "paper",
        "pdf",
        "text",
    ),
    *("erwähn", "nennen", "mencionan", "contain", "contien"),
    *("attend", "agenda", "participa", "took part", "present", "tagesordnung", "wer war"),
    *("mention", "minutes", "page", "present", "propos", "slides", "deck", "guide", "tl;dr", "tldr"),
    *(".htm", ".md", ".rst", ".doc", ".ppt", ".odt", ".odp", ".epub", ".eml", ".adoc", ".ipynb", ".tex", ".txt"),
    *("written", " adr", " bip", " eip", " jep", " kep", " pep", " rfc", "notes of"),
    *("meeting", "newest", "oldest", "latest", "earliest", "most recent", "decided", "decision", "agreed", "conclu"),
    *("supersed", "supersc", "replac", "obsolet", "amend", "folder", "directory", "call", "session", "article", "law"),
    *(
        "manual",
        "letter",
        "handbook",
        "polic",
        "post",
        "report",
        "audit",
        "agreement",
        "protokoll",
        "bericht",
        "treffen",
    ),
    *("who ", "when ", "wer ", "how long", "show me", "anything", "something", "announce", "explain", "describe"),
    *("title", "titel", "título", "chapitre", "context"),
    *("worum", "wovon", "was steht", "zusammen", "überblick", "abschnitt", "kapitel", "überschrift", "gliederung"),
    *("inhalts", "geschrieben", "verfass", "autor", "von wem", "wann", "fassung", "zwischen", "vergleich", "dokument"),
    *("datei", "de quoi", "résum", "partie", "titre", "plan", "sommaire", "matières", "écrit", "rédigé", "auteur"),
    *("quand", "entre", "fichier", "de qué", "sobre qué", "resum", "seccion", "apartado", "capítulo", "índice"),
    *("esquema", "escri", "cuándo", "fecha", "versión", "archivo"),
)
"""What every form of such a question has one of."""


_NAME_MARK = re.compile(
    r"[\"“„«‚‘]|\w\.[a-z]|\b(?:19|20)\d\d\b|\b(?:adr|bip|eip|jep|kep|pep|rfc)[ -]?\d"
    r"|^what d(?:oes|id|o) |^was (?:steht|sagt|schreibt) |^according to |^laut ",
    re.IGNORECASE,
)
"""A quotation mark, a dot within a word, a year or a number of a series, as names have them; what one says."""


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
    if not (may_be_whole(question) or _may_name_document(question)):
        return None
    from ragkit.answer.extractive.whole.look_up import look_up  # noqa: PLC0415 - for few questions

    return look_up(question, searcher, where)


def find_scope(question: str, searcher: Searcher, where: Where = None) -> Scope | None:
    """The documents that a question is asked of by their name, and what is asked of them; None for other questions.

    "What does FILE say about X?", "According to FILE, ...", "In FILE, ..."; FILE is a file name, or a title in
    quotation marks.

    Args:
        question: natural language.
        searcher: a session of a knowledge base; others know no names.
        where: the filter of the documents.
    """
    if not _may_name_document(question):
        return None
    from ragkit.answer.extractive.whole.look_up import scope_of  # noqa: PLC0415 - for few questions

    return scope_of(question, searcher, where)


def _may_name_document(question: str) -> bool:
    return len(question) <= MAX_QUESTION_CHARS and _NAME_MARK.search(question) is not None

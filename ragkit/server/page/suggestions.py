"""Suggests questions about the documents, without a model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice, zip_longest
from typing import Any

from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.session import Session
from ragkit.records import Document, Heading

MAX_SUGGESTIONS = 4
SAMPLED_DOCUMENTS = 12
"""Documents whose headings are read for suggestions."""
MAX_LISTED = 5_000
"""Documents among which those are sampled."""
MAX_FOLLOW_UPS = 3
MAX_CITED = 3
"""Cited documents whose headings are read for follow-up questions."""
MAX_TRIED = 8
"""Follow-up questions that are searched for."""
ANSWERING_HITS = 3
"""Hits among which the section of a follow-up question must be."""
MIN_SECTION_CHARS = 20
"""Characters that a section must have beside its heading."""
_MAX_OWN = 2
"""Headings that are questions among the suggestions."""
_MIN_CHARS, _MAX_CHARS = 12, 80
"""Of such a heading."""
_WORD = re.compile(r"[^\W\d_]{2,}")
GENERIC = frozenset((
    "abstract", "acknowledgements", "acknowledgments", "appendix", "bibliography", "changelog", "changes", "conclusion",
    "conclusions", "contents", "copyright", "foreword", "glossary", "index", "introduction", "license", "notes",
    "overview", "preface", "references", "summary", "table of contents", "version history",
))  # fmt: skip
"""Headings that say nothing about a document."""


_ABOUT = {
    "en": "What is {name} about?",
    "de": "Worum geht es in {name}?",
    "fr": "De quoi parle {name} ?",
    "es": "¿De qué trata {name}?",
}
_SAYS = {
    "en": "What does {name} say about “{heading}”?",
    "de": "Was sagt {name} über „{heading}“?",
    "fr": "Que dit {name} sur « {heading} » ?",
    "es": "¿Qué dice {name} sobre «{heading}»?",
}
_QUOTES = {"de": "„{}“", "fr": "« {} »", "es": "«{}»"}


def suggestions(session: Session, language: str = "en") -> list[str]:
    """Questions from documents all over the knowledge base: a heading that is one, else what a document is about.

    `language` is that of the words around names: `en`, `de`, `fr` or `es`; English for every other one.
    """
    rows = session.list_documents("", MAX_LISTED)
    step = max(1, len(rows) // SAMPLED_DOCUMENTS)
    found = (session.find_document(row.id) for row in islice(rows[::step], SAMPLED_DOCUMENTS))
    documents = [document for document in found if document is not None and document.format != "code"]
    documents.sort(key=lambda document: not document.title)  # a name such as "Makefile" tells little
    headings = (heading.text.strip() for document in documents for heading in document.headings)
    own = [
        text for text in map(_without_number, headings) if text.endswith("?") and _MIN_CHARS <= len(text) <= _MAX_CHARS
    ]
    names = Counter(_title_or_file(document, language) for document in documents)
    form = _ABOUT.get(language, _ABOUT["en"])
    about = [form.format(name=name) for name, count in names.items() if count == 1]
    return list(islice(dict.fromkeys([*own[:_MAX_OWN], *about]), MAX_SUGGESTIONS))


def _title_or_file(document: Document, language: str) -> str:
    """The title in quotation marks, if it says something, else the name of the file."""
    title = document.title.strip()
    if not len(title) <= _MAX_CHARS or title.lower() in GENERIC or len(_WORD.findall(title)) < 2:
        return _file_name(document)
    return _QUOTES.get(language, "“{}”").format(title)


def _file_name(document: Document) -> str:
    return display_name(document.source).rstrip("/").rpartition("/")[2]


def follow_ups(session: Session, conversation: Mapping[str, Any], language: str = "en") -> list[str]:
    """Questions about headings of the documents that the last answer of a conversation cites.

    Of sections that no answer has cited and no question names, those that follow a citation first; only questions for
    which a search by words, which costs nothing, finds the section.
    """
    answers = [message for message in conversation["history"] if message["role"] == "assistant"]
    last = answers[-1] if answers else None
    if last is None or last["status"] != "done" or last["abstained"]:
        return []
    known = "\n".join(message["content"] for message in conversation["history"] if message["role"] == "user").casefold()
    used = {tuple(citation.get("heading", ())) for answer in answers for citation in answer["citations"]}
    found = (
        question
        for question, document, heading in islice(
            _candidates(session, last["citations"], known, used, language), MAX_TRIED
        )
        if _is_answered(session, question, document, heading)
    )
    return list(islice(dict.fromkeys(found), MAX_FOLLOW_UPS))


def _candidates(
    session: Session, citations: list[dict[str, Any]], known: str, used: set[tuple[str, ...]], language: str
) -> Iterator[tuple[str, Document, Heading]]:
    """Questions about unused headings of the cited documents, one of each document in turn."""
    cited: dict[str, int] = {}
    for citation in citations:
        if citation.get("document_id"):
            cited.setdefault(citation["document_id"], citation["start"])
    queues = []
    for document_id, start in islice(cited.items(), MAX_CITED):
        document = session.find_document(document_id)
        pairs = [] if document is None else questions_of(document, language)
        fresh = [
            (question, document, heading)
            for question, heading in pairs
            if document is not None
            and document.heading_path_at(heading.start) not in used
            and _without_number(heading.text).rstrip(":.?").casefold() not in known
        ]
        queues.append(sorted(fresh, key=lambda item: item[2].start < start))
    for row in zip_longest(*queues):
        yield from (item for item in row if item is not None)


def _is_answered(session: Session, question: str, document: Document, heading: Heading) -> bool:
    later = (item.start for item in document.headings if item.start > heading.start and item.level <= heading.level)
    end = next(later, len(document.text))
    if end - heading.start < len(heading.text) + MIN_SECTION_CHARS:
        return False
    chunks = (hit.chunk for hit in session.search(question, ANSWERING_HITS, mode="lexical"))
    return any(chunk.document_id == document.id and chunk.start < end and chunk.end > heading.start for chunk in chunks)


def asked(document: Document) -> list[str]:
    """Questions about the headings of a document."""
    return [question for question, _ in questions_of(document)]


def questions_of(document: Document, language: str = "en") -> list[tuple[str, Heading]]:
    """Questions about the headings of a document: a heading that is a question stands for itself."""
    questions = []
    form = _SAYS.get(language, _SAYS["en"])
    for heading in document.headings:
        text = _without_number(heading.text[:500])
        words = _WORD.findall(text)
        if not 1 < heading.level < 4 or not 2 <= len(words) <= 8 or len(text) > 60 or text.lower() in GENERIC:
            continue
        said = form.format(name=_file_name(document), heading=text.rstrip(":."))
        questions.append((text if text.endswith("?") else said, heading))
    return questions


def _without_number(heading: str) -> str:
    """A heading without `3.2` before it."""
    words = heading.split()
    is_number = len(words) > 1 and words[0][0].isdigit() and not any(map(str.isalpha, words[0]))
    return " ".join(words[1:] if is_number else words)

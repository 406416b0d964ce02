"""Questions to one document, which name it: "What does FILE say about X?", in English, German, French and Spanish."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ragkit.answer.extractive.whole.names import ARTICLE, DAY, NUMBERED, DocumentName, find_document_named, read_name
from ragkit.answer.extractive.whole.nouns import KIND, SERIES
from ragkit.answer.extractive.whole.questions import MAX_QUESTION_CHARS
from ragkit.index.sources.ids import display_name
from ragkit.records import Where

MAX_SOURCES = 20
"""Documents of one name."""
_NAMED = 5
"""Of them, those that an answer names."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is asked, and the documents that it is asked of."""

    query: str
    """The question without the name."""
    name: str
    """As the question has it."""
    sources: tuple[str, ...]

    @property
    def where(self) -> Where:
        """The filter of these documents."""
        return {"source": {"$in": list(self.sources)}}

    @property
    def note(self) -> str:
        """That several documents have the name, and which; '' for one."""
        if len(self.sources) < 2:
            return ""
        names = ", ".join(display_name(source) for source in self.sources[:_NAMED])
        more = f" and {len(self.sources) - _NAMED} more" if len(self.sources) > _NAMED else ""
        return f"{len(self.sources)} documents have the name {self.name}. All were searched: {names}{more}."

    def of(self, query: str) -> str:
        """A query, or a part of one, to these documents: a question of the last form below."""
        return f"{query} (in {self.name})"


_NAME = (
    r"(?P<name>[\"“„«‚‘][^\"”“»’‘]{1,120}[\"”“»’‘]|(?:[^\s,;:?!\"]+ ){0,6}?[^\s,;:?!\"]+\.[a-z][a-z0-9]{1,4}"
    rf"|{SERIES}[ -]?#?\d{{1,6}}|(?:{ARTICLE} )?{KIND} (?:of|on|from|in|vo[nm]|am|du|del?) {DAY})"
)
_REST = r"(?P<rest>.+)"
_ACCORDING = r"(?:according to|as per|laut|gemäß|selon|d'après|según|de acuerdo con)"
_IN = r"(?:in|from|aus|im|dans|en)"
_SAID = r"(?:said|written|stated|documented)"
_FORMS = (
    rf"what (?:does|do|did) (?P<name>{ARTICLE} .+?) (?:say|tell(?: us| me)?|state|mention|write|recommend)"
    rf" (?:about|on|regarding|of) {_REST}",
    rf"was (?:steht|sagt|schreibt|empfiehlt) (?:in )?(?P<name>{ARTICLE} .+?) (?:über|zum|zur|zu) {_REST}",
    rf"{_ACCORDING} (?P<name>{ARTICLE} [^,]{{3,80}}), {_REST}",
    rf"why (?:is|was|has) {_NAME} (?P<rest>(?:been )?\w+ed)",
    rf"what (?:does|do|did) {_NAME} (?:say|tell(?: us| me)?|state|mention|write|explain|specify|recommend) "
    rf"(?:about|on|regarding|of) {_REST}",
    rf"what(?:'s| is| does it say) (?:{_SAID} )?(?:about|on) {_REST} in {_NAME}",
    rf"was (?:steht|sagt|schreibt|empfiehlt) (?:(?:in|im) )?{_NAME} (?:über|zum|zur|zu|von) {_REST}",
    rf"(?:que|qu'est-ce que?) (?:dit )?{_NAME} (?:dit )?(?:sur|au sujet des?|à propos des?) {_REST}",
    rf"qué dice {_NAME} (?:sobre|acerca del?|del?) {_REST}",
    rf"{_REST} \(in {_NAME}\)",
    rf"{_REST} \(in (?P<name>{ARTICLE} [^()]{{3,80}})\)",
)
"""What a document says about something; the last one is that of queries."""
_PHRASE = rf"(?:^|(?<=\s))(?:,\s*)?{_ACCORDING} {_NAME}(?=[\s,:]|$),?:?"
_PLACES = (rf"{_IN} {_NAME}\s?[,:] {_REST}", rf"{_REST} {_IN} {_NAME}")
"""They may also mean a file that documents are about: "How do I set the port in config.json?"."""
_SETTINGS = re.compile(r"\.(?:json|ya?ml|toml|ini|cfg|conf|env|lock|sh|py|js|ts)$", re.IGNORECASE)
_COMPILED: list[re.Pattern[str]] = []


@dataclass(frozen=True, slots=True)
class ScopedQuestion:
    """A question of a form that names a document."""

    query: str
    """What is asked."""
    text: str
    """The document as it is named."""
    is_certain: bool
    """Whether the form means that document; else it may mean any file that documents are about."""

    @property
    def name(self) -> DocumentName:
        """The name of the document."""
        return read_name(self.text)


def read_scope(question: str) -> ScopedQuestion | None:
    """What a question asks of which document by its form; None for others."""
    text = " ".join(question.replace("’", "'").split()).strip("¿¡ ").rstrip("?.! ")
    if len(text) > MAX_QUESTION_CHARS:
        return None
    if not _COMPILED:
        _COMPILED.extend(re.compile(form, re.IGNORECASE) for form in (*_FORMS, _PHRASE, *_PLACES))
    for number, form in enumerate(_COMPILED):
        is_phrase = number == len(_FORMS)
        match = form.search(text) if is_phrase else form.fullmatch(text)
        if match is None:
            continue
        rest = f"{text[: match.start()]} {text[match.end() :]}" if is_phrase else match["rest"]
        name, is_certain = read_name(match["name"]), number <= len(_FORMS)
        query = " ".join(rest.split()).strip(" ,:")
        if (
            query
            and (
                name.is_quoted
                or "." in name.text
                or name.date
                or NUMBERED.fullmatch(name.text)
                or (name.is_file and number < len(_FORMS))
            )
            and (is_certain or not _SETTINGS.search(name.text))
        ):
            return ScopedQuestion(query if number < len(_FORMS) else f"{query}?", match["name"], is_certain)
    return None


def find_scope(question: str, documents: Iterable[tuple[str, str]]) -> Scope | None:
    """The scope of a question; None if it names no document, given as source and title, or too many."""
    asked = read_scope(question)
    if asked is None:
        return None
    sources = find_document_named(asked.text, documents)
    file = sources[0].rpartition("/")[2] if len(sources) == 1 else ""
    name = file if file and asked.text.lower().endswith(file.lower()) and "/" not in asked.text else asked.name.text
    name = f'"{name}"' if asked.name.is_quoted else name
    return Scope(asked.query, name, tuple(sources)) if 0 < len(sources) <= MAX_SOURCES else None

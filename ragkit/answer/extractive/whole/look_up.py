"""Answers questions about whole documents without a search: from outlines, leads and complete look-ups."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from ragkit.answer.base import Searcher
from ragkit.answer.confidence import LOOKED_UP
from ragkit.answer.extractive.composition import AnswerPassage
from ragkit.answer.extractive.question_kind import split_question
from ragkit.answer.extractive.quotes import ExtractiveAnswer, LookedUp, Quote
from ragkit.answer.extractive.selection import file_words
from ragkit.answer.extractive.units import strip_markup
from ragkit.answer.extractive.whole.parts import (
    BEGINNING_CHARS,
    LEAD_HEADING,
    beginning_units,
    central_sentences,
    differing_sentences,
    find_lead,
    find_prose,
    find_release,
    main_sections,
    named_part,
    outline,
    stated_facts,
    stored_facts,
)
from ragkit.answer.extractive.whole.questions import (
    Asked,
    DocumentName,
    DocumentQuestion,
    close_names,
    find_document_named,
    name_terms,
    names_no_other,
    number_forms,
    read_document_question,
    read_name,
    read_release,
    unquoted,
)
from ragkit.answer.extractive.whole.scope import MAX_SOURCES, Scope, find_scope, read_scope
from ragkit.answer.searchers.text_search import FoundText, Span, TextMatches, TextPattern
from ragkit.errors import InvalidOption
from ragkit.index.sources.ids import display_name
from ragkit.records import Chunk, Document, Hit, Where
from ragkit.split.sentence_segmentation import sentence_spans

OVER_ALL = frozenset({Asked.ALL, Asked.MENTION, Asked.TOPIC, Asked.AUTHOR, Asked.DATED})
MAX_NAMES = 100
"""Documents that an answer names."""
MAX_CITED = 20
"""Documents of a look-up that are cited, and headings of an outline."""
CENTRAL_SENTENCES = 3
MAX_DIFFERENCES = 6
"""Sentences of each of two documents that the other one lacks."""
_TITLE_CHARS = 200
"""Characters at the beginning of a text that name its topic, where a title is not known."""
_REGION_CHARS = 1000
_FIELD = re.compile(
    r"^[ \t]{0,8}[*#>-]{0,3}[ \t]{0,4}(?P<line>\*{0,2}(?P<label>[^\W\d_][\w -]{1,39}?)\*{0,2}:\*{0,2}[ \t]{0,8}\S.*)",
    re.MULTILINE,
)
"""A line with a label at the beginning of a document: "Status: final"."""
_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")
_ASKS_HEADINGS = re.compile(r"\b(?:headings|überschriften|titres|títulos)\b", re.IGNORECASE)
_BOTH = re.compile(r"(?:both|sowohl|à la fois|tanto) (.+?) (?:and|als auch|et|como) (.+)", re.IGNORECASE)


@runtime_checkable
class DocumentReader(Searcher, Protocol):
    """Reads whole documents: a `Session` of a knowledge base. What its principal may not read does not exist for it."""

    def documents(self, where: Where = None) -> list[tuple[str, str, int]]:
        """(source, title, number of chunks) of every document that matches a filter."""

    def document(self, source: str) -> Document | None:
        """The document of a source."""

    def find_text(self, pattern: TextPattern, where: Where = None) -> FoundText:
        """The documents that contain a text."""

    def chunks_between(self, source: str, start: int, end: int) -> list[Chunk]:
        """The chunks that overlap a part of a document."""

    def central_chunks(self, source: str, count: int) -> list[Chunk]:
        """The chunks that together say most of a document."""


def look_up(question: str, searcher: Searcher, where: Where = None) -> LookedUp | None:
    """See `answer_whole`."""
    if not isinstance(searcher, DocumentReader):
        return None
    parts = split_question(question)
    joined = _look_up_parts(question, parts, searcher, where) if len(parts) > 1 else None
    return joined or _look_up_one(question, searcher, where)


def _look_up_one(question: str, searcher: DocumentReader, where: Where) -> LookedUp | None:
    asked, draft = read_document_question(question), _Draft(searcher)
    is_answered = asked is not None and _ANSWERS[asked.asked](draft, asked, question, where)
    if asked is None or (asked.asked is Asked.FIELD and not is_answered):
        _say_missing(draft, question, where)
        return draft.finish(question, over_all=True) if draft.lines else None
    if not is_answered:
        return None
    return draft.finish(question, over_all=asked.asked in OVER_ALL or not draft.quotes)


def _look_up_parts(question: str, parts: Sequence[str], searcher: DocumentReader, where: Where) -> LookedUp | None:
    """The answers to the parts of a question one below the other; None unless each is one about whole documents."""
    lines: list[tuple[str, int]] = []
    quotes: list[Quote] = []
    found: list[LookedUp] = []
    for part in parts:
        answer = _look_up_one(part, searcher, where)
        if answer is None:
            return None
        found.append(answer)
        lines += [(line, n + len(quotes) if n else 0) for line, n in answer.lines]
        quotes += answer.numbered(len(quotes))[1].quotes
    evidence = sum(answer.quoted.evidence for answer in found) / len(found)
    is_abstention = all(answer.quoted.abstained for answer in found)
    quoted = ExtractiveAnswer(tuple(quotes), is_abstention, question, evidence)
    return LookedUp(tuple(lines), quoted, any(answer.over_all for answer in found))


def scope_of(question: str, searcher: Searcher, where: Where = None) -> Scope | None:
    """See `whole.find_scope`."""
    if not isinstance(searcher, DocumentReader) or read_scope(question) is None:
        return None
    return find_scope(question, ((source, title) for source, title, _ in searcher.documents(where)))


def summarize_extract(reader: DocumentReader, source: str) -> LookedUp:
    """The lead of a document and its central sentences, each cited, then the names of its main sections."""
    draft = _Draft(reader)
    if not _describe(draft, source):
        draft.say("No text was found.")
    draft.is_abstention = not draft.quotes
    return draft.finish("", over_all=False)


def find_document(reader: DocumentReader, text: str, where: Where = None) -> str:
    """The source of the one document that a name means.

    Raises:
        InvalidOption: no document has the name, or several have.
    """
    documents = reader.documents(where)
    found = [text] if any(source == text for source, _, _ in documents) else _find(text, documents)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(display_name(source) for source in found[:5])
        raise InvalidOption("document", text[:120], f"the path of one of {len(found)} documents: {names}")
    near = ", ".join(close_names(text, [source for source, _, _ in documents]))
    hint = f": did you mean {near}?" if near else "; `ragkit list` has all names"
    raise InvalidOption("document", text[:120], f"the source, file name or title of a document{hint}")


def _find(text: str, documents: Sequence[tuple[str, str, int]]) -> list[str]:
    return find_document_named(text, ((source, title) for source, title, _ in documents))


class _Draft:
    """The lines and quotes of an answer."""

    def __init__(self, reader: DocumentReader) -> None:
        self.reader = reader
        self.lines: list[tuple[str, int]] = []
        self.quotes: list[Quote] = []
        self.is_abstention = False

    def say(self, *lines: str) -> None:
        """Lines that quote nothing."""
        self.lines += [(line, 0) for line in lines]

    def add(self, source: str, start: int, end: int, line: str, quote: str = "") -> None:
        """A line that ends with the number of the quote [start:end] of a source; `quote`: its text, if not the line."""
        chunks = self.reader.chunks_between(source, start, end)
        n = len(self.quotes) + 1 if chunks else 0
        self.lines.append((line, n))
        if chunks:
            passage = AnswerPassage(n - 1, source, start, end, quote or line.removeprefix("- "), 0.0)
            self.quotes.append(Quote(n, Hit(chunks[0], 0.0, rank=n), passage))

    def finish(self, query: str, *, over_all: bool) -> LookedUp:
        """The answer."""
        evidence = 0.0 if self.is_abstention else LOOKED_UP
        quoted = ExtractiveAnswer(tuple(self.quotes), self.is_abstention, query, evidence)
        return LookedUp(tuple(self.lines), quoted, over_all)


def _answer_about(  # noqa: PLR0911 - one per kind
    draft: _Draft, asked: DocumentQuestion, question: str, where: Where
) -> bool:
    """Answer a question about one document, or two; False if it names none for certain."""
    if asked.asked is Asked.WHEN and (release := read_release(asked.name)):
        return _date_release(draft, *release, where)
    documents = draft.reader.documents(where)
    sources = _named_sources(draft, asked, documents)
    if not sources:
        return bool(draft.lines)
    if asked.asked is Asked.CHANGES:
        return _compare(draft, sources)
    if asked.asked is Asked.CONTENT:
        return _describe(draft, sources[0])
    if asked.asked is Asked.SECTIONS:
        return _list_sections(draft, sources[0], of_all=_ASKS_HEADINGS.search(question) is not None)
    if asked.asked in (Asked.AGENDA, Asked.ATTENDEES):
        return _quote_part(draft, asked.asked, sources[0])
    if asked.asked is Asked.TITLE:
        return _say_title(draft, *next(document for document in documents if document[0] == sources[0])[:2])
    return _state(draft, asked.asked, sources[0], question)


def _named_sources(draft: _Draft, asked: DocumentQuestion, documents: Sequence[tuple[str, str, int]]) -> list[str]:
    """The sources of the documents that a question names; empty if one of them is not certain, which may be said."""
    sources = []
    for text in filter(None, (asked.name, asked.other)):
        name = read_name(text)
        found = _find(text, documents)
        if names_no_other(text) and not found:
            found = [source for source, _, _ in documents]
            if len(found) > 1 and asked.asked in (Asked.CONTENT, Asked.SECTIONS):
                draft.say(f"{_count(len(found), 'document')} are here; name one by its file name or title:")
                draft.say(*(f"- {_name(source, title)}" for source, title, _ in documents[:MAX_CITED]))
                return []
        elif asked.of_file and not name.is_file:
            return []
        if len(found) != 1:
            _say_which(draft, name, found, [source for source, _, _ in documents])
            return []
        sources.append(found[0])
    return sources


def _say_which(draft: _Draft, name: DocumentName, found: Sequence[str], sources: Sequence[str]) -> None:
    """Say that no document, or more than one, has the name of a file; a title may mean something else."""
    if found and (name.is_file or len(found) <= 5):
        draft.say(f"{len(found)} documents have the name {name.text}; name one by its path:")
        draft.say(*(f"- {display_name(source)}" for source in found[:MAX_NAMES]))
    elif name.has_suffix and not found and not _ends_with_name(name.text, sources):
        near = close_names(name.text, sources)
        hint = f" Similar names: {', '.join(near)}." if near else ""
        draft.say(f"Not in these documents: none of {len(sources):,} has the name {name.text}.{hint}")
        draft.is_abstention = True


def _say_missing(draft: _Draft, question: str, where: Where) -> None:
    """Say that no document has the name of the file that a question is asked of, or too many have."""
    asked = read_scope(question)
    if asked is None or not (asked.is_certain and asked.name.has_suffix):
        return
    documents = draft.reader.documents(where)
    found = _find(asked.text, documents)
    if not found or len(found) > MAX_SOURCES:
        _say_which(draft, asked.name, found, [source for source, _, _ in documents])


def _ends_with_name(text: str, sources: Sequence[str]) -> bool:
    """Whether words before the name of a document were taken for a part of it."""
    return any(text.lower().endswith(f" {source.rpartition('/')[2].lower()}") for source in sources)


def _describe(draft: _Draft, source: str) -> bool:
    document = draft.reader.document(source)
    if document is None:
        return False
    units = beginning_units(document, draft.reader.chunks_between(source, 0, BEGINNING_CHARS))
    lead = find_lead(document, units)
    if lead is not None:
        draft.add(source, *lead, " ".join(strip_markup(document.text[slice(*lead)]).split()))
    chunks = draft.reader.central_chunks(source, 3 * CENTRAL_SENTENCES)
    for unit in central_sentences(document, chunks, draft.reader, CENTRAL_SENTENCES, lead or (0, 0)):
        draft.add(source, unit.start, unit.end, f"- {' '.join(unit.body.split())}")
    titles = [section.title.rstrip(":") for section in main_sections(document)]
    if len(titles) > 1:
        more = f" and {len(titles) - MAX_CITED} more" if len(titles) > MAX_CITED else ""
        draft.say(f"Sections: {'; '.join(titles[:MAX_CITED])}{more}.")
    return bool(draft.quotes)


def _quote_part(draft: _Draft, asked: Asked, source: str) -> bool:
    document = draft.reader.document(source)
    part = named_part(document, asked) if document is not None else None
    if document is not None and part is not None:
        draft.add(source, *part, strip_markup(document.text[slice(*part)]).strip())
    return bool(draft.quotes)


def _quote_field(draft: _Draft, asked: DocumentQuestion, _: str, where: Where) -> bool:
    """What a document says of itself at its beginning or in its properties: "status: accepted"; False for others."""
    found = _find(asked.name, draft.reader.documents(where)) if read_name(asked.name).is_file else []
    document = draft.reader.document(found[0]) if len(found) == 1 else None
    if document is None:
        return False
    label = _key(asked.other)
    for match in _FIELD.finditer(document.text[:BEGINNING_CHARS]):
        if _key(match["label"]) == label:
            draft.add(document.source, *match.span("line"), strip_markup(match["line"]).strip())
            return True
    value = next((value for key, value in document.metadata.items() if _key(str(key)) == label), None)
    if isinstance(value, str | int | float) and str(value).strip():
        draft.say(f"Properties of {display_name(document.source)}: {asked.other}: {str(value).strip()[:120]}")
    return bool(draft.lines)


def _key(label: str) -> str:
    return " ".join(label.replace("_", " ").replace("-", " ").split()).casefold()


def _say_title(draft: _Draft, source: str, title: str) -> bool:
    document = draft.reader.document(source)
    at = document.text.find(title) if document is not None and title else -1
    if at >= 0:
        draft.add(source, at, at + len(title), title)
    elif title:
        draft.say(f"Properties of {display_name(source)}: title {title}")
    return bool(draft.lines)


def _list_sections(draft: _Draft, source: str, *, of_all: bool) -> bool:
    """The main sections of a document, or all its headings."""
    document = draft.reader.document(source)
    sections = main_sections(document) if document is not None else []
    if document is None or not sections:
        return False
    headings = outline(document)
    draft.say(f"{display_name(source)} has {len(sections)} main sections, {len(headings)} headings in all:")
    sections = headings if of_all else sections
    for section in sections[:MAX_CITED]:
        end = document.text.find("\n", section.start)
        line = f"- {section.title}, {section.place}"
        draft.add(source, section.start, end if end > 0 else len(document.text), line, section.title)
    draft.say(*(f"- {section.title}, {section.place}" for section in sections[MAX_CITED:MAX_NAMES]))
    if len(sections) > MAX_NAMES:
        draft.say(f"- and {len(sections) - MAX_NAMES} more")
    return True


def _state(draft: _Draft, asked: Asked, source: str, question: str) -> bool:
    """Who wrote a document, when, or its version, as its beginning or the properties of its file say."""
    document = draft.reader.document(source)
    if document is None:
        return False
    stored = stored_facts(document, asked)
    found = _stated(draft, document, asked, question)
    if found:
        draft.add(source, *found, " ".join(strip_markup(document.text[slice(*found)]).split()).lstrip(":|# "))
    if stored and (not found or asked is Asked.WHO):
        draft.say(f"Properties of {display_name(source)}: {stored}")
    return bool(draft.lines)


def _date_release(draft: _Draft, product: str, version: str, where: Where) -> bool:
    """When a version was released, if the headings of change logs agree on it; False otherwise."""
    terms = name_terms(product)
    found: dict[str, tuple[str, int, int]] = {}
    for matches in draft.reader.find_text(TextPattern(version), where).documents:
        document = draft.reader.document(matches.source)
        section = find_release(outline(document), version) if document is not None else None
        if document is None or section is None:
            continue
        if terms <= name_terms(f"{file_words(matches.source)} {matches.title} {section.title}"):
            end = document.text.find("\n", section.start)
            found.setdefault(section.title, (matches.source, section.start, end if end > 0 else len(document.text)))
    if len(found) != 1:
        return False
    [(title, place)] = found.items()
    draft.add(*place, title)
    return True


def _compare(draft: _Draft, sources: Sequence[str]) -> bool:
    """The headings and sentences that one of two documents has and the other one lacks."""
    first, second = (draft.reader.document(source) for source in sources)
    if first is None or second is None:
        return False
    for own, other in ((first, second), (second, first)):
        known = {_heading_key(section.title) for section in outline(other)}
        titles = [section.title for section in outline(own) if _heading_key(section.title) not in known]
        spans, count = differing_sentences(other, own, MAX_DIFFERENCES)
        shared = len(outline(own)) - len(titles)
        draft.say(
            f"Only in {display_name(own.source)}: {count:,} sentences, {len(titles)} headings ({shared} in both)."
        )
        if titles:
            more = f" and {len(titles) - MAX_CITED} more" if len(titles) > MAX_CITED else ""
            draft.say(f"Headings: {'; '.join(titles[:MAX_CITED])}{more}.")
        for start, end in spans:
            draft.add(own.source, start, end, f"- {' '.join(own.text[start:end].split())}")
    return True


def _heading_key(title: str) -> str:
    """A heading without its number: "4. Reopening" and "Reopening" are the same."""
    return re.sub(r"^\d+(?:[.)]\d+)*[.)]?\s+", "", title).casefold()


def _list_all(draft: _Draft, _: DocumentQuestion, __: str, where: Where) -> bool:
    documents = draft.reader.documents(where)
    draft.say(f"{_count(len(documents), 'document')}{' match the filter' if where else ''}:")
    draft.say(*(f"- {_name(source, title)}" for source, title, _ in documents[:MAX_NAMES]))
    _say_cut(draft, len(documents))
    return True


def _list_mentions(draft: _Draft, asked: DocumentQuestion, _: str, where: Where) -> bool:
    words = unquoted(asked.name)
    shown = repr(words)
    both = _BOTH.fullmatch(asked.name) if asked.asked is Asked.MENTION else None
    if both:
        parts = [_find_words(draft.reader, part, where) for part in both.groups()]
        found, shown = _in_both(*parts), " and ".join(repr(unquoted(part)) for part in both.groups())
    else:
        found = _find_words(draft.reader, asked.name if asked.asked is Asked.MENTION else words, where)
    documents = list(found.documents)
    if asked.asked is Asked.AUTHOR:
        documents = [matches for matches in documents if matches.spans[0][0] < BEGINNING_CHARS // 2]
        _list_documents(
            draft, documents, found, (f"names {shown} at its beginning", f"name {shown} at their beginning")
        )
    else:
        documents.sort(key=lambda matches: -matches.count)
        _list_documents(draft, documents, found, (f"mentions {shown}", f"mention {shown}"))
    plural = ", singular and plural" if len(number_forms(asked.name)) > 1 and asked.asked is Asked.MENTION else ""
    draft.say(f"Counted in the whole text of every document, as whole words, in any case{plural}.")
    return True


def _in_both(found: FoundText, other: FoundText) -> FoundText:
    """The documents that two look-ups have found, with the places of both."""
    others = {matches.source: matches for matches in other.documents}
    documents = tuple(
        replace(
            matches,
            count=matches.count + others[matches.source].count,
            spans=(*matches.spans, *others[matches.source].spans),
        )
        for matches in found.documents
        if matches.source in others
    )
    return FoundText(documents, min(found.searched, other.searched), found.complete and other.complete)


def _find_words(reader: DocumentReader, words: str, where: Where) -> FoundText:
    """The documents with whole words, with and without hyphens, in singular and plural, as a question names them."""
    spellings = {
        form
        for number in map(unquoted, number_forms(words))
        for form in (number, re.sub(r"(?<=\w)-(?=\w)", " ", number), re.sub(r"(?<=\w)\s+(?=\w)", "-", number))
    }
    first, *others = sorted(spellings)
    return reader.find_text(TextPattern(first, whole_words=True, spellings=tuple(others)), where)


def _list_dated(draft: _Draft, asked: DocumentQuestion, question: str, where: Where) -> bool:
    """The documents whose beginning, name or properties have a date of a year; False if none has."""
    dated: list[TextMatches] = []
    documents = draft.reader.documents(where)
    mentions = draft.reader.find_text(TextPattern(asked.name), where)
    mentioning = {matches.source for matches in mentions.documents}
    for source, title, _chunks in documents:
        document = draft.reader.document(source)
        if document is None:
            continue
        stated = _stated(draft, document, Asked.WHEN, question) if source in mentioning else None
        properties = "" if stated else stored_facts(document, Asked.WHEN)
        if stated and asked.name in _YEAR.findall(document.text[slice(*stated)]):
            dated.append(TextMatches(source, title, 0, (stated,)))
        elif asked.name in _YEAR.findall(f"{source.rpartition('/')[2]} {title} {properties}"):
            dated.append(TextMatches(source, title, 0, ((0, 0),)))
    if not dated:
        return False
    found = FoundText(tuple(dated), len(documents), mentions.complete)
    _list_documents(draft, dated, found, (f"is of {asked.name}", f"are of {asked.name}"))
    draft.say("Counted by the dates at the beginning of each document, in its name and its properties.")
    return True


def _stated(draft: _Draft, document: Document, asked: Asked, question: str) -> Span | None:
    """See `stated_facts`."""
    chunks = draft.reader.chunks_between(document.source, 0, BEGINNING_CHARS)
    return stated_facts(document, asked, question, find_prose(document, beginning_units(document, chunks)))


def _list_topic(draft: _Draft, asked: DocumentQuestion, _: str, where: Where) -> bool:
    """The documents with all words of a topic in their name, title, first line or a heading."""
    words = unquoted(asked.name)
    terms = name_terms(words)
    if not terms:
        return False
    found: list[TextMatches] = []
    documents = draft.reader.documents(where)
    for source, title, _chunks in documents:
        name = name_terms(f"{source.rpartition('/')[2]} {title}")
        document = None if terms <= name else draft.reader.document(source)
        headings = outline(document) if document is not None else []
        name |= name_terms(document.text[:_TITLE_CHARS]) if document is not None else set()
        at = next((section.start for section in headings if terms <= name_terms(section.title)), None)
        if terms <= name or at is not None:
            found.append(TextMatches(source, title, 0, ((at or 0, 0),)))
    of_all = FoundText(tuple(found), len(documents), complete=True)
    _list_documents(draft, found, of_all, (f"is about {words!r}", f"are about {words!r}"))
    mentions = _find_words(draft.reader, words, where)
    others = len({matches.source for matches in mentions.documents}.difference(matches.source for matches in found))
    more = f"{others:,} other{' mentions' if others == 1 else 's mention'} it in the text"
    draft.say(f"Counted by file name, title, first lines and headings; {more}.")
    return True


def _list_documents(draft: _Draft, documents: Sequence[TextMatches], found: FoundText, what: tuple[str, str]) -> None:
    """The documents, with what one of them does and what several do."""
    of_all = f"{len(documents):,} of {_count(found.searched, 'document')}"
    least = "" if found.complete else "The time was used up before all documents were read. At least "
    draft.say(f"{least}{of_all} {what[len(documents) != 1]}{':' if documents else '.'}")
    draft.is_abstention = not documents
    for matches in documents[:MAX_CITED]:
        document = draft.reader.document(matches.source)
        start, end = matches.spans[0]
        if document is None:
            continue
        start, end = _sentence_at(document.text, start, max(start, end)) if end else _line_at(document.text, start)
        times = f" ({_count(matches.count, 'time')})" if matches.count else ""
        quote = " ".join(document.text[start:end].split())
        draft.add(matches.source, start, end, f"- {_name(matches.source, matches.title)}{times}", quote)
    for matches in documents[MAX_CITED:MAX_NAMES]:
        times = f" ({_count(matches.count, 'time')})" if matches.count else ""
        draft.say(f"- {_name(matches.source, matches.title)}{times}")
    _say_cut(draft, len(documents))


def _sentence_at(text: str, start: int, end: int) -> Span:
    """The sentence around a place, at most 300 characters."""
    low, high = max(0, start - _REGION_CHARS), min(len(text), end + _REGION_CHARS)
    spans = [(low + a, low + b) for a, b in sentence_spans(text[low:high])]
    found = next(((a, b) for a, b in spans if a <= start < b), (start, end))
    return found if found[1] - found[0] <= 300 else (max(found[0], start - 100), min(found[1], end + 150))


def _line_at(text: str, start: int) -> Span:
    """The first line with text from an offset on."""
    while start < len(text) and text[start].isspace():
        start += 1
    end = text.find("\n", start)
    return start, min(len(text) if end < 0 else end, start + 200)


def _say_cut(draft: _Draft, count: int) -> None:
    if count > MAX_NAMES:
        draft.say(f"- and {count - MAX_NAMES:,} more, which are not named here")


def _name(source: str, title: str) -> str:
    """The displayed source, with a title that says more: "Abstract" is that of a document whose title was not found."""
    name = display_name(source)
    says_more = title and title.casefold() not in name.casefold() and not LEAD_HEADING.fullmatch(title)
    return f"{name}, {title}" if says_more else name


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


_Answer = Callable[[_Draft, DocumentQuestion, str, Where], bool]
_ANSWERS: dict[Asked, _Answer] = {
    **dict.fromkeys(Asked, _answer_about),
    Asked.ALL: _list_all,
    Asked.MENTION: _list_mentions,
    Asked.AUTHOR: _list_mentions,
    Asked.TOPIC: _list_topic,
    Asked.DATED: _list_dated,
    Asked.FIELD: _quote_field,
}

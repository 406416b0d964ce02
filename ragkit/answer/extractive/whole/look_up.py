"""Answers questions about whole documents without a search: from outlines, leads and complete look-ups."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ragkit.answer.base import Searcher
from ragkit.answer.extractive.question_kind import split_question
from ragkit.answer.extractive.quotes import ExtractiveAnswer, LookedUp, Quote
from ragkit.answer.extractive.selection import file_words
from ragkit.answer.extractive.units import strip_markup
from ragkit.answer.extractive.whole.dates import read_dates
from ragkit.answer.extractive.whole.draft import MAX_NAMES, DocumentReader, Draft, count_of, find_sources, name_of
from ragkit.answer.extractive.whole.lists import (
    MAX_CITED,
    list_all,
    list_authored,
    list_by_status,
    list_dated,
    list_mentions,
    list_newest,
    list_topic,
    newest,
    written_by,
)
from ragkit.answer.extractive.whole.names import (
    MIN_SUBJECT_TERMS,
    DocumentName,
    close_names,
    document_number,
    name_terms,
    names_no_other,
    read_name,
    read_release,
)
from ragkit.answer.extractive.whole.nouns import SERIES
from ragkit.answer.extractive.whole.parts import (
    BEGINNING_CHARS,
    LEAD_HEADING,
    beginning_units,
    central_sentences,
    decisions,
    differing_sentences,
    find_lead,
    find_prose,
    find_release,
    labelled_part,
    main_sections,
    named_part,
    outline,
    own_items,
    plain_words,
    stated_facts,
    stored_facts,
)
from ragkit.answer.extractive.whole.questions import Asked, DocumentQuestion, read_document_question
from ragkit.answer.extractive.whole.scope import MAX_SOURCES, Scope, find_scope, read_scope
from ragkit.answer.searchers.text_search import Span, TextPattern
from ragkit.errors import InvalidOption
from ragkit.index.sources.ids import display_name
from ragkit.records import Document, Where

OVER_ALL = frozenset({Asked.ALL, Asked.MENTION, Asked.TOPIC, Asked.AUTHOR, Asked.DATED, Asked.NEWEST, Asked.STATUS})
CENTRAL_SENTENCES = 3
MAX_DIFFERENCES = 6
"""Sentences of each of two documents that the other one lacks."""
MAX_DECISIONS = 10
_TITLE_TERMS = 4
"""Terms of a title that is one for certain, as "Updated baseline standards for Windows targets"."""
_DESCRIBED_CHARS = 600
"""Characters at the beginning of a document that may describe it in other words than its title."""
MIN_ITEMS, MAX_ITEMS = 2, 10
"""Items that say what minutes are about."""
_ASKS_HEADINGS = re.compile(r"\b(?:headings|überschriften|titres|títulos)\b", re.IGNORECASE)
_ASKS_COUNT = re.compile(r"^how many\b", re.IGNORECASE)
_STEMS = ("superseded", "supersedes", "replaces", "replaced", "obsoletes", "obsoleted", "amends", "amended")
_BY = re.compile(r"\W{0,4}by\b", re.IGNORECASE)
_OTHER = re.compile(rf"{SERIES}[ -]?#?\d+|\.(?:md|rst)\b|\[[^\]]{{1,200}}\]|^\W*\d{{1,5}}\W*$", re.IGNORECASE)
_SERIES_NAME = re.compile(rf"{SERIES}[ -]?#?\d+|\.(?:md|rst)\b", re.IGNORECASE)
"""What names another document."""


def look_up(question: str, searcher: Searcher, where: Where = None) -> LookedUp | None:
    """See `answer_whole`."""
    if not isinstance(searcher, DocumentReader):
        return None
    parts = split_question(question)
    joined = _look_up_parts(question, parts, searcher, where) if len(parts) > 1 else None
    return joined or _look_up_one(question, searcher, where)


def _look_up_one(question: str, searcher: DocumentReader, where: Where) -> LookedUp | None:
    asked, draft = read_document_question(question), Draft(searcher)
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
    draft = Draft(reader)
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
    found = [text] if any(source == text for source, _, _ in documents) else find_sources(text, documents)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(display_name(source) for source in found[:5])
        raise InvalidOption("document", text[:120], f"the path of one of {len(found)} documents: {names}")
    near = ", ".join(close_names(text, [source for source, _, _ in documents]))
    hint = f": did you mean {near}?" if near else "; `ragkit list` has all names"
    raise InvalidOption("document", text[:120], f"the source, file name or title of a document{hint}")


def _answer_about(  # noqa: PLR0911 - one per kind
    draft: Draft, asked: DocumentQuestion, question: str, where: Where
) -> bool:
    """Answer a question about one document, or two; False if it names none for certain."""
    release = read_release(asked.name) if asked.asked is Asked.WHEN else None
    if release and (_date_release(draft, *release, where) or not read_name(asked.name).is_file):
        return bool(draft.lines)
    documents = draft.reader.documents(where)
    sources = _named_sources(draft, asked, documents, where)
    if not sources:
        return bool(draft.lines)
    if asked.asked is Asked.CHANGES:
        return _compare(draft, sources)
    if asked.asked is Asked.CONTENT:
        return _describe(draft, sources[0])
    if asked.asked is Asked.SECTIONS:
        return _list_sections(draft, sources[0], of_all=_ASKS_HEADINGS.search(question) is not None)
    if asked.asked in (Asked.AGENDA, Asked.ATTENDEES):
        return _quote_part(draft, asked.asked, sources[0], question)
    if asked.asked is Asked.DECISIONS:
        return _quote_decisions(draft, sources[0])
    if asked.asked in (Asked.SUPERSEDED, Asked.SUPERSEDES):
        return _relate(draft, asked.asked, sources[0], where)
    if asked.asked is Asked.TITLE:
        return _say_title(draft, *next(document for document in documents if document[0] == sources[0])[:2])
    if asked.asked is Asked.SIZE:
        return _say_size(draft, asked.other, sources[0])
    if asked.other and (document := draft.reader.document(sources[0])) and (value := _property(document, asked.other)):
        draft.say(f"Properties of {display_name(sources[0])}: {asked.other}: {value}")
    return _state(draft, asked.asked, sources[0], question) or (
        read_name(asked.name).has_suffix and _say_unstated(draft, asked.asked, sources[0])
    )


_UNSTATED = {
    Asked.WHO: (
        "no author",
        re.compile(r"\b(?:aut(?:h?or|eur)|verfass|written by|prepared by|presented by)", re.IGNORECASE),
    ),
    Asked.WHEN: ("no date", re.compile(r"\b(?:19|20)\d\d\b")),
    Asked.VERSION: ("no version", re.compile(r"\b(?:versi|fassung|release|v\d)", re.IGNORECASE)),
}
"""What a document does not say if its whole text lacks the pattern."""


def _say_unstated(draft: Draft, asked: Asked, source: str) -> bool:
    """Say that a document has no author, date or version; False if its text may have one."""
    document = draft.reader.document(source)
    missing, pattern = _UNSTATED.get(asked, ("", re.compile("")))
    if document is None or pattern.search(document.text):
        return False
    draft.say(
        f"Not in these documents: {display_name(source)} names {missing}, and neither do the properties of the file."
    )
    draft.is_abstention = True
    return True


_SIZES = {"long": "pages", "slides": "pages", "seiten": "pages", "folien": "pages", "zeilen": "rows", "records": "rows"}


def _say_size(draft: Draft, unit: str, source: str) -> bool:
    """How many pages or rows a document has, as its file says; of text, its words and lines."""
    document = draft.reader.document(source)
    if document is None:
        return False
    unit = unit.lower()
    wanted = _SIZES.get(unit, unit)
    if count := document.metadata.get(wanted):
        draft.say(f"{display_name(source)} has {count} {wanted}.")
    elif unit in ("long", "words", "wörter", "lines"):
        words, lines = len(document.text.split()), document.text.count("\n") + 1
        draft.say(f"{display_name(source)} has {words:,} words in {lines:,} lines.")
    return bool(draft.lines)


def _named_sources(
    draft: Draft, asked: DocumentQuestion, documents: Sequence[tuple[str, str, int]], where: Where
) -> list[str]:
    """The sources of the documents that a question names; empty if one of them is not certain, which may be said."""
    sources = []
    for text in filter(None, (asked.name, asked.other if asked.asked is Asked.CHANGES else "")):
        name = read_name(text)
        found = _find(draft, text, documents, where)
        if names_no_other(text) and not found:
            found = [source for source, _, _ in documents]
            if len(found) > 1 and asked.asked in (Asked.CONTENT, Asked.SECTIONS):
                draft.say(f"{count_of(len(found), 'document')} are here; name one by its file name or title:")
                draft.say(*(f"- {name_of(source, title)}" for source, title, _ in documents[:MAX_CITED]))
                return []
        elif (
            asked.of_file
            and not name.is_file
            and len(name_terms(text)) < _TITLE_TERMS
            and not (len(found) == 1 and _has_authors(draft, asked, found[0]))
        ):
            return []
        if len(found) != 1:
            _say_which(draft, name, found, [source for source, _, _ in documents])
            return []
        sources.append(found[0])
    return sources


def _find(draft: Draft, text: str, documents: Sequence[tuple[str, str, int]], where: Where) -> list[str]:
    """The sources of the documents with a name, of an author, or the newest or oldest ones."""
    name = read_name(text)
    if name.order:
        return [head.source for head in (newest(draft, name, where) or ([], "", 0))[0]]
    if name.author:
        return [matches.source for matches in written_by(draft, name.author, where)[0]]
    return find_sources(text, documents) or _described(draft, name, where)


def _described(draft: Draft, name: DocumentName, where: Where) -> list[str]:
    """The one document that has the words of a subject at its beginning; empty where it is not one alone."""
    wanted = name_terms(name.topic) if name.is_file and not name.has_suffix and not name.is_quoted else set()
    if len(wanted) < MIN_SUBJECT_TERMS:
        return []
    heads = draft.reader.heads(where)
    found = [
        head.source
        for head in heads
        if wanted <= name_terms(f"{head.source.rpartition('/')[2]} {head.title} {head.text[:_DESCRIBED_CHARS]}")
    ]
    return found if len(found) == 1 else []


def _has_authors(draft: Draft, asked: DocumentQuestion, source: str) -> bool:
    """Whether "the authors of X" may mean a document with that title: its properties name its authors."""
    document = draft.reader.document(source) if asked.asked is Asked.WHO and asked.is_of_authors else None
    return document is not None and bool(stored_facts(document, Asked.WHO))


def _say_which(draft: Draft, name: DocumentName, found: Sequence[str], sources: Sequence[str]) -> None:
    """Say that no document, or more than one, has the name of a file; a title may mean something else."""
    if found and (name.is_file or len(found) <= 5):
        draft.say(f"{len(found)} documents have the name {name.text}; name one by its path:")
        draft.say(*(f"- {display_name(source)}" for source in found[:MAX_NAMES]))
    elif name.has_suffix and not found and not _ends_with_name(name.text, sources):
        near = close_names(name.text, sources)
        hint = f" Similar names: {', '.join(near)}." if near else ""
        draft.say(f"Not in these documents: none of {len(sources):,} has the name {name.text}.{hint}")
        draft.is_abstention = True


def _say_missing(draft: Draft, question: str, where: Where) -> None:
    """Say that no document has the name of the file that a question is asked of, or too many have."""
    asked = read_scope(question)
    if asked is None or not (asked.is_certain and asked.name.has_suffix):
        return
    documents = draft.reader.documents(where)
    found = find_sources(asked.text, documents)
    if not found or len(found) > MAX_SOURCES:
        _say_which(draft, asked.name, found, [source for source, _, _ in documents])


def _ends_with_name(text: str, sources: Sequence[str]) -> bool:
    """Whether words before the name of a document were taken for a part of it."""
    return any(text.lower().endswith(f" {source.rpartition('/')[2].lower()}") for source in sources)


def _describe(draft: Draft, source: str) -> bool:
    document = draft.reader.document(source)
    if document is None:
        return False
    is_own = _own_text(draft, source)
    people = named_part(document, Asked.ATTENDEES) or (0, 0)
    all_units = beginning_units(document, draft.reader.chunks_between(source, 0, BEGINNING_CHARS))
    units = [u for u in all_units if is_own(u.body) and not people[0] <= u.start < people[1]]
    items = own_items(document, is_own, MAX_ITEMS) if len(units) < len(all_units) - 1 else []
    lead = find_lead(document, units or all_units) if len(items) < MIN_ITEMS else None
    if lead is not None:
        draft.add(source, *lead, " ".join(strip_markup(document.text[slice(*lead)]).split()))
        chunks = draft.reader.central_chunks(source, 3 * CENTRAL_SENTENCES)
        for unit in central_sentences(document, chunks, draft.reader, CENTRAL_SENTENCES, lead, is_own):
            draft.add(source, unit.start, unit.end, f"- {' '.join(unit.body.split())}")
    for start, end in items if lead is None else ():
        draft.add(source, start, end, f"- {strip_markup(document.text[start + 1 : end]).strip()}")
    titles = [section.title.rstrip(":") for section in main_sections(document) if lead is not None]
    if len(titles) > 1:
        more = f" and {len(titles) - MAX_CITED} more" if len(titles) > MAX_CITED else ""
        draft.say(f"Sections: {'; '.join(titles[:MAX_CITED])}{more}.")
    return bool(draft.quotes)


def _own_text(draft: Draft, source: str) -> Callable[[str], bool]:
    """Whether a text of a document is its own: text of a template stands in both of its neighbors in the folder too."""
    folder = source.rpartition("/")[0]
    peers = [found for found, _, _ in draft.reader.documents() if found.rpartition("/")[0] == folder]
    at = peers.index(source) if source in peers else 0
    near = [*peers[max(0, at - 2) : at], *peers[at + 1 : at + 3]]
    found = (draft.reader.document(peer) for peer in near)
    texts = [plain_words(document.text) for document in found if document is not None]
    return lambda text: sum(plain_words(text) in other for other in texts) < 2


def _quote_part(draft: Draft, asked: Asked, source: str, question: str) -> bool:
    document = draft.reader.document(source)
    part = named_part(document, asked) if document is not None else None
    if document is not None and part is not None:
        text = strip_markup(document.text[slice(*part)]).strip()
        if _ASKS_COUNT.match(question):
            names = [name for name in re.split(r"[,;\n]", text.partition(":")[2] or text) if name.strip(" -*")]
            draft.say(f"{count_of(len(names), 'name')}, counted by commas and lines:")
        draft.add(source, *part, text)
    return bool(draft.quotes)


def _quote_decisions(draft: Draft, source: str) -> bool:
    """The section on decisions, or the lines that begin with "Decision:"; False without either."""
    document = draft.reader.document(source)
    for span in decisions(document)[:MAX_DECISIONS] if document is not None else []:
        draft.add(source, *span, strip_markup(document.text[slice(*span)]).strip() if document else "")
    return bool(draft.quotes)


def _relate(draft: Draft, asked: Asked, source: str, where: Where) -> bool:
    """The lines that say which document supersedes another one: in that document, or in the one that supersedes it."""
    document = draft.reader.document(source)
    if document is None:
        return False
    is_passive = asked is Asked.SUPERSEDED
    status = labelled_part(document, "superseded by") or labelled_part(document, "status") if is_passive else None
    if status and _OTHER.search(document.text[slice(*status)]):
        draft.add(source, *status, strip_markup(document.text[slice(*status)]).strip())
        return True
    number = document_number(source.rpartition("/")[2])
    file = re.escape(source.rpartition("/")[2])
    named = re.compile(rf"{file}|(?<![\w.])0*{number}(?![\w.]*\d)" if number else file, re.IGNORECASE)
    for matches in draft.reader.find_text(TextPattern(_STEMS[0], spellings=_STEMS[1:]), where).documents:
        other = draft.reader.document(matches.source)
        wanted = _SERIES_NAME if matches.source == source else named
        for start, end in matches.spans if other is not None else ():
            is_by = _BY.match(other.text, end) is not None if other else False
            span = _line_of(other.text, start) if other else (0, 0)
            if other and is_by is (is_passive is (other.source == source)) and wanted.search(other.text, end, span[1]):
                line = strip_markup(other.text[slice(*span)]).strip()
                draft.add(matches.source, *span, f"{name_of(other.source, other.title)}: {line}", line)
                break
    return bool(draft.quotes)


def _line_of(text: str, at: int) -> Span:
    start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    return start, len(text) if end < 0 else end


def _quote_field(draft: Draft, asked: DocumentQuestion, _: str, where: Where) -> bool:
    """What a document says of itself: "status: accepted", a section of that name or a property; False for others."""
    found = _find(draft, asked.name, draft.reader.documents(where), where)
    document = draft.reader.document(found[0]) if len(found) == 1 else None
    if document is None:
        return False
    if span := labelled_part(document, asked.other):
        draft.add(document.source, *span, strip_markup(document.text[slice(*span)]).strip(" |\n"))
        return True
    if LEAD_HEADING.fullmatch(asked.other) or asked.other in ("proposed", "recommended"):
        return _describe(draft, document.source)
    label = _key(asked.other)
    if label in {_key(section.title) for section in outline(document)}:
        draft.say(f"The section {asked.other!r} of {display_name(document.source)} is empty.")
        return True
    if value := _property(document, asked.other):
        draft.say(f"Properties of {display_name(document.source)}: {asked.other}: {value}")
    return bool(draft.lines)


def _property(document: Document, label: str) -> str:
    """What the front matter or the properties of a file say under a label; '' for nothing."""
    value = next((value for key, value in document.metadata.items() if _key(str(key)) == _key(label)), None)
    values = [str(item).strip() for item in (value if isinstance(value, list | tuple) else [value])]
    return ", ".join(values)[:300] if value is not None and any(values) and not isinstance(value, dict) else ""


def _key(label: str) -> str:
    return " ".join(label.replace("_", " ").replace("-", " ").split()).casefold()


def _say_title(draft: Draft, source: str, title: str) -> bool:
    document = draft.reader.document(source)
    at = document.text.find(title) if document is not None and title else -1
    if at >= 0:
        draft.add(source, at, at + len(title), title)
    elif title:
        draft.say(f"Properties of {display_name(source)}: title {title}")
    return bool(draft.lines)


def _list_sections(draft: Draft, source: str, *, of_all: bool) -> bool:
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


def _state(draft: Draft, asked: Asked, source: str, question: str) -> bool:
    """Who wrote a document, when, or its version, as its beginning or the properties of its file say."""
    document = draft.reader.document(source)
    if document is None:
        return False
    stored = stored_facts(document, asked)
    units = beginning_units(document, draft.reader.chunks_between(source, 0, BEGINNING_CHARS))
    found = stated_facts(document, asked, question, find_prose(document, units))
    if found:
        draft.add(source, *found, " ".join(strip_markup(document.text[slice(*found)]).split()).lstrip(":|# "))
    if stored and (not found or asked is Asked.WHO):
        draft.say(f"Properties of {display_name(source)}: {stored}")
    elif not found and asked is Asked.WHEN and (dates := read_dates(f"{source.rpartition('/')[2]} {document.title}")):
        draft.say(f"By its name: {dates[0]} ({name_of(source, document.title)})")
    return bool(draft.lines)


def _date_release(draft: Draft, product: str, version: str, where: Where) -> bool:
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


def _compare(draft: Draft, sources: Sequence[str]) -> bool:
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


_Answer = Callable[[Draft, DocumentQuestion, str, Where], bool]
_ANSWERS: dict[Asked, _Answer] = {
    **dict.fromkeys(Asked, _answer_about),
    Asked.ALL: list_all,
    Asked.MENTION: list_mentions,
    Asked.AUTHOR: list_authored,
    Asked.TOPIC: list_topic,
    Asked.DATED: list_dated,
    Asked.NEWEST: list_newest,
    Asked.STATUS: list_by_status,
    Asked.FIELD: _quote_field,
}

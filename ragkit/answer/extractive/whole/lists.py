"""Lists and counts of documents: complete look-ups over all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from os.path import commonpath

from ragkit.answer.extractive.whole.dates import is_within, read_dates, read_period
from ragkit.answer.extractive.whole.draft import (
    MAX_NAMES,
    DocumentReader,
    Draft,
    count_of,
    find_sources,
    name_of,
    say_cut,
)
from ragkit.answer.extractive.whole.names import (
    NUMBERED,
    DocumentName,
    document_number,
    is_series,
    name_terms,
    number_forms,
    read_name,
    unquoted,
)
from ragkit.answer.extractive.whole.nouns import PLAIN
from ragkit.answer.extractive.whole.parts import (
    BEGINNING_CHARS,
    beginning_units,
    find_prose,
    outline,
    stated_facts,
    status_line,
    stored_facts,
)
from ragkit.answer.extractive.whole.questions import Asked, DocumentQuestion
from ragkit.answer.searchers.text_search import FoundText, Span, TextMatches, TextPattern
from ragkit.records import Document, Where
from ragkit.split.sentence_segmentation import sentence_spans

MAX_CITED = 20
"""Documents of a look-up that are cited, and headings of an outline."""
_TITLE_CHARS = 200
"""Characters at the beginning of a text that name its topic, where a title is not known."""
_REGION_CHARS = 1000
_BOTH = re.compile(r"(?:both|sowohl|à la fois|tanto) (.+?) (?:and|als auch|et|como) (.+)", re.IGNORECASE)
_FOLDER = re.compile(r"\b(?:folder|directory)\b", re.IGNORECASE)
_ANY_KIND = re.compile(rf"{PLAIN}|(?:article|report)s?|berichte?", re.IGNORECASE)


def list_all(draft: Draft, asked: DocumentQuestion, question: str, where: Where) -> bool:
    """All documents, those of a folder, or those of a kind if half of all are of it."""
    documents = draft.reader.documents(where)
    folder = asked.name or asked.other
    kind = {source for source, _, _ in _of_kind(draft, asked.kind, where)} if asked.kind else set()
    if folder:
        documents = _in_folder(documents, folder)
    elif kind and 2 * len(kind) >= len(documents):
        documents = [document for document in documents if document[0] in kind]
    elif asked.kind:  # "How many reports are there?" may be about what the documents tell of
        kind = set() if question.lower().startswith("how many") else _called(draft, asked.kind, where)
        documents = [document for document in documents if document[0] in kind]
    if not documents:
        return False
    draft.say(f"{count_of(len(documents), 'document')}{' match the filter' if where else ''}:")
    draft.say(*(f"- {name_of(source, title)}" for source, title, _ in documents[:MAX_NAMES]))
    say_cut(draft, len(documents))
    if asked.kind and not folder:
        draft.say(
            f"Counted by file name, title and first lines: those with {asked.kind!r}, or with a number in its series."
        )
    return True


def _called(draft: Draft, kind: str, where: Where) -> set[str]:
    """The documents that have the words of a kind in their file name or title."""
    terms = name_terms(kind)
    return {
        source
        for source, title, _ in draft.reader.documents(where)
        if terms <= name_terms(f"{source.rpartition('/')[2]} {title}")
    }


def _split_kind(
    draft: Draft, kind: str, documents: Sequence[TextMatches], where: Where
) -> tuple[list[TextMatches], list[TextMatches], int]:
    """The documents that are of a kind, the others, and how many are of it in all; all are where none is called so."""
    known = {source for source, _, _ in _of_kind(draft, kind, where)} if kind else set()
    if not known:
        return list(documents), [], 0
    of_kind = [matches for matches in documents if matches.source in known]
    return of_kind, [matches for matches in documents if matches.source not in known], len(known)


def _in_folder(documents: Sequence[tuple[str, str, int]], name: str) -> list[tuple[str, str, int]]:
    folder = name.strip("\"'`“”/").lower()
    return [document for document in documents if f"/{folder}/" in document[0].lower()]


def _of_kind(draft: Draft, kind: str, where: Where) -> list[tuple[str, str, int]]:
    """The documents that are called a kind in their path, title or first lines, or have a number of its series."""
    terms, series = name_terms(kind), is_series(kind)
    found, heads = [], draft.reader.heads(where)
    root = _common_folder(heads)
    for head in heads:
        file = head.source.rpartition("/")[2]
        is_numbered = series and bool(document_number(file)) and not read_dates(file)
        path = head.source.removeprefix(root).rpartition("/")[0]
        if is_numbered or terms <= name_terms(f"{path} {file} {head.title} {head.text[:_TITLE_CHARS]}"):
            found.append((head.source, head.title, 0))
    return found


def list_authored(draft: Draft, asked: DocumentQuestion, _: str, where: Where) -> bool:
    """The documents that name an author at their beginning or in their properties."""
    shown = repr(unquoted(asked.name))
    documents, found = written_by(draft, asked.name, where)
    what = (f"names {shown} at its beginning", f"name {shown} at their beginning")
    _list_documents(draft, asked.kind, documents, found, what, where)
    draft.say("Counted in the beginning and the properties of every document, as whole words, in any case.")
    return True


def written_by(draft: Draft, name: str, where: Where = None) -> tuple[list[TextMatches], FoundText]:
    """The documents that name an author at their beginning or in their properties, and those that mention the name."""
    found = _find_words(draft.reader, unquoted(name), where)
    above = [matches for matches in found.documents if matches.spans[0][0] < BEGINNING_CHARS // 2]
    known, terms = {matches.source for matches in above}, name_terms(name)
    stored = [
        TextMatches(head.source, head.title, 0, ((0, 0),))
        for head in draft.reader.heads(where)
        if head.source not in known and terms <= name_terms(stored_facts(head, Asked.WHO))
    ]
    return sorted([*above, *stored], key=lambda matches: matches.source), found


def list_mentions(draft: Draft, asked: DocumentQuestion, _: str, where: Where) -> bool:
    """The documents that mention words, or both of two, with how often they do."""
    shown = repr(unquoted(asked.name))
    both = _BOTH.fullmatch(asked.name)
    if both:
        parts = [_find_words(draft.reader, part, where) for part in both.groups()]
        found, shown = _in_both(*parts), " and ".join(repr(unquoted(part)) for part in both.groups())
    else:
        found = _find_words(draft.reader, asked.name, where)
    documents = sorted(found.documents, key=lambda matches: -matches.count)
    _list_documents(draft, asked.kind, documents, found, (f"mentions {shown}", f"mention {shown}"), where)
    plural = ", singular and plural" if len(number_forms(asked.name)) > 1 else ""
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
    if numbered := NUMBERED.fullmatch(unquoted(words)):
        named = find_sources(words, reader.documents(where))
        numbers = [numbered["number"].zfill(width) for width in (1, 2, 3, 4)]
        spellings = {f"{numbered['series']}{gap}{number}" for gap in " -" for number in numbers}
        spellings.update(source.rpartition("/")[2] for source in named)
    else:
        spellings = {
            form
            for number in map(unquoted, number_forms(words))
            for form in (number, re.sub(r"(?<=\w)-(?=\w)", " ", number), re.sub(r"(?<=\w)\s+(?=\w)", "-", number))
        }
    first, *others = sorted(spellings)
    return reader.find_text(TextPattern(first, whole_words=True, spellings=tuple(others)), where)


def list_dated(draft: Draft, asked: DocumentQuestion, question: str, where: Where) -> bool:
    """The documents with a date in a period: in their name, in their properties or at their beginning.

    False if none has, unless most documents have a date in their names.
    """
    period = read_period(asked.name)
    mentions = draft.reader.find_text(TextPattern(period[:4].strip("-") or asked.name), where)
    mentioning = {matches.source for matches in mentions.documents}
    dated: list[TextMatches] = []
    heads = draft.reader.heads(where)
    named, root = 0, _common_folder(heads)
    for head in heads:
        names = read_dates(f"{head.source.rpartition('/')[2]} {head.title}")
        dates = [date for date in names if len(date) > 4]  # a number alone may be no year
        named += bool(dates)
        may_state = head.source in mentioning or period.startswith("-")
        stated = stated_date(draft, head, question) if not dates and may_state else None
        said = read_dates(stated[1]) if stated else []
        dates = dates or said or read_dates(stored_facts(head, Asked.WHEN)) or names or _folder_dates(head.source, root)
        if is_within(dates, period):
            dated.append(TextMatches(head.source, head.title, 0, (stated[0] if stated and said else (0, 0),)))
    if not period or not (dated or 2 * named > len(heads)):
        return False
    found = FoundText(tuple(dated), len(heads), mentions.complete)
    _list_documents(draft, asked.kind, dated, found, (f"is of {asked.name}", f"are of {asked.name}"), where)
    draft.say("Counted by the dates at the beginning of each document, in its name, its properties and its folder.")
    return True


def _common_folder(heads: Sequence[Document]) -> str:
    folders = {head.source.rpartition("/")[0] for head in heads}
    return commonpath(folders) if folders and all(folder.startswith("/") for folder in folders) else ""


def _folder_dates(source: str, root: str) -> list[str]:
    """The years that folders are named after, below what all documents have in common."""
    parts = source.removeprefix(root).split("/")[:-1]
    return [part for part in parts if read_period(part)]


def stated_date(draft: Draft, head: Document, question: str) -> tuple[Span, str] | None:
    """Where the beginning or the end of a document says when it was written, and what it says."""
    document = head
    span = stated_facts(head, Asked.WHEN, question, None)
    if span is None:
        found = draft.reader.document(head.source)
        if found is None:
            return None
        document, chunks = found, draft.reader.chunks_between(head.source, 0, BEGINNING_CHARS)
        span = stated_facts(document, Asked.WHEN, question, find_prose(document, beginning_units(document, chunks)))
    return (span, document.text[slice(*span)]) if span else None


def list_newest(draft: Draft, asked: DocumentQuestion, _: str, where: Where) -> bool:
    """The newest or the oldest documents by their dates; False unless half of the documents have one."""
    name = (
        asked.name
        if read_name(asked.name).order
        else f"the {asked.name.removeprefix('am ')} {asked.kind or 'document'}"
    )
    found = newest(draft, read_name(name), where)
    if not found:
        return False
    heads, date, count = found
    every = {head.source: head.title for head in heads}
    draft.say(f"{name[0].upper()}{name[1:]}, by date ({date}), of {count_of(count, 'document')} with a date:")
    for source, title in list(every.items())[:MAX_CITED]:
        document = draft.reader.document(source)
        start, end = _line_at(document.text, 0) if document else (0, 0)
        draft.add(source, start, end, f"- {name_of(source, title)}", document.text[start:end] if document else "")
    draft.say("By the dates in names and properties and at the beginning of documents.")
    return True


def newest(draft: Draft, name: DocumentName, where: Where = None) -> tuple[list[Document], str, int] | None:
    """The newest or oldest documents, their date, and how many have one; None unless half of those of the kind have."""
    heads = draft.reader.heads(where)
    if not _ANY_KIND.fullmatch(name.kind):
        sources = {source for source, _, _ in _of_kind(draft, name.kind, where)}
        noun = name.kind.rpartition(" ")[2]
        if not sources or (noun == name.kind and 2 * len(sources) < len(heads)):
            return None
        heads = [head for head in heads if head.source in sources]
    dated = [(date, head) for head in heads if (date := _date_of(head))]
    if 2 * len(dated) < len(heads):
        return None
    dated = [(date, head) for date, head in dated if date.startswith(name.date)]
    if not dated:
        return None
    best = max(date for date, _ in dated) if name.order == "newest" else min(date for date, _ in dated)
    return [head for date, head in dated if date == best], best, len(dated)


def _date_of(head: Document) -> str:
    """The date of a document by its name, its title, its properties or its beginning; '' for none."""
    file = f"{head.source.rpartition('/')[2]} {head.title}"
    stated = stated_facts(head, Asked.WHEN, "", None)
    texts = (file, stored_facts(head, Asked.WHEN), head.text[slice(*stated)] if stated else "")
    return next((date for text in texts for date in read_dates(text)[:1] if len(date) > 4), "")


def list_by_status(draft: Draft, asked: DocumentQuestion, _: str, where: Where) -> bool:
    """The documents whose status says a word; False if none of those with the word has a status."""
    found: list[TextMatches] = []
    mentions = draft.reader.find_text(TextPattern(asked.name.removesuffix("s")), where)
    wanted, is_stated = name_terms(asked.name), False
    for matches in mentions.documents:
        document = draft.reader.document(matches.source)
        span = status_line(document) if document else None
        is_stated = is_stated or span is not None
        if document and span and wanted <= name_terms(document.text[slice(*span)]):
            found.append(TextMatches(matches.source, matches.title, 0, (span,)))
    known = {matches.source for matches in found}
    for head in draft.reader.heads(where):
        status = head.metadata.get("status")
        is_stated = is_stated or isinstance(status, str)
        if head.source not in known and isinstance(status, str) and wanted <= name_terms(status):
            found.append(TextMatches(head.source, head.title, 0, ((0, 0),)))
    if not is_stated:
        return False
    what = f"the status {asked.name!r}"
    of_all = replace(mentions, documents=tuple(found))
    _list_documents(draft, asked.kind, found, of_all, (f"has {what}", f"have {what}"), where)
    draft.say("Counted by the field or the section `Status` of each document.")
    return True


def list_topic(draft: Draft, asked: DocumentQuestion, _: str, where: Where) -> bool:
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
    if asked.other and not found:  # "Which document explains X?" may be one on what is in them
        return False
    of_all = FoundText(tuple(found), len(documents), complete=True)
    _list_documents(draft, asked.kind, found, of_all, (f"is about {words!r}", f"are about {words!r}"), where)
    mentions = _find_words(draft.reader, words, where)
    others = len({matches.source for matches in mentions.documents}.difference(matches.source for matches in found))
    more = f"{others:,} other{' mentions' if others == 1 else 's mention'} it in the text"
    draft.say(f"Counted by file name, title, first lines and headings; {more}.")
    return True


def _list_documents(
    draft: Draft, kind: str, documents: Sequence[TextMatches], found: FoundText, what: tuple[str, str], where: Where
) -> None:
    """The documents of a kind, with what one of them does and what several do, then the names of others."""
    documents, others, count = _split_kind(draft, kind, documents, where)
    if documents or not others:
        searched = f"{count_of(count, 'document')} called {kind!r}" if others else count_of(found.searched, "document")
    else:
        documents, others, searched = others, [], count_of(found.searched, "document")
    of_all = f"{len(documents):,} of {searched}"
    least = "" if found.complete else "The time was used up before all documents were read. At least "
    draft.say(f"{least}{of_all} {what[len(documents) != 1]}{':' if documents else '.'}")
    draft.is_abstention = not documents
    for matches in documents[:MAX_CITED]:
        document = draft.reader.document(matches.source)
        start, end = matches.spans[0]
        if document is None:
            continue
        start, end = _sentence_at(document.text, start, max(start, end)) if end else _line_at(document.text, start)
        times = f" ({count_of(matches.count, 'time')})" if matches.count else ""
        quote = " ".join(document.text[start:end].split())
        draft.add(matches.source, start, end, f"- {name_of(matches.source, matches.title)}{times}", quote)
    for matches in documents[MAX_CITED:MAX_NAMES]:
        times = f" ({count_of(matches.count, 'time')})" if matches.count else ""
        draft.say(f"- {name_of(matches.source, matches.title)}{times}")
    say_cut(draft, len(documents))
    if others:
        names = "; ".join(name_of(matches.source, matches.title) for matches in others[:MAX_CITED])
        more = f" and {len(others) - MAX_CITED} more" if len(others) > MAX_CITED else ""
        draft.say(f"Others that are not called so: {names}{more}.")


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

"""What a document as a whole is: its outline, its lead, its central sentences, and what its beginning says of it.

Found in the indexed text when they are asked for, so that nothing is stored and nothing has to be migrated.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from ragkit.answer.base import Searcher
from ragkit.answer.extractive.units import AnswerUnit, UnitKind, extract_answer_units
from ragkit.answer.extractive.whole.dates import read_dates
from ragkit.answer.extractive.whole.questions import Asked
from ragkit.answer.searchers.text_search import Span
from ragkit.lexical.analyzer import extract_terms
from ragkit.places import describe_place
from ragkit.records import TABLE_LEVEL, Chunk, Document, Hit

BEGINNING_CHARS = 6000
"""Characters at the beginning of a document in which a lead, authors, dates and versions are looked for."""
LEAD_CHARS = 700
"""Characters of a lead, up to the end of a sentence."""
BYLINE_CHARS = 300
MAX_SENTENCE_CHARS = 400
_MAX_GAP_CHARS = 200
"""Between two sentences of a lead."""
MAX_TERMS = 40
"""The most frequent words of a document that make a sentence central."""

_LEAD_NAMES = (
    r"abstract|summary|executive summary|overview|introduction|synopsis|zusammenfassung|kurzfassung|überblick"
    r"|einleitung|résumé|introduction générale|aperçu|resumen|introducción|visión general"
)
LEAD_HEADING = re.compile(
    rf"^[# \t*_]*+(?:\d+\.?[ \t]+)?({_LEAD_NAMES})[*_]*(?:\s*[:.—–-]+\s*|\s*$)", re.IGNORECASE | re.MULTILINE
)
"""A line that is the heading of an abstract, a summary or an introduction; the group has its name."""
_MANUAL_PAGE = re.compile(r"^NAME\n(?:.*\n){1,80}?DESCRIPTION$", re.MULTILINE)
_STRONG_LEADS = frozenset(
    {"abstract", "summary", "executive summary", "zusammenfassung", "kurzfassung", "résumé", "resumen"}
)
"""Before an introduction or an overview, which may come first."""
_NO_PROSE = re.compile(
    r"@|©|^\[\d{1,3}\]\s|\bcopyright\b|all rights reserved|permission (?:to|is)|redistribution and use|warrant(?:y|ies)\b|\bISBN\b|\bdoi\b|\blicen[cs]ed?\b|https?://\S+$"
    r"|^\W*(?:table of )?contents\b|this (?:document|page) (?:is|was) (?:generated|licensed)|\bDOI:",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(?:\d{1,2}|[IVX]{1,4})\.?\s")
_COUNTED = re.compile(r"0?(\d{1,2})(?:[.:]|\b)(?!\d|\.\d)\s+(?=[^\W\d_])")
_MIN_NUMBERED = 3
_PAGE_LABEL = re.compile(r"(?:slide|page|folie|seite|diapositiv[ea]|página)\W{0,2}\d+", re.IGNORECASE)
"""A bookmark that says no more than the page does."""
_SLIDES = frozenset({"odp", "pptx"})
_MIN_SLIDES = 4
_SLIDE_CHARS = 700
"""On average; a page of prose has 2,000 and more."""
_SUBSECTION = re.compile(r"\d{1,2}\.\d")
_WORD = re.compile(r"[^\W\d_]{2,}")
_LEANS_BACK = re.compile(
    r"\W*(?:this|these|those|it|they|he|she|such|here|however|also|therefore|thus|but|so|otherwise|dies\w*|es|sie|er|damit"
    r"|jedoch|daher|ce(?:la|ci)?|ces|cette|il|elles?|ils|cependant|esto|estos|esta|estas|sin embargo|por eso)\b",
    re.IGNORECASE,
)
"""A sentence that needs the one before it."""
_END = re.compile(r"[.!?…。！？][\"'”’»)\]*_`]*$")


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """A heading of a document, with its section."""

    title: str
    level: int
    """1 is the highest."""
    start: int
    """Offset of the heading in the text of the document."""
    end: int
    """Where its section ends, with the sections below it."""
    place: str
    """Where the heading stands: `line 48`, `page 3`."""


def outline(document: Document) -> list[DocumentSection]:
    """The headings in order; empty for a document without headings. Column names of tables are none."""
    headings = [
        heading
        for heading in document.headings
        if heading.level != TABLE_LEVEL and heading.text.strip() and not _PAGE_LABEL.fullmatch(heading.text.strip())
    ]
    sections, line, at = [], 1, 0
    for i, heading in enumerate(headings):
        line += document.text.count("\n", at, heading.start)
        at = heading.start
        ends = (later.start for later in headings[i + 1 :] if later.level <= heading.level)
        place = describe_place(document, heading.start, heading.start + 1, (line, line))
        title = " ".join(heading.text.split())
        sections.append(DocumentSection(title, heading.level, heading.start, next(ends, len(document.text)), place))
    return sections


def main_sections(document: Document) -> list[DocumentSection]:
    """The highest headings of which there are several; a heading above all others is the title.

    Where headings are numbered, "2.1" is below "2" whatever its level is: pages of a PDF hardly tell levels.
    """
    sections = outline(document)
    if document.page_starts and (numbered := _numbered_through(sections)):
        return numbered
    for level in sorted({section.level for section in sections}):
        found = [section for section in sections if section.level == level]
        if len(found) > 1:
            upper = [section for section in found if not _SUBSECTION.match(section.title)]
            return upper if sum(bool(_NUMBERED.match(section.title)) for section in upper) > 1 else found
    return sections


def _numbered_through(sections: Sequence[DocumentSection]) -> list[DocumentSection]:
    """The headings that are numbered from 1 on, each number once, whatever their levels are; empty if others are too.

    Sizes of letters make headings of the figures in a chart, too.
    """
    found = [(match, section) for section in sections if (match := _COUNTED.match(section.title))]
    numbers = [int(match[1]) for match, _ in found]
    is_whole = len(numbers) >= _MIN_NUMBERED and numbers == list(range(1, len(numbers) + 1))
    return [section for _, section in found] if is_whole else []


def beginning_units(document: Document, chunks: Sequence[Chunk]) -> list[AnswerUnit]:
    """The sentences at the beginning of a document, in order; `chunks` are its first ones."""
    units = extract_answer_units([Hit(chunk, 0.0) for chunk in chunks], lambda _: document)
    kinds = (UnitKind.SENTENCE, UnitKind.ENTRY)
    return sorted((unit for unit in units if unit.kind in kinds), key=lambda unit: unit.start)


_PART_NAMES = {
    Asked.AGENDA: re.compile(
        r"agenda(?: items?| topics?)?|topics|tagesordnung(?:spunkte)?|ordre du jour|orden del día|temario",
        re.IGNORECASE,
    ),
    Asked.ATTENDEES: re.compile(
        r"attendees|attendance|participants|(?:members |people )?(?:present|attending)|in attendance"
        r"|teilnehmer(?:innen|\*innen)?|teilnehmende|anwesende?|présents|asistentes|participantes",
        re.IGNORECASE,
    ),
}


def named_part(document: Document, asked: Asked) -> Span | None:
    """What stands below the heading of an agenda or of the people present, or behind such a label; None without one."""
    return _part(document, lambda title: _PART_NAMES[asked].fullmatch(title) is not None)


_DECISION = re.compile(
    r"decisions?(?: made| taken)?|resolutions?|outcomes?|conclusions?|beschl(?:uss|üsse)|entscheidung(?:en)?|décisions?"
    r"|decisi[oó]n(?:es)?",
    re.IGNORECASE,
)
_DECIDED = re.compile(
    r"^[ \t]{0,12}(?:[-*+][ \t]+|>[ \t]*)?[*_]{0,3}(?:decision|decided|conclusion|resolution|resolved|agreed|beschluss"
    r"|décision|decisión)[*_]{0,3}[ \t]?:.*",
    re.IGNORECASE | re.MULTILINE,
)


_AGREED = re.compile(
    r"^[ \t]{0,12}[-*+][ \t]+(?=[^\n]{0,200}\b(?:agreed|decided|consensus|resolved|approved)\b).*",
    re.IGNORECASE | re.MULTILINE,
)


def decisions(document: Document) -> list[Span]:
    """The section on decisions, else lines that begin with "Decision:", else list items on what was agreed."""
    part = _part(document, lambda title: _DECISION.fullmatch(title) is not None, labels=False)
    found = [part] if part else [match.span() for match in _DECIDED.finditer(document.text)]
    return found or [match.span() for match in _AGREED.finditer(document.text)]


def labelled_part(document: Document, label: str) -> Span | None:
    """What a document says behind a label at its beginning, below a heading or in a row of a table."""
    wanted = set(extract_terms(label))
    if not wanted:
        return None
    return _part(document, lambda title: set(extract_terms(title)) == wanted) or _part(
        document, lambda title: _has_one_more(set(extract_terms(title)), wanted), labels=False
    )


def _has_one_more(terms: set[str], wanted: set[str]) -> bool:
    return wanted < terms and len(terms) == len(wanted) + 1


_LABEL = re.compile(
    r"^[ \t]{0,8}[*#>|-]{0,3}[ \t]{0,4}(?P<line>(?P<bold>\*\*|__)?(?P<label>[^\W\d_][\w /'-]{1,39}?)"
    r"(?:[ \t]{0,20}[:|](?:\*\*|__)?|(?:\*\*|__)[ \t]?[:|]?)[ \t]{0,8}(?P<value>\S.*)?)$",
    re.MULTILINE,
)
"""A line with a label: `Status: final`, `**Present** Ada, Bo`, `| Status | final |`."""


def status_line(document: Document) -> Span | None:
    """The status that a document says it has, in one line of a few words."""
    span = _part(document, lambda title: title.casefold() in ("status", "state", "estado", "statut"))
    if span is None:
        return None
    line = document.text[slice(*span)].split("\n", 1)[0].rstrip(" \t|")
    return (span[0], span[0] + len(line)) if len(line) <= _STATUS_CHARS else None


_STATUS_CHARS = 120
_RULE = re.compile(r"(?<=\n\n)[ \t]{0,3}(?:-{3,}|\*{3,}|_{3,})[ \t]*$", re.MULTILINE)
"""A line across the page ends what stands above it."""
_UNDERLINE = re.compile(r"\n[ \t]*([-=~^\"'`*+#.:_])\1{2,200}[ \t]*(?=\n)")


def _part(document: Document, is_label: Callable[[str], bool], *, labels: bool = True) -> Span | None:
    """What stands behind the first such label at the beginning, or below the first such heading, whichever is first."""
    found = [
        span for span in (_behind_label(document, is_label) if labels else None, _below(document, is_label)) if span
    ]
    return min(found, default=None)


def _behind_label(document: Document, is_label: Callable[[str], bool]) -> Span | None:
    for match in _LABEL.finditer(document.text[:BEGINNING_CHARS]):
        if is_label(match["label"].strip()):
            if match["value"]:
                return match.span("line")
            below = _lines_from(document.text, match.end(), min(match.end() + LEAD_CHARS, len(document.text)))
            if below and "\n\n" not in document.text[match.end() : below[0]].rstrip(" \t"):
                return below
    return None


def _below(document: Document, is_label: Callable[[str], bool]) -> Span | None:
    for section in outline(document):
        begin = document.text.find("\n", section.start)
        if begin >= 0 and is_label(_NUMBERED.sub("", section.title, count=1).strip(" :")):
            underline = _UNDERLINE.match(document.text, begin)
            begin = underline.end() if underline else begin
            rule = _RULE.search(document.text, begin, section.end)
            if span := _lines_from(document.text, begin, rule.start() if rule else section.end):
                return span
    return None


def _lines_from(text: str, start: int, end: int) -> Span | None:
    """The whole lines from an offset on that have at most LEAD_CHARS; None if nothing is there."""
    lines = [(start + a, start + b) for a, b in _line_spans(text[start:end])]
    kept = [span for span in lines if span[1] - lines[0][0] <= LEAD_CHARS] or lines[:1]
    return (kept[0][0], kept[-1][1]) if kept else None


def _line_spans(text: str) -> list[Span]:
    return [match.span() for match in re.finditer(r"\S.*", text)]


def is_deck(document: Document) -> bool:
    """Whether pages are slides: they have few words, and hardly sentences."""
    if document.format in _SLIDES:
        return True
    pages = len(document.page_starts)
    return pages >= _MIN_SLIDES and len(document.text) < _SLIDE_CHARS * pages


_LINK = re.compile(r"https?://\S{1,500}")


def own_items(document: Document, is_own: Callable[[str], bool], count: int) -> list[Span]:
    """The first items of the outermost lists: what minutes are about, whose headings are those of a template."""
    people = named_part(document, Asked.ATTENDEES) or (0, 0)
    items = (match.span() for match in re.finditer(r"(?<=\n)[-*+][ \t]+\S.*", document.text))
    told = (
        (a, min(b, a + MAX_SENTENCE_CHARS // 2))
        for a, b in items
        if not people[0] <= a < people[1]
        and len(_WORD.findall(_LINK.sub("", document.text[a:b]))) > 2
        and is_own(document.text[a + 1 : b])
    )
    return list(islice(told, count))


_CALLOUT = re.compile(r"^>[ \t\[!]*(?:NOTE|TIP|IMPORTANT|WARNING|CAUTION)\b\]?[ \t]*(?:\n>.*)*", re.MULTILINE)
"""A note beside the text in Markdown, `> [!IMPORTANT]`: what it says is no summary."""


def find_lead(document: Document, units: Sequence[AnswerUnit]) -> Span | None:
    """The abstract or summary of a document, the agenda of a meeting, the first slides, else the first sentences.

    As offsets; None without a sentence.

    Args:
        document: with its indexed text.
        units: from `beginning_units`.
    """
    if agenda := named_part(document, Asked.AGENDA):
        return agenda
    if is_deck(document):
        return _lines_from(document.text, 0, BEGINNING_CHARS)
    return find_prose(document, units)


def find_prose(document: Document, units: Sequence[AnswerUnit]) -> Span | None:
    """The abstract or summary of a document, else its first sentences, as offsets; see `find_lead`."""
    begin = _lead_start(document)
    notes = [note.span() for note in _CALLOUT.finditer(document.text[:BEGINNING_CHARS])]
    units = [unit for unit in units if not any(start <= unit.start < end for start, end in notes)]
    after = [unit for unit in units if unit.end > begin]
    is_text = _is_text if begin else _is_prose
    first = next((unit for unit in after if is_text(unit.body) and not _introduces(unit)), None)
    first = first or next((unit for unit in units if _is_prose(unit.body)), units[0] if units else None)
    if first is None:
        return None
    start, end = max(first.start, begin) if first.end > begin else first.start, first.end
    told = end
    for unit in units:
        if unit.start < end:
            continue
        is_near = unit.start - end < _MAX_GAP_CHARS and unit.heading_context == first.heading_context
        if not is_near or unit.end - start > LEAD_CHARS:
            break
        end = unit.end
        told = told if _introduces(unit) else end
    return start, told


def _introduces(unit: AnswerUnit) -> bool:
    """Whether a unit says nothing without the list, table or code below it."""
    return unit.body.rstrip().endswith(":")


def _lead_start(document: Document) -> int:
    """Where an abstract, a summary or an introduction begins; 0 without one."""
    if manual := _MANUAL_PAGE.search(document.text[:BEGINNING_CHARS]):
        return manual.end()
    found = list(LEAD_HEADING.finditer(document.text[:BEGINNING_CHARS]))
    strong = [match for match in found if match[1].lower() in _STRONG_LEADS]
    return (strong or found)[0].end() if found and (strong or document.page_starts) else 0


def _is_text(text: str) -> bool:
    """Whether a line below "Abstract" has words of its own, and no address or note on rights."""
    return len(_WORD.findall(text)) >= 5 and not _NO_PROSE.search(text)


def _is_prose(text: str) -> bool:
    """Whether a text is a sentence rather than a title, names, an address, a formula or a note on rights."""
    words = _WORD.findall(text)
    small = sum(word[0].islower() for word in words)
    if len(words) < 5 or 5 * small < 2 * len(words) or text.count("=") > 1 or _NO_PROSE.search(text):
        return False
    return bool(_END.search(text.strip())) or text.rstrip().endswith(":") or len(words) > 10


def central_sentences(
    document: Document,
    chunks: Sequence[Chunk],
    searcher: Searcher,
    count: int,
    without: tuple[int, int] = (0, 0),
    is_own: Callable[[str], bool] = lambda _: True,
) -> list[AnswerUnit]:
    """The sentence of each central chunk that shares most with the whole document, in its order.

    Args:
        document: with its indexed text.
        chunks: its central chunks, the most central first.
        searcher: knows how rare words are.
        count: sentences at most.
        without: a part of the text that is told already.
        is_own: whether a text is none of a template.
    """
    weights = _term_weights(document, searcher)
    best: list[AnswerUnit] = []
    told = set(extract_terms(document.text[without[0] : without[1]]))
    for chunk in chunks:
        units = extract_answer_units([Hit(chunk, 0.0)], lambda _: document)
        sentences = [
            unit
            for unit in units
            if unit.kind is UnitKind.SENTENCE
            and 40 <= len(unit.body) <= MAX_SENTENCE_CHARS
            and _is_prose(unit.body)
            and not unit.body[0].islower()
            and is_own(unit.body)
            and not (unit.start < without[1] and without[0] < unit.end)
            and all(unit.start >= other.end or other.start >= unit.end for other in best)
        ]
        sentences = [unit for unit in sentences if not _LEANS_BACK.match(unit.body)] or sentences
        scored = [(_share(unit, weights, told), unit) for unit in sentences]
        if scored:
            best.append(max(scored, key=lambda pair: (pair[0], -pair[1].start))[1])
            told.update(extract_terms(best[-1].body))
        if len(best) == count:
            break
    return sorted(best, key=lambda unit: unit.start)


def _share(unit: AnswerUnit, weights: dict[str, float], told: set[str]) -> float:
    """How much of the document's words a sentence has, for its length; words that were told count half."""
    terms = set(extract_terms(unit.body))
    weight = sum(weights.get(term, 0.0) * (0.5 if term in told else 1.0) for term in terms)
    return weight / (8 + len(terms))


def _term_weights(document: Document, searcher: Searcher) -> dict[str, float]:
    """The words that are frequent in a document and rare elsewhere."""
    counts = Counter(extract_terms(document.text[:200_000]))
    terms = [term for term, _ in counts.most_common(4 * MAX_TERMS)]
    rarity = searcher.term_weights(terms).tolist()
    scored = {term: (counts[term] ** 0.5) * weight for term, weight in zip(terms, rarity, strict=True)}
    return dict(sorted(scored.items(), key=lambda pair: -pair[1])[:MAX_TERMS])


_LABELS = {
    Asked.WHO: (
        r"(?:original |main |corresponding )?authors?|written by|by|autor(?:in|en|es|a)?|verfasser(?:in)?|auteurs?"
        r"|von|par|por|creator"
    ),
    Asked.WHEN: (
        r"date|when|created|published|released?(?: date)?|last[ -](?:updated|modified|revised|changed)|updated|modified"
        r"|revised|issued|submitted|datum|stand|veröffentlicht|erstellt|geändert|fecha|publicado|publié|créé|mis à jour"
    ),
    Asked.VERSION: r"(?:document |file )?(?:version|revision|release|edition|fassung|auflage|versión|édition)",
}
_LABELLED = {
    asked: re.compile(
        rf"^[ \t#>*_:\-|]*(?P<line>(?:{labels})[*_]*(?:[ \t]*:[*_]*[ \t]*|[ \t]+(?=(?-i:[A-Z])|\d))"
        r"(?P<value>\S.*(?:\n[ \t]+\S.*)*))",
        re.IGNORECASE | re.MULTILINE,
    )
    for asked, labels in _LABELS.items()
}
_MONTH = r"jan|feb|mär|mar|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz]|janv|févr?|avril|juin|juil|août|ene|abr|ago|dic"
_DATE = re.compile(
    rf"(?<![\w-])(?:\d{{1,2}}(?:st|nd|rd|th|\.)?[ -](?:de |of )?(?:{_MONTH})\w*\.?,?[ -](?:de )?(?:19|20)\d\d\b"
    rf"|(?:{_MONTH})\w*\.? \d{{1,2}}(?:st|nd|rd|th)?,? (?:19|20)\d\d\b|(?:{_MONTH})\w*\.?,? (?:19|20)\d\d\b"
    r"|(?:19|20)\d\d[-/.]\d\d?[-/.]\d\d?\b|\d\d?[./]\d\d?[./](?:19|20)\d\d\b)",
    re.IGNORECASE,
)
_VERSION = re.compile(
    r"\b(?:version|revision|release|rev\.?|v|fassung|auflage|versión|édition) ?\d+(?:\.\d+)*\b", re.IGNORECASE
)
_NAME = re.compile(r"[A-ZÀ-Þ][\w.'’-]{0,40},? (?:[A-ZÀ-Þ]\.? |(?:van|von|de|der|di) ){0,6}[A-ZÀ-Þ]\w")
_BYLINE = re.compile(rf"(?:\bby|^(?:von|par|por)|\bpor)\s+(?:the\s+)?[*_\[]*(?={_NAME.pattern})", re.MULTILINE)
_DATA_FORMATS = frozenset({"csv", "json", "jsonl", "ods", "parquet", "tsv", "xls", "xlsx"})
"""Their lines say nothing of the document."""
_YEAR = re.compile(r"(?:19|20)\d\d")
_DATE_KEY = re.compile(r"(?<![a-z])(?:date|started|created|published|updated?|modified)(?![a-z])")
_DATED_PATH = re.compile(r"/?(?:[\w-]{1,20}/)?(?:19|20)\d\d[-/]\d\d[-/]\d\d(?!\d)")
"""The address of a post, in its front matter: `path = "2022/10/28/locks"`."""
_OTHER_KEYS = frozenset({"source", "name", "title", "links"})
_KEYS = {
    Asked.WHO: ("author", "authors", "creator"),
    Asked.WHEN: ("date", "published", "created", "updated", "last_modified", "modified"),
    Asked.VERSION: ("version", "revision", "edition"),
}


def stated_facts(document: Document, asked: Asked, question: str, lead: Span | None) -> Span | None:
    """Where the beginning of a document says who wrote it, when, or which version it is.

    A line with a label comes first, that of the question's own word before others ("created"); then a byline, a date or
    a version before the first sentence; for a date also a line with a label at the end.
    """
    if document.format in _DATA_FORMATS:
        return None
    text = document.text[:BEGINNING_CHARS]
    head = lead[0] if lead and lead[0] < BEGINNING_CHARS else 0
    labelled = [match for match in _LABELLED[asked].finditer(text) if match.start() < max(head, 1500)]
    if asked is Asked.WHEN:
        tail = _LABELLED[asked].finditer(document.text, max(BEGINNING_CHARS, len(document.text) - BEGINNING_CHARS))
        dated = [match for match in chain(labelled, tail) if _YEAR.search(match["value"])]
        verb = re.search(r"creat|publi|releas|updat|modif|chang|geändert|erstell|veröff|aktuali|cre", question.lower())
        labelled = sorted(dated, key=lambda match: not (verb and verb[0] in _label(match)))
        footer = _DATE.search(document.text, len(document.text) - 200) if _MANUAL_PAGE.search(text) else None
        if not labelled and footer:
            return _line_around(document.text, footer.start())
        if labelled and labelled[0].start() > head and (above := _DATE.search(text[:head])):
            return _line_around(text, above.start())
    if labelled:
        return labelled[0].span("line")
    pattern = {Asked.WHO: _BYLINE, Asked.WHEN: _DATE, Asked.VERSION: _VERSION}[asked]
    limit = head if asked is Asked.WHO else max(head, 300)
    if match := pattern.search(text[:limit]):
        return _line_around(text, match.start())
    return _names_above(text, head) if asked is Asked.WHO and document.page_starts else None


def _label(match: re.Match[str]) -> str:
    return match["line"][: match.start("value") - match.start("line")].lower()


def _names_above(text: str, head: int) -> Span | None:
    """What stands between the first line, a title, and the first sentence of a page: names and addresses."""
    lines = [match.span() for match in re.finditer(r"\S.*", text[:head])]
    named = [span for span in lines[1:] if not LEAD_HEADING.match(text[slice(*span)])]
    if not named or not _NAME.search(text[named[0][0] : named[-1][1]]):
        return None
    start = named[0][0]
    return start, max((end for _, end in named if end - start <= BYLINE_CHARS), default=named[0][1])


def _line_around(text: str, at: int) -> Span:
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return (start, end) if end - start <= MAX_SENTENCE_CHARS else (max(start, at - 80), min(end, at + 200))


def stored_facts(document: Document, asked: Asked) -> str:
    """What the properties of the file say, as `author: Hadley Wickham`; '' for nothing."""
    known = {str(key).lower(): _joined(value).strip() for key, value in document.metadata.items()}
    more = [key for key in known if asked is Asked.WHEN and _DATE_KEY.search(key) and read_dates(known[key])]
    paths = [key for key in known if asked is Asked.WHEN and key not in _OTHER_KEYS and _DATED_PATH.match(known[key])]
    found = ((key, known.get(key, "")) for key in (*_KEYS[asked], *more, *paths))
    return next((f"{key}: {value[:300]}" for key, value in found if value), "")


def _joined(value: object) -> str:
    """A property, or several of one name."""
    if isinstance(value, list | tuple):
        return ", ".join(filter(None, map(_joined, value)))
    return str(value) if isinstance(value, str | int | float) else ""


def differing_sentences(first: Document, second: Document, count: int) -> tuple[list[tuple[int, int]], int]:
    """Sentences of the second document that the first one does not have: the first `count`, and how many in all."""
    from ragkit.split.sentence_segmentation import sentence_spans  # noqa: PLC0415 - reads two whole documents

    known = {plain_words(first.text[start:end]) for start, end in sentence_spans(first.text)}
    spans = [(start, end) for start, end in sentence_spans(second.text) if _is_new(second.text[start:end], known)]
    return spans[:count], len(spans)


def _is_new(sentence: str, known: set[str]) -> bool:
    return _is_prose(sentence) and plain_words(sentence) not in known


def plain_words(sentence: str) -> str:
    """The words of a text in lower case, one blank between them."""
    return " ".join(re.findall(r"\w+", sentence.lower()))


def find_release(sections: Sequence[DocumentSection], version: str) -> DocumentSection | None:
    """The section of a change log about a version, if its heading has the date."""
    named = re.compile(rf"(?<![\w.]){re.escape(version)}(?![\w-]|\.\w)|(?<![\w.])v{re.escape(version)}(?![\w-]|\.\w)")
    return next((section for section in sections if named.search(section.title) and _DATE.search(section.title)), None)

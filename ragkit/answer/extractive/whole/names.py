"""The documents that a question names: by path, file name, title, number, date, order, author or subject."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragkit.answer.extractive.whole.dates import is_within, read_dates, read_period
from ragkit.answer.extractive.whole.nouns import KIND, NOUN, SERIES
from ragkit.lexical.analyzer import extract_terms

MIN_SUBJECT_TERMS = 2
"""Terms of a subject that name a document without "the page about", "the guide": one word means many things."""
MAX_MEANT = 5
"""Documents that the words of a subject may all mean; of more it is no name."""
_TH = r"(?:st|nd|rd|th|\.)?"
DAY = (
    rf"(?:(?:19|20)\d\d-\d\d-\d\d|\d{{1,2}}\.\d{{1,2}}\.(?:19|20)\d\d"
    rf"|\d{{1,2}}{_TH} (?:de )?[^\W\d_]{{3,10}} (?:de )?(?:19|20)\d\d"
    rf"|[^\W\d_]{{3,10}} \d{{1,2}}{_TH},? (?:19|20)\d\d)"
)
PERIOD = rf"(?:{DAY}|(?:[^\W\d_]{{3,10}} )?(?:19|20)\d\d(?:-\d\d)?)"
ORDER = r"(?:newest|latest|most recent|last|oldest|earliest|first|(?:neuest|aktuellst|letzt|ältest|erst|jüngst)e[nrs]?)"
ARTICLE = (
    r"(?:the(?: two)?|this|these|an?|das|die|der|dem|den|des|dies(?:e[mnrs]?)|im|beim|zum|vom|le|la|les|un|une|du"
    r"|el|los|las|del)"
)
_PREPOSITION = r"(?:about|on|for|to|of|from|with|titled|entitled|called|named|über|zu[mr]?|von|sur|sobre)"
_BEFORE_FILE = re.compile(rf"(?:{ARTICLE} )?{NOUN} (?:(?:of|in|from|for|at)\s+)?(?=\S+\.\w{{2,5}}$)", re.IGNORECASE)
"""Before a file name: "the meeting in 2024-05.md"."""
_NOUN_FIRST = re.compile(
    r"(?:(?:the|this|das|die|der|dem|den|des|le|la|l'|el|los|las|un|une) ?)?"
    r"(?:documents?|dokuments?|documentos?|files?|papers?|pdfs?|datei|fichiers?|archivos?|articles?|artikels?|artículos?"
    r"|reports?|berichts?)\s+(?=\S)",
    re.IGNORECASE,
)
_QUOTED_KIND = re.compile(rf"(?:{ARTICLE} )?{KIND} (?=[\"“„«‚‘'`»])", re.IGNORECASE)
_ABOUT = re.compile(rf"{ARTICLE} {NOUN} {_PREPOSITION} (?P<topic>.+)", re.IGNORECASE)
_WRITTEN = re.compile(rf"(?:the|this) {NOUN} (?:written )?(?:by|of) (?P<author>(?:[A-ZÀ-Þ][\w.'-]* ?){{2,5}})")
_OF_KIND = re.compile(
    rf"{ARTICLE} (?:(?P<topic>\S.*) (?:(?!pages?\b){NOUN}|package|class|library)|(?P<subject>\S+ \S.*) pages?)",
    re.IGNORECASE,
)
"""A document by its subject: "the page about restoring", "the Helium whitepaper"; "the manual page" is none."""
_TITLED = re.compile(rf"{ARTICLE} {NOUN} (?P<title>\S+ \S.*|\S*\w[-_.\d]\w\S*)", re.IGNORECASE)
"""A document by its title; one of one word is not certain: "the page table"."""
NUMBERED = re.compile(rf"(?P<series>{SERIES})[ -]?#?0*(?P<number>\d+)", re.IGNORECASE)
_NUMBERED_FILE = re.compile(r"(?:(?P<series>[^\W\d_]+)[-_ ]?)?0*(?P<number>\d+)(?![\d]|[-_.]\d)")
_DATED_NAME = re.compile(
    rf"(?:(?:{ARTICLE} )?(?P<kind>{KIND})(?: held| dated)? (?:(?:on|of|from|in|for|vo[nm]|am|du|del?) )?)?"
    rf"(?P<date>{PERIOD})"
    rf"|(?:{ARTICLE} )?(?P<before>{PERIOD}) {KIND}",
    re.IGNORECASE,
)
_ORDERED_NAME = re.compile(
    rf"(?:{ARTICLE} )?(?P<order>{ORDER}) (?P<kind>{KIND})(?: (?:of|in|from|aus|von|vom) (?P<period>{PERIOD}))?",
    re.IGNORECASE,
)
_NUMBER_OF_SERIES = re.compile(rf"{SERIES}[ -]?#?\d+[:.]?\s", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:the|das|die|der|dem|den|des|le|la|l'|el|los|las)(?:(?<=')|\s+)(?=\S)", re.IGNORECASE)
_ONLY_NOUN = re.compile(
    r"(?:(?:the|this|that|your|my|das|dieses|dem|diesem|le|ce|el|este) )?"
    r"(?:document|file|paper|pdf|text|context|content|dokument|datei|texte?|fichier|documento|archivo|texto)",
    re.IGNORECASE,
)
"""Names a document only where there is one."""
_QUOTED = re.compile(r"[\"“„«‚‘'`»](.+)[\"”“»«’‘'`]")
_SUFFIX = re.compile(
    r"\.(?:pdf|docx?|md|mdx|rst|txt|html?|pptx?|od[tp]|epub|rtf|tex|adoc|ipynb|eml|xlsx?|csv|ods|json|ya?ml)$"
)
_ALL_NOUN = re.compile(NOUN, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DocumentName:
    """A document as a question names it."""

    text: str
    """Without quotation marks, article and "the document"."""
    is_file: bool
    """Whether it is certainly one: it has the suffix of a file, quotation marks, or "the document" before it."""
    has_suffix: bool = False
    is_quoted: bool = False
    topic: str = ""
    """Words that its file name and title have together, where `text` is not its name; '' for none."""
    date: str = ""
    """The date in its file name or title, or the period of it; '' for none. See `dates.py`."""
    order: str = ""
    """`newest` or `oldest` of its kind, '' for neither."""
    kind: str = ""
    author: str = ""
    """Who wrote it: "the paper by Ada Quill"."""


def read_name(text: str) -> DocumentName:
    """What a question names."""
    if ordered := _ORDERED_NAME.fullmatch(text):
        order = "oldest" if re.match(r"oldest|earliest|first|ältest|erst", ordered["order"].lower()) else "newest"
        return DocumentName(text, True, date=read_period(ordered["period"] or ""), order=order, kind=ordered["kind"])
    dated = _DATED_NAME.fullmatch(text)
    date = read_period(dated["date"] or dated["before"]) if dated else ""
    if dated and (len(date) == 10 or (date and not text[0].isdigit() and (dated["kind"] or dated["before"]))):
        return DocumentName(text, True, date=date)
    if written := _WRITTEN.fullmatch(text):
        return DocumentName(text, is_file=True, author=written["author"])
    subject = _ABOUT.fullmatch(text) or _OF_KIND.fullmatch(text)
    noun = _BEFORE_FILE.match(text) or _NOUN_FIRST.match(text) or _QUOTED_KIND.match(text)
    plain = text[noun.end() :] if noun else text
    is_file = plain != text or subject is not None
    titled = None if noun or subject else _TITLED.fullmatch(text)
    if titled:
        plain, is_file = titled["title"], True
    quoted = _QUOTED.fullmatch(plain.strip())
    if quoted:
        plain, is_file = quoted[1], True
    has_suffix = bool(_SUFFIX.search(plain.lower()))
    is_file = is_file or NUMBERED.fullmatch(_ARTICLE.sub("", plain, count=1).strip()) is not None
    topic = subject[subject.lastgroup] if subject and subject.lastgroup else _ARTICLE.sub("", plain, count=1)
    is_certain = is_file or has_suffix
    topic = "" if has_suffix or titled else topic
    return DocumentName(plain.strip(), is_certain, has_suffix, is_quoted=quoted is not None, topic=topic)


def names_no_other(text: str) -> bool:
    """Whether words mean the only document there is: "this document", "das Dokument"."""
    return _ONLY_NOUN.fullmatch(text.strip()) is not None


def unquoted(text: str) -> str:
    """Words that documents may mention, without quotation marks, or else without an article."""
    quoted = _QUOTED.fullmatch(text.strip())
    return quoted[1] if quoted else _ARTICLE.sub("", text.strip(), count=1)


def find_named(name: DocumentName, documents: Iterable[tuple[str, str]]) -> list[str]:
    """The sources of the documents, given as source and title, that have this name; several if it is ambiguous.

    The most exact kind of name counts: path, file name, then file name without suffix or title, then the beginning of a
    title before a colon or dash; last the words of a subject.
    """
    if name.date and not name.order:
        return [
            source
            for source, title in documents
            if is_within(read_dates(f"{source.rstrip('/').rpartition('/')[2]} {title}"), name.date)
        ]
    known = list(documents)
    levels: list[list[str]] = [[], [], [], [], []]
    numbered = NUMBERED.fullmatch(_ARTICLE.sub("", name.text, count=1).strip())
    named = (name.text, _ARTICLE.sub("", name.text, count=1), _ARTICLE.sub("", name.topic, count=1))
    wanted = {_normalize(text) for text in named} - {""}
    path = name.text.lower().lstrip("./")
    for source, title in known:
        file = source.rstrip("/").rpartition("/")[2]
        if "/" in path and (source.lower() == name.text.lower() or source.lower().endswith(f"/{path}")):
            levels[0].append(source)
        elif file.lower() == path:
            levels[1].append(source)
        elif not name.has_suffix and not wanted.isdisjoint(
            map(_normalize, (_SUFFIX.sub("", file.lower()), title, _NUMBER_OF_SERIES.sub("", title, count=1)))
        ):
            levels[2].append(source)
        elif not name.has_suffix and _normalize(re.split(r":\s|\s[–—-]\s", title, maxsplit=1)[0]) in wanted:
            levels[3].append(source)
        elif numbered and has_number(source, title, numbered["series"], numbered["number"]):
            levels[4].append(source)
    return next(filter(None, levels), []) or _find_subject(name, known)


def _find_subject(name: DocumentName, documents: Sequence[tuple[str, str]]) -> list[str]:
    """The documents whose file name and title have the words of a subject; of several, the one with hardly any others.

    With the noun first, which may be a part of the title ("the terms of service"), then without, then without any noun.
    """
    subject = name_terms(name.topic)
    if not subject or len(subject) < (1 if name.is_file else MIN_SUBJECT_TERMS):
        return []
    own = {source: name_terms(f"{source.rstrip('/').rpartition('/')[2]} {title}") for source, title in documents}
    rare = name_terms(" ".join(word for word in name.topic.split() if not _ALL_NOUN.fullmatch(word)))
    for wanted in (name_terms(name.text) | subject, subject, rare if name.is_file else set()):
        about = [source for source, terms in own.items() if wanted and wanted <= terms]
        if len(about) > 1:
            common = {term for terms in own.values() for term in terms if 2 * _count(term, own.values()) >= len(own)}
            titles = ((source, name_terms(title) - common - name_terms(name.text)) for source, title in documents)
            whole = [source for source, others in titles if source in about and not others]
            about = whole if len(whole) == 1 else about
        if about:
            return about if len(about) == 1 or (name.is_file and len(about) <= MAX_MEANT) else []
    return []


def _count(term: str, names: Iterable[set[str]]) -> int:
    return sum(term in terms for terms in names)


def has_number(source: str, title: str, series: str, number: str) -> bool:
    """Whether a file name begins with a number of a series: `0012-use-queues.md` is ADR 12, `rfcs/12.md` is RFC 12.

    Decision records do not name their series; others are known outside, and a number alone is none of theirs.
    """
    folder, _, file = source.lower().rpartition("/")
    match, series = _NUMBERED_FILE.match(file), series.lower()
    if match is None or match["number"] != number:
        return False
    words = re.findall(r"[a-z]+", f"{folder} {title.lower()}")
    return match["series"] == series or (
        match["series"] is None and (series == "adr" or series in words or f"{series}s" in words)
    )


def is_series(kind: str) -> bool:
    """Whether documents of a kind are known by their number."""
    return re.fullmatch(rf"(?:{SERIES}|decision|proposal)s?", kind.rpartition(" ")[2], re.IGNORECASE) is not None


def document_number(file: str) -> str:
    """The number that a file name begins with, without leading zeros; '' for none."""
    match = _NUMBERED_FILE.match(file)
    return match["number"] if match else ""


def find_document_named(text: str, documents: Iterable[tuple[str, str]]) -> list[str]:
    """See `find_named`: by all words first, since "Report 2024.txt" may be the name of a file."""
    known = list(documents)
    whole = DocumentName(text.strip(), is_file=True, has_suffix=bool(_SUFFIX.search(text.lower())))
    return find_named(whole, known) or find_named(read_name(text), known)


def _normalize(text: str) -> str:
    """Letters and digits in lower case, numbers without leading zeros: "PEP 8" is the name of `pep-0008.rst`."""
    return " ".join(word.lstrip("0") or word for word in re.findall(r"[^\W_]+", text.casefold()))


def name_terms(text: str) -> set[str]:
    """The terms of a name, each part of "Vechain-The lost.pdf" for itself."""
    return set(extract_terms(_normalize(text)))


def number_forms(words: str) -> set[str]:
    """Words in both numbers, "macros" and "macro", as documents may mention them; names and quotes as they are."""
    if _QUOTED.fullmatch(words.strip()) or not re.search(r"[a-z]{4}$", words) or not words.rpartition(" ")[2].islower():
        return {words}
    return {words, words[:-1] if words.endswith("s") else f"{words}s"}


def close_names(name: str, sources: Sequence[str]) -> list[str]:
    """File names that may have been meant."""
    from difflib import get_close_matches  # noqa: PLC0415 - for a name that is wrong

    return get_close_matches(name, [source.rpartition("/")[2] for source in sources], n=3)


_RELEASE = re.compile(
    r"(?:(?P<product>.+?) )??(?:(?:the )?(?:version|release) |v)?(?P<version>\d+(?:\.\d+)+)(?: of (?P<of>.+))?",
    re.IGNORECASE,
)


def read_release(name: str) -> tuple[str, str] | None:
    """What has versions, '' if it is not named, and the version: "ripgrep 13.0.0", "version 4.1 of the mill"."""
    match = _RELEASE.fullmatch(name.strip())
    return (unquoted(match["product"] or match["of"] or ""), match["version"]) if match else None

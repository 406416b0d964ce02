"""Fields of a document beside its text: terms of names, titles, metadata, opening words, dates, periods and versions.

A document is found by what its file is called, who wrote it and which period it is about, even if no passage says so.
Questions and documents are turned into the same field terms, and BM25 over them tells how well a document is meant.
The weight of a field is the number of times that its terms count (BM25F).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import PurePosixPath
from urllib.parse import unquote

import numpy as np

from ragkit.lexical.analyzer import extract_terms
from ragkit.lexical.base import Bm25Scores, ChunkKeys
from ragkit.lexical.bm25_index import Bm25Index, inverse_document_frequency
from ragkit.lexical.stopwords import STOP_WORDS
from ragkit.records import JSON, Metadata

FIELDS_VERSION = "4"
"""Changes whenever `document_terms` may return other terms: field terms of another version are computed again."""

OPENING_CHARS = 1500
"""Characters of the beginning of a text whose names and periods count."""
MAX_FIELD_CHARS = 300
"""Longer values of metadata are texts, not fields."""
NAME_WEIGHT, TITLE_WEIGHT, METADATA_WEIGHT, OPENING_WEIGHT = 4, 3, 2, 1
"""How often the terms of a field count."""
ORDINARY_WORD_WEIGHT = 0.5
"""Weight of a word of a question that is not capitalized, relative to one that is."""
PERIOD_WEIGHT = 2.0
"""Weight of a year, quarter, date or version of a question, relative to a word."""
DOCUMENT_BOOST = 5.0
"""What a document's score of 1 adds to the BM25 score of its chunks."""
MAX_NAMED_DOCUMENTS = 1000
"""Documents that a question can name."""

_TEXT_METADATA = frozenset({"author", "company", "organization", "subject", "keywords", "category", "manager", "tags"})
"""Keys of metadata whose words count."""
_PERIOD_METADATA = frozenset({"date", "year", "version", "period", "quarter", "published", "edition", "fiscal_year"})
"""Keys of metadata whose dates, periods and versions count. Times at which a file was saved do not."""

_WORD = re.compile(r"[^\W_]+")
_NAME = re.compile(r"[^\W\d_][\w&.'-]*")
_PERIOD_HINT = re.compile(r"(?i)\d|quarter")
_CENTURY_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_FISCAL_YEAR = re.compile(
    r"(?i)(?<![a-z])(?:(?:fy|cy|fiscal(?:\s+year)?)\s?['\u2019]?|[1-4]q['\u2019]?|q[1-4]\s?['\u2019])(\d\d)(?!\d)"
)
_QUARTER = re.compile(r"(?i)(?<![a-z])q([1-4])(?!\d(?!\d))|(?<!\d)([1-4])q(?=\d|\b|_)")
_QUARTER_WORD = re.compile(
    r"(?i)\b(?:(first|1st)|(second|2nd)|(third|3rd)|(fourth|4th))[\s-]+(?:fiscal[\s-]+)?quarter\b"
)
_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_MONTH_PATTERN = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in _MONTHS)
_ISO_DATE = re.compile(r"(?<!\d)((?:19|20)\d\d)[-_.](\d\d)[-_.](\d\d)(?!\d)")
_DAY_FIRST = re.compile(rf"(?i)\b(\d\d?)(?:st|nd|rd|th)?(?:\s+of)?\s+({_MONTH_PATTERN})\.?,?\s+((?:19|20)\d\d)\b")
_MONTH_FIRST = re.compile(rf"(?i)\b({_MONTH_PATTERN})\.?\s+(\d\d?)(?:st|nd|rd|th)?,?\s+((?:19|20)\d\d)\b")
_VERSION = re.compile(r"(?i)(?<![a-z0-9.])(?:v|version|release|rev)[\s._-]?(\d+(?:\.\d+){0,3})(?![\d])")


@dataclass(frozen=True, slots=True)
class DocumentFields:
    """What a catalog knows of a document beside its text."""

    source: str
    """A path or URL: the last two parts are its name."""
    title: str
    metadata: Metadata
    opening: str
    """The first `OPENING_CHARS` characters of its text."""


def document_terms(document: DocumentFields) -> list[str]:
    """The field terms of a document; a term of a heavier field stands there more often.

    `word` terms are those of the file name and metadata; `name` terms are these, the title and the capitalized words of
    the opening. Ordinary words of titles do not count: passages have the title in their header already.
    """
    name = _readable_name(document.source)
    metadata = " ".join(_short_texts(document.metadata, _TEXT_METADATA))
    words = _word_terms(name) * NAME_WEIGHT
    words += _word_terms(metadata) * METADATA_WEIGHT
    opening = document.opening[:OPENING_CHARS]
    names = words + _word_terms(document.title) * TITLE_WEIGHT
    names += _word_terms(" ".join(_capitalized_words(opening))) * OPENING_WEIGHT
    periods = period_terms(name) * NAME_WEIGHT + period_terms(document.title) * TITLE_WEIGHT
    periods += period_terms(" ".join(_short_texts(document.metadata, _PERIOD_METADATA))) * METADATA_WEIGHT
    periods += period_terms(opening) * OPENING_WEIGHT
    return [*(f"word {term}" for term in words), *(f"name {term}" for term in names), *periods]


def question_terms(question: str) -> dict[str, float]:
    """Field term -> weight, for what a question may say of the document that it means: one term for each word."""
    weights: dict[str, float] = dict.fromkeys(period_terms(question), PERIOD_WEIGHT)
    words = _WORD.findall(question)
    for word in words:
        for term in _word_terms(word)[:1]:
            weights |= {f"name {term}": 1.0} if word[0].isupper() else {f"word {term}": ORDINARY_WORD_WEIGHT}
    for first, second in pairwise(words):  # one word of a file name: `best buy` and `BESTBUY`
        if first.lower() not in STOP_WORDS and second.lower() not in STOP_WORDS:
            weights |= {f"word {term}": 1.0 for term in _word_terms((first + second).lower())[:1]}
    return weights


def period_terms(text: str) -> list[str]:
    """The years, quarters, dates and versions of a text: `year 2022`, `quarter 2`, `date 2022-07-01`, `version 2.3`."""
    if not _PERIOD_HINT.search(text):
        return []
    years = [f"year {match[0]}" for match in _CENTURY_YEAR.finditer(text)]
    found = years + [f"year 20{match[1]}" for match in _FISCAL_YEAR.finditer(text)]
    if "q" in text or "Q" in text:
        found += [f"quarter {match[1] or match[2]}" for match in _QUARTER.finditer(text)]
        found += [f"quarter {match.lastindex}" for match in _QUARTER_WORD.finditer(text)]
    if years:  # every date holds one
        found += [f"date {year}-{month}-{day}" for year, month, day in _ISO_DATE.findall(text)]
        for day, month, year in _DAY_FIRST.findall(text):
            found.append(f"date {year}-{_month_number(month):02}-{int(day):02}")
        for month, day, year in _MONTH_FIRST.findall(text):
            found.append(f"date {year}-{_month_number(month):02}-{int(day):02}")
    found += [f"version {match[1]}" for match in _VERSION.finditer(text.replace("_", " "))]
    return list(dict.fromkeys(found))


@lru_cache(maxsize=1 << 12)
def document_version(source: str) -> tuple[str, tuple[str, ...]]:
    """What versions of one document have in common, and the version: greater is newer, () if the name has none.

    `/docs/policy_v2.md` -> (`/docs/policy`, ("", "00002")). Versions compare by date, then by number.
    """
    folder, _, name = source.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    if not dot:
        stem, suffix = name, ""
    found = dict(term.split(" ", 1) for term in period_terms(stem))
    date = found.get("date") or found.get("year", "")
    if "quarter" in found and "date" not in found:
        date += f"-{3 * int(found['quarter']):02}"
    numbers = [f"{int(number):05}" for number in found.get("version", "").split(".") if number]
    family = stem
    for pattern in (_ISO_DATE, _VERSION, _FISCAL_YEAR, _CENTURY_YEAR, _QUARTER):
        family = pattern.sub("", family.replace("_", " "))
    version = (date, *numbers) if date or numbers else ()
    return f"{folder}/{' '.join(_WORD.findall(family))}.{suffix}".lower(), version


def passage_version(source: str, metadata: Metadata) -> tuple[str, tuple[str, ...]]:
    """As `document_version`; a document without a version in its name has that of its metadata (`date: 2024-05-01`)."""
    family, version = document_version(source)
    if version:
        return family, version
    periods = period_terms(" ".join(_short_texts(metadata, _PERIOD_METADATA)))
    return family, document_version(f"{' '.join(periods)}.")[1] if periods else ()


def _capitalized_words(text: str) -> list[str]:
    return [word for word in _NAME.findall(text) if word[0].isupper()]


def _month_number(name: str) -> int:
    return next(number for number, month in enumerate(_MONTHS, start=1) if month[:3] == name[:3].lower())


def _readable_name(source: str) -> str:
    """The name of a file and of its folder, as words."""
    path = PurePosixPath(unquote(source.partition("?")[0]) if "://" in source else source.replace("\\", "/"))
    return " ".join((*path.parent.parts[-1:], path.stem)).strip("/")


@lru_cache(maxsize=1 << 15)
def _terms_of_word(word: str) -> tuple[str, ...]:
    """The terms of a word that is no stop word, without years."""
    if word.lower() in STOP_WORDS:
        return ()
    return tuple(term for term in extract_terms(word) if not _CENTURY_YEAR.fullmatch(term))


def _word_terms(text: str) -> list[str]:
    """The distinct terms of the words of a text; stop words and years, which `period_terms` has, are left out."""
    return list(dict.fromkeys(chain.from_iterable(map(_terms_of_word, _WORD.findall(text)))))


def _short_texts(metadata: Metadata, keys: frozenset[str]) -> Iterator[str]:
    """The values of metadata under these keys that are short texts or numbers, also inside lists."""
    for key, value in metadata.items():
        if key.lower() in keys:
            yield from _flatten(value)


def _flatten(value: JSON) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) <= MAX_FIELD_CHARS:
            yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, Iterable) and not isinstance(value, Mapping):
        for part in value:
            yield from _flatten(part)


@dataclass(frozen=True, eq=False)
class NamedDocuments:
    """The documents that a question names."""

    keys: ChunkKeys
    """Keys of documents, ascending: (n,)."""
    scores: Bm25Scores
    """(n,), > 0."""

    def scores_of(self, documents: ChunkKeys) -> Bm25Scores:
        """The scores of these documents, 0 for those that are not named: as `documents`."""
        if not len(self.keys):
            return np.zeros(len(documents), np.float32)
        positions = np.minimum(np.searchsorted(self.keys, documents), len(self.keys) - 1)
        return np.where(self.keys[positions] == documents, self.scores[positions], np.float32(0)).astype(np.float32)


NO_DOCUMENTS = NamedDocuments(np.zeros(0, np.int64), np.zeros(0, np.float32))


def find_named_documents(index: Bm25Index, question: str) -> NamedDocuments:
    """The best `MAX_NAMED_DOCUMENTS` documents of an index of `document_terms`.

    Scores are BM25 divided by the weight of a term that no document has: about 1 for each rare word that a name shares
    with the question, whatever the number of documents.
    """
    found = sorted(index.search((), MAX_NAMED_DOCUMENTS, extra=question_terms(question)))
    if not found:
        return NO_DOCUMENTS
    scale = float(inverse_document_frequency(0, len(index.keys())))
    scores = np.array([score / scale for _, score in found], np.float32)
    return NamedDocuments(np.array([key for key, _ in found], np.int64), scores)

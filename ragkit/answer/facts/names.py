"""Finds names, identifiers and quotations in a statement, and looks them up in a text exactly.

A name is a capitalized word inside a sentence, an identifier (`max_size`, IPv6, --force, /etc/hosts, .xz), or code
between backticks. A quotation is text between quotation marks; compared are its words in order, without regard to case,
white space, marks and hyphenation. No index, no model.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

from ragkit.answer.facts.quantities import find_dates
from ragkit.lexical.analyzer import extract_terms
from ragkit.lexical.stopwords import STOP_WORDS

MIN_QUOTED_WORDS = 2
"""A shorter quotation is a name or an ironic word."""
_CODE = re.compile(r"(`{1,2})([^`\n]{1,300})\1")
_QUOTATION = re.compile(
    r"[\"“„«]([^\"“”„«»\n]{2,600})[\"”“»]|(?<!\w)['‘]([^'‘’\n]{2,300}(?:['’][a-z][^'‘’\n]{0,300})*)['’](?!\w)"
)
_TOKEN = re.compile(
    r"(?<![\w-])-{1,2}\w[\w-]*|(?<![\w.])(?:[~/]|\.(?=[a-z]))[\w./*<>~-]{0,200}\w|[^\W_][\w.@+:/\\-]{0,200}[\w+#]|[^\W\d_]"
)
_OPTION = re.compile(r"-{1,2}\w")
_SENTENCE_START = re.compile(r"(?:^|[.!?:]\s+|[\"“„«(]\s*|^\s*[-*]\s+)$")
_TITLES = frozenset(["mr", "mrs", "ms", "dr", "prof", "sir", "i", "i'm", "i'd", "ok", "yes", "no"])
_CONNECTORS = frozenset(["of", "the", "de", "von", "van", "der", "and", "&", "la", "le", "du"])


@dataclass(frozen=True)
class Name:
    """A name, identifier or piece of code of a statement."""

    text: str
    start: int = 0
    is_code: bool = False
    """Between backticks, an option or a path: upper and lower case count."""
    may_be_word: bool = False
    """Only capitalized because it begins a sentence or a title-cased phrase."""


def find_names(text: str, known: Collection[str] = ()) -> list[Name]:
    """The names of a statement, in order. `known`: lower-case names of the passages, found at its start as well."""
    names = [Name(match[2].strip(), match.start(), is_code=True) for match in _CODE.finditer(text)]
    plain = _CODE.sub(lambda match: " " * len(match[0]), text)
    for date in find_dates(plain):
        plain = plain[: date.start] + " " * len(date.text) + plain[date.start + len(date.text) :]
    names += _token_names(plain, known)
    return sorted(names, key=lambda name: name.start)


def _token_names(text: str, known: Collection[str]) -> Iterator[Name]:
    tokens = list(_TOKEN.finditer(text))
    for i, match in enumerate(tokens):
        token = match[0].rstrip(".:/") if not match[0].startswith(("/", "~", ".")) else match[0]
        for possessive in ("'s", "’s"):
            token = token.removesuffix(possessive)
        lower = token.lower()
        if _OPTION.match(token) or token[:1] in "/~.":
            yield Name(token, match.start(), is_code=True)
        elif _is_identifier(token):
            yield Name(token, match.start())
        elif token[:1].isupper() and lower not in STOP_WORDS and lower not in _TITLES:
            starts = bool(_SENTENCE_START.search(text[: match.start()]))
            following = tokens[i + 1][0] if i + 1 < len(tokens) else ""
            is_phrase = following[:1].isupper() and following.lower() not in STOP_WORDS
            if not starts or lower in known or (is_phrase and len(token) > 1):
                yield Name(token, match.start(), may_be_word=starts and lower not in known)


def _is_identifier(token: str) -> bool:
    """Whether a word is written like an identifier: digits, capitals or symbols inside."""
    if token.isdigit() or not any(char.isalpha() for char in token):
        return bool(re.fullmatch(r"\d+(?:\.\d+){2,}|\d:\d", token))
    if any(char.isdigit() for char in token):
        return not re.fullmatch(r"\d+(?:[.,]\d+)*[-]?(?:st|nd|rd|th|s|[a-zA-Z%°µ/]{1,3}|-[a-z-]+)|\d[\d:.,/-]*", token)
    if "_" in token or "@" in token or "\\" in token:
        return True
    if "." in token[1:-1]:
        return not re.fullmatch(r"(?:[A-Za-z]{1,2}\.)+[A-Za-z]?", token)
    letters = re.sub(r"[^A-Za-z]", "", token)
    return (len(letters) > 1 and letters.isupper() and token.upper() not in _SHOUTED) or bool(
        re.search(r"[a-z][A-Z]", token)
    )


_SHOUTED = frozenset(["NOT", "AND", "OR", "ALL", "ANY", "NO", "YES", "ONLY", "MUST", "NEVER", "OK"])


class NameIndex:
    """The words of a text, to look names up in."""

    def __init__(self, text: str) -> None:
        self._text = normalize_spaces(text)
        self._folded = self._text.casefold()
        self.terms = frozenset(extract_terms(text))
        """Stemmed words, and the parts of identifiers."""

    def has(self, name: Name) -> bool:
        """Whether the name stands in the text."""
        wanted = normalize_spaces(name.text)
        if name.is_code:
            return _contains_token(self._text, wanted) or (len(wanted.split()) > 1 and self._has_words(wanted))
        if _contains_token(self._folded, wanted.casefold()):
            return True
        terms = extract_terms(name.text)
        return bool(terms) and (terms[0] in self.terms or (len(terms) > 1 and all(t in self.terms for t in terms[1:])))

    def _has_words(self, code: str) -> bool:
        """Whether each word of a command stands in the text; placeholders may differ."""
        words = [word for word in code.split() if not word.startswith(("<", '"', "'", "$"))]
        return all(_contains_token(self._text, word) for word in words)

    def has_together(self, first: Name, second: Name) -> bool:
        """Whether two words of one name stand near each other, in any order ("Quill, Hester")."""
        a, b = (re.escape(normalize_spaces(name.text).casefold()) for name in (first, second))
        gap = r"\W+(?:\w+\W+){0,2}"
        return bool(re.search(rf"(?<!\w){a}(?:'s)?{gap}{b}|(?<!\w){b}(?:'s)?{gap}{a}", self._folded))

    def has_acronym(self, name: Name) -> bool:
        """Whether the text has words whose initials are this name (Network File System for NFS)."""
        letters = name.text.casefold()
        if not (name.text.isupper() and 2 <= len(letters) <= 6):
            return False
        initials = "".join(word[0] for word in re.findall(r"[^\W_]+", self._folded))
        return letters in initials and bool(re.search(r"\W+".join(rf"\b{c}\w*" for c in letters), self._folded))


@lru_cache(maxsize=4096)
def _token_pattern(wanted: str) -> re.Pattern[str]:
    before = r"(?<![\w-])" if wanted[:1] in "-" else r"(?<!\w)"
    return re.compile(
        before + re.escape(wanted) + r"(?![\w])(?!-\w)" if wanted[:1] == "-" else before + re.escape(wanted) + r"(?!\w)"
    )


def _contains_token(text: str, wanted: str) -> bool:
    return wanted in text and bool(_token_pattern(wanted).search(text))


_REPLACED = str.maketrans(
    {
        "“": '"',
        "”": '"',
        "„": '"',
        "«": '"',
        "»": '"',
        "‘": "'",
        "’": "'",
        "–": "-",
        "—": "-",
        "−": "-",
        "‐": "-",
        "‑": "-",
        "\u00ad": "",
    }
)
_HYPHENATED = re.compile(r"(?<=\w)[-‐\u00ad]\s*\n\s*(?=[a-z])")


def normalize_spaces(text: str) -> str:
    """Text on one line, with plain quotation marks and hyphens, and words joined that a line break divides."""
    joined = _HYPHENATED.sub("", unicodedata.normalize("NFKC", text))
    return " ".join(joined.translate(_REPLACED).split())


def find_quotations(text: str) -> list[str]:
    """The quotations of a statement: text of several words between quotation marks."""
    plain = _CODE.sub(lambda match: " " * len(match[0]), text)
    found = [match[1] or match[2] for match in _QUOTATION.finditer(plain)]
    return [quotation for quotation in found if len(_words(quotation)) >= MIN_QUOTED_WORDS]


def has_quotation(text: str, quotation: str) -> bool:
    """Whether a text has the words of a quotation in order; "..." and [brackets] stand for left-out words."""
    words = f" {' '.join(_words(text))} "
    parts = re.split(r"\.{3}|…|\[[^\][]{0,100}\]", quotation)
    at = 0
    for part in parts:
        wanted = " ".join(_words(part))
        if wanted:
            at = words.find(f" {wanted} ", at)
            if at < 0:
                return False
    return True


def _words(text: str) -> list[str]:
    joined = normalize_spaces(_HYPHENATED.sub("", text)).casefold()
    return re.findall(r"\w+(?:[.,]\d+)*|[%€$£]", joined)

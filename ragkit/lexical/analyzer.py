"""The analyzer of the lexical index: text -> terms, for documents and questions, in any script.

The script selects the language: Latin words are stemmed as English, Cyrillic words as Russian, and so on. Scripts
without spaces are split into character bigrams.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain
from threading import Lock

import Stemmer  # type: ignore[import-not-found]  # PyStemmer has no types

from ragkit.lexical.stopwords import STOP_WORDS

ANALYZER_VERSION = f"5+snowball-{Stemmer.version()}"
"""Changes whenever `extract_terms` may return different terms: an index built with another version is stale."""

MAX_TERM_CHARS = 64
"""Maximum length of a term. Longer words are truncated; longer identifiers are indexed by their parts only."""

_MAX_CACHED_TOKEN_CHARS = 40
"""Tokens up to this length are cached; longer ones rarely repeat."""
_MAX_CACHED_TOKENS = 1 << 17
"""Tokens of a large folder in one language; some 20 MB."""
_MAX_CACHED_RUNS = 1 << 16
"""Tokens with the marks around them."""

# Combining marks, which Python's \w does not match, of scripts that write vowels as marks. Whole blocks, since marks
# and letters are mixed; the punctuation inside the blocks (danda, Thai and Khmer signs) is left out.
_COMBINING_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u07a6-\u07b0\u0816-\u082d\u0859-\u085b\u08d3-\u0963"
    "\u0971-\u0df3\u0e31-\u0e3a\u0e47-\u0e4e\u0eb1-\u0ebc\u0ec8-\u0ece\u0f18\u0f19\u0f35\u0f37\u0f39\u0f3e-\u0f84"
    "\u0f86-\u0fbc\u102b-\u103e\u1056-\u109d\u135d-\u135f\u1712-\u1715\u17b4-\u17d3\u17dd\u180b-\u180d\u1920-\u193b"
    "\u1a17-\u1a1b\u1a55-\u1a7f\u1ab0-\u1ace\u1b00-\u1b59\u1b80-\u1bfb\u1c24-\u1c37\u1cd0-\u1cf9\u1dc0-\u1dff"
    "\u20d0-\u20f0\u2de0-\u2dff\ua66f-\ua67d\ua69e\ua69f\ua802-\ua82c\ua880-\ua8cd\ua8e0-\ua8f7\ua926-\ua953"
    "\ua980-\ua9c0\ua9e5\uaa29-\uaa4d\uaa7b-\uaa7d\uaab0-\uaac1\uabe3-\uabed\u3099\u309a\ufb1e\ufe20-\ufe2f"
)
# Scripts without spaces between words (Thai, Lao, Myanmar, Khmer, kana, Han), and Hangul, whose words have suffixes.
_UNSPACED_SCRIPTS = (
    "\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1050-\u109f\u1780-\u17d3\u17d7\u17dc\u1100-\u11ff\u3005-\u3007\u3040-\u3096"
    "\u3099-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3131-\u318e\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c"
    "\uaa60-\uaa7f\uac00-\ud7fb\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
# Characters allowed inside an identifier; a comma only as a thousands separator, a colon only between digits.
_JOINER_CHARS = "._'&@-,:"
_JOINER_PATTERN = r"(?:[._'&@\-]|(?<=\d),(?=\d{3}(?!\d))|(?<=\d):(?=\d))"
_SYMBOL_SUFFIX_PATTERN = r"(?:(?<=[A-Za-z])\+\+|(?<=\b[A-Za-z])#(?!\w))?"  # C++, g++, C#, F#


def _token_pattern(word: str) -> re.Pattern[str]:
    return re.compile(f"[{word}]+(?:{_JOINER_PATTERN}[{word}]+)*{_SYMBOL_SUFFIX_PATTERN}")


_ASCII_TOKEN = _token_pattern("A-Za-z0-9_")
_TOKEN = _token_pattern(rf"\w{_COMBINING_MARKS}")
_UNSPACED_RUN = re.compile(f"([{_UNSPACED_SCRIPTS}]+)")
_OPTION = re.compile(r"(?<![\w.-])-[A-Za-z](?![\w-])")
"""An option of one letter, as `tar -x` has it: many of these letters are stop words, and their case tells."""
_JOINERS = re.compile(r"[._'&@\-:+#]+")
_REMOVED_JOINERS = re.compile(r"[_'\-]")
_CLITIC_ENDING = re.compile(r"'(?:s|ll|ve|re|d|m)\Z", re.IGNORECASE)
_NEGATION = re.compile(r"n't\Z", re.IGNORECASE)
# fooBar, HTTPServer, python3: upper after lower case, the last of several upper-case letters, digit next to letter.
# `PDFs` is not split: one upper-case and one lower-case letter are no word.
_CAMEL_CASE_BOUNDARY = re.compile(
    r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})|(?<=[A-Za-z]{2})(?=\d)|(?<=\d\d)(?=[A-Za-z]{2})"
)
_PLURAL_OF_CAPITALS = re.compile(r"([A-Z]{2,})s\Z")  # PDFs, URLs: the stemmer requires a vowel before an ending
_DECADE = re.compile(r"\d{2,}(?=s\Z)")  # 1980s, 90s
_DATE = re.compile(r"(\d{4})-(\d{2})-\d{2}")
_VERSION = re.compile(r"[a-z]+(\d+(?:\.\d+)+)\Z")

_ACRONYMS = frozenset({"IT", "US", "WHO"})
"""In upper case these are names, not stop words."""

_CHAR_REPLACEMENTS = {"\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u2010": "-", "\u2011": "-", "\u200b": " "}
"""Typographic apostrophes and hyphens; zero-width spaces, used between Khmer or Thai words."""
_REPLACED_OR_REMOVED = re.compile("[\u00ad\u02bc\u0640\u200b-\u200f\u2010\u2011\u2018\u2019\u2060\ufeff]")
"""The replaced characters, and removed ones: soft hyphens, joiners, direction marks, tatweel."""

_EXCESS_MARKS = re.compile(r"([^\w\s\0-\x7f]{30})[^\w\s\0-\x7f]+")
"""More consecutive marks than any language uses: normalization time grows with their number squared."""

_SPECIAL_LETTERS = {
    "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ħ": "h", "ŧ": "t", "ı": "i", "ŋ": "n",
    "ى": "ي", "ی": "ي", "ک": "ك", "ة": "ه",
}  # fmt: skip
_FOLDED_MARKS = (
    range(0x300, 0x370),
    range(0x591, 0x5C8),
    range(0x610, 0x61B),
    range(0x64B, 0x660),
    range(0x670, 0x671),
)
_FOLDED_LETTERS = (range(0xC0, 0x250), range(0x370, 0x530), range(0x600, 0x700), range(0x1E00, 0x2000))


def _build_fold_table() -> dict[int, str]:
    """Table for `str.translate` that removes accents, in scripts where readers expect it."""
    marks = {mark for block in _FOLDED_MARKS for mark in block}
    table = dict.fromkeys(marks, "")
    for letter in (chr(code) for block in _FOLDED_LETTERS for code in block if code not in marks):
        bare = "".join(part for part in unicodedata.normalize("NFKD", letter) if ord(part) not in marks)
        if bare != letter and letter not in "йЙ":  # a separate letter, used in Russian endings
            table[ord(letter)] = bare
    return table | {ord(letter): bare for letter, bare in _SPECIAL_LETTERS.items()}


_FOLD_TABLE = _build_fold_table()

_STEMMED_SCRIPTS = (
    ("a", "z", "english"),
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u052f", "russian"),
    ("\u0531", "\u0587", "armenian"),
    ("\u0620", "\u064a", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)
_STEMMERS = [(first, last, Stemmer.Stemmer(language, 0)) for first, last, language in _STEMMED_SCRIPTS]
_STEMMER_LOCK = Lock()  # a stemmer object is not thread-safe
_IRREGULAR = {"found": "find"}
"""Words whose stem is that of another word: "founded"."""


def extract_terms(text: str) -> list[str]:
    """The terms of a text, in text order.

    Words are normalized (NFKC), case-folded, stripped of accents and stemmed by script. English stop words are
    removed unless the text has no other words. Chinese, Japanese, Korean, Thai, Lao, Khmer and Myanmar text becomes
    character bigrams. An identifier gives a term for itself and one for each of its parts:

        foo_bar, fooBar, foo-bar  ->  foobar foo bar
        v1.2                      ->  v1.2 1.2 v1
        1980s                     ->  1980s 1980
        2018-06-17                ->  20180617 2018 201806
        C++                       ->  c++
        -L                        ->  -L l

    A term is not empty, has no white space and at most MAX_TERM_CHARS characters. Linear time.
    """
    if not text.isascii():
        plain = _REPLACED_OR_REMOVED.sub(lambda match: _CHAR_REPLACEMENTS.get(match[0], ""), text)
        text = unicodedata.normalize("NFKC", _EXCESS_MARKS.sub(r"\1", plain))
    terms = list(chain.from_iterable(map(_RUN_TERMS.__getitem__, text.split())))
    return terms or [term for token in _find_tokens(text) for term in _token_terms(token, keep_stop_words=True)]


def _find_tokens(text: str) -> list[str]:
    return (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)


def is_mostly_latin(text: str) -> bool:
    """Whether at least half of the letters are Latin ones; also if there are no letters."""
    if text.isascii():
        return True
    letters = [letter for letter in text if letter.isalpha()]
    latin = sum(letter < "\u0250" or "\u1e00" <= letter <= "\u1eff" for letter in letters)
    return 2 * latin >= len(letters)


class _TokenTerms(dict[str, tuple[str, ...]]):
    """Token -> its terms. Faster than `lru_cache`, which orders its entries at every hit."""

    def __missing__(self, token: str) -> tuple[str, ...]:
        terms = _token_terms(token)
        if len(token) <= _MAX_CACHED_TOKEN_CHARS:
            if len(self) >= _MAX_CACHED_TOKENS:
                self.clear()
            self[token] = terms
        return terms


_TOKEN_TERMS = _TokenTerms()


class _RunTerms(dict[str, tuple[str, ...]]):
    """Text without white space -> its terms. A token has no white space, so that most look-ups find a known run."""

    def __missing__(self, run: str) -> tuple[str, ...]:
        found = [_TOKEN_TERMS[token] for token in _find_tokens(run)]
        if "-" in run and (options := _OPTION.findall(run)):
            found.insert(0, tuple(options))
        terms = found[0] if len(found) == 1 else tuple(chain.from_iterable(found))
        if len(run) <= _MAX_CACHED_TOKEN_CHARS:
            if len(self) >= _MAX_CACHED_RUNS:
                self.clear()
            self[run] = terms
        return terms


_RUN_TERMS = _RunTerms()


def _token_terms(token: str, *, keep_stop_words: bool = False) -> tuple[str, ...]:
    """The terms of one token."""
    if token.isascii() and (token.isdigit() or (token.isalpha() and (token.islower() or token.istitle()))):
        word = token.lower()  # most tokens: one form without parts
        return () if word in STOP_WORDS and not keep_stop_words else (_stem_word(word)[:MAX_TERM_CHARS],)
    terms: list[str] = []
    for index, run in enumerate(_UNSPACED_RUN.split(token)):  # odd: scripts without spaces
        if index % 2:
            terms += (run[start : start + 2] for start in range(max(1, len(run) - 1)))  # overlapping pairs
        else:
            forms = _word_forms(run.strip(_JOINER_CHARS), keep_stop_words)
            terms += dict.fromkeys(stem for form in forms if (stem := _stem_word(form)[:MAX_TERM_CHARS]))
    return tuple(terms)


def _word_forms(token: str, keep_stop_words: bool) -> Iterator[str]:
    """A token as a whole and its parts, folded, not stemmed."""
    token = _PLURAL_OF_CAPITALS.sub(r"\1", _CLITIC_ENDING.sub("", token.replace(",", "")))
    whole = fold_word(_REMOVED_JOINERS.sub("", token))
    if not keep_stop_words and token not in _ACRONYMS and _is_stop_word(whole, token):
        return
    yield from _whole_forms(token, whole)
    date = _DATE.fullmatch(token)
    if date:  # its month and day alone would match any number of two digits
        yield from (date[1], date[1] + date[2])
        return
    parts = [part for piece in _JOINERS.split(token) for part in _split_camel_case(piece)]
    if len(parts) > 1:
        yield from (word for part in parts if len(word := fold_word(part)) > 1 and word not in STOP_WORDS)


def _is_stop_word(whole: str, token: str) -> bool:
    return whole in STOP_WORDS or _NEGATION.sub("", token).lower() in STOP_WORDS


def _whole_forms(token: str, whole: str) -> Iterator[str]:
    """The forms of the token as a whole."""
    pieces = [piece for piece in _JOINERS.split(token) if piece]
    if len(pieces) > 1 and all(len(piece) == 1 and piece.isalpha() for piece in pieces):
        whole = whole.replace(".", "")  # U.S.A
    if len(pieces) > 1 and len(whole) > MAX_TERM_CHARS:
        return
    yield whole
    version, decade = _VERSION.match(whole), _DECADE.match(whole)
    if version:
        yield version[1]
    if decade:
        yield decade[0]


def _split_camel_case(piece: str) -> Iterable[str]:
    """fooBar -> fooBar, foo, Bar; other words -> the word itself."""
    if piece.isdigit() or (piece.islower() and piece.isalpha()):
        return (piece,)
    humps = _CAMEL_CASE_BOUNDARY.split(piece)
    return (piece, *humps) if len(humps) > 1 else humps


def fold_word(word: str) -> str:
    """Remove case and accents."""
    if word.isascii():
        return word.lower()
    folded = word.casefold().translate(_FOLD_TABLE)
    return unicodedata.normalize("NFKC", folded)


def _stem_word(word: str) -> str:
    for first, last, stemmer in _STEMMERS:
        if first <= word[:1] <= last:
            if not word.isalpha() and first < "\u0900":
                return word
            with _STEMMER_LOCK:
                return str(stemmer.stemWord(_IRREGULAR.get(word, word)[:MAX_TERM_CHARS]))
    return word

"""Detects the type of answer that a question asks for, and whether a text contains such an answer.

Patterns for question words, dates, numbers and names. Of other languages than English, only questions for a number in
German, French and Spanish are known; all others are of type `OTHER`. No model, no index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

from ragkit.lexical.stopwords import STOP_WORDS


class AnswerType(Enum):
    """What a question asks for."""

    DATE = "date"
    """A point in time: when, what year, since what day."""
    NUMBER = "number"
    """A quantity, with or without a unit: how many, how long, what share."""
    PERSON = "person"
    """A person: who, whose."""
    NAME = "name"
    """The name of something: what company, which language, what is it called."""
    OTHER = "other"
    """Anything: a reason, a way, a meaning."""


_TIME_NOUNS = (
    "years?|dates?|days?|months?|decades?|century|centuries|era|season|weeks?|weekday|evening|morning|night|time"
)
_QUANTITY_NOUNS = (
    "number|amount|percent|percentage|proportion|share|fraction|ratio|rate|price|cost|fee|fine|penalty|salary|budget"
    "|size|length|width|height|depth|weight|mass|speed|distance|temperature|pressure|altitude|elevation|area|volume"
    "|population|age|score|limit|duration|magnification|frequency|wavelength|value|quantity|capacity|mileage"
)
_DEGREE_WORDS = (
    "many|much|long|far|fast|quickly|old|young|large|big|small|high|tall|deep|wide|broad|thick|heavy|often|frequently"
    "|hot|cold|warm|strong|likely|close|near|common|expensive|dense|short|steep|bright"
)
_NAME_NOUNS = (
    "names?|compan(?:y|ies)|organi[sz]ations?|teams?|schools?|universit(?:y|ies)|colleges?|persons?|people|man|woman"
    "|kings?|queens?|emperors?|presidents?|leaders?|authors?|artists?|scientists?|philosophers?|groups?|languages?"
    "|books?|films?|movies?|songs?|albums?|bands?|shows?|networks?|newspapers?|magazines?|dynast(?:y|ies)|part(?:y|ies)"
    "|church(?:es)?|religions?|acts?|treat(?:y|ies)|laws?|wars?|battles?|program(?:me)?s?|projects?|agenc(?:y|ies)"
    "|brands?|models?|tribes?|famil(?:y|ies)|awards?|titles?|nationalit(?:y|ies)"
)
_WHICH_WORDS = r"\b(?:what|which|whose) "
_RULES: tuple[tuple[AnswerType, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (
            AnswerType.OTHER,
            rf"\bwhy\b|\bhow come\b|{_WHICH_WORDS}(?:\w+ ){{0,2}}(?:reasons?|causes?|caused|purpose|led to)\b",
        ),
        (
            AnswerType.DATE,
            rf"\bwhen\b|\bhow (?:late|early|soon|long ago)\b|{_WHICH_WORDS}(?:\w+ ){{0,2}}(?:{_TIME_NOUNS})\b",
        ),
        (AnswerType.NUMBER, rf"\bhow (?:{_DEGREE_WORDS})\b|{_WHICH_WORDS}(?:\w+ ){{0,3}}(?:{_QUANTITY_NOUNS})\b"),
        (
            AnswerType.NUMBER,
            r"\bwie ?(?:viele?|lange?|oft|gro(?:ß|ss)|hoch|weit|alt|schnell|teuer|schwer)\b|\bcombien\b"
            r"|\bcuánt[oa]s?\b",
        ),
        (AnswerType.NUMBER, r"\b(?:by|at|below|above) what\b|\bwhat (?:did|does|do) .*\bcosts?\b"),
        (AnswerType.PERSON, r"\bwho\b|\bwhom\b|\bwhose\b"),
        (AnswerType.NAME, rf"{_WHICH_WORDS}(?:\w+ ){{0,3}}(?:{_NAME_NOUNS})\b|\b(?:called|known as|name of|named?)\b"),
    )
)


def detect_answer_type(question: str) -> AnswerType:
    """The type of the first rule that matches the question; `OTHER` if none does."""
    text = " ".join(question.lower().split())
    return next((kind for kind, pattern in _RULES if pattern.search(text)), AnswerType.OTHER)


_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_DATE_PATTERN = re.compile(
    rf"\b(?:1\d{{3}}|20\d\d)s?\b|\b\d{{1,4}} ?(?:bc|ad|bce|ce)\b|\b(?:{_MONTHS})\b|\bcentur\w+|\bdecades?\b"
    r"|\b\d{1,2}:\d\d\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:spring|summer|autumn|winter)\b"
    r"|\b(?:before|after|during|until|since) the\b"
)
_NUMBER_WORDS = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen"
    "|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundreds?|thousands?|millions?|billions?|trillions?"
    "|dozens?|half|halves|thirds?|quarters?|once|twice|double|triple|daily|weekly|monthly|yearly|annually|zero|none"
)
OTHER_NUMBER_WORDS = (
    "zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|zwölf"
    "|[a-zäöüß]{0,20}(?:zehn|zwanzig|dreißig|vierzig|fünfzig|sechzig|siebzig|achtzig|neunzig|hundert|tausend)"
    "|deux|trois|quatre|cinq|huit|neuf|quinze|vingt|trente|mille|cuatro|cinco|seis|siete|ocho|nueve|diez|cien|mil"
)
"""Number words of German, French and Spanish that are no words of English."""
_NUMBER_PATTERN = re.compile(rf"\d+(?:[.,:/]\d+)*|\b(?:{_NUMBER_WORDS}|{OTHER_NUMBER_WORDS})\b")
_NUMBERING = re.compile(
    r"^[ \t]{0,40}\(?\d{1,4}(?:\.\d{1,4}){0,4}[.)]\s"
    r"|(?:§§?|\b(?:abs(?:atz|ätze)?|satz|sätze|nr|nummer|art(?:ikels?)?)\b\.?)\s{0,3}\d{1,5}[a-z]?\b",
    re.IGNORECASE | re.MULTILINE,
)
"""Numbers of items, paragraphs and sections, and references to those of German laws: no amounts."""
_TOKEN_PATTERN = re.compile(r"\w+(?:[.,:/&'’-]\w+)*")


def contains_answer_type(kind: AnswerType, text: str, question: str) -> bool:
    """Whether `text` contains a mention of this type that is not in the question; True for `OTHER`."""
    if kind is AnswerType.OTHER:
        return True
    known = set(_TOKEN_PATTERN.findall(question.lower()))
    return any(not known.issuperset(_TOKEN_PATTERN.findall(mention)) for mention in _find_mentions(kind, text))


def without_numbering(text: str) -> str:
    """A text without the numbers of items and of sections of laws."""
    return _NUMBERING.sub(" ", text)


def _find_mentions(kind: AnswerType, text: str) -> Iterator[str]:
    """All mentions of a type in a text, in lower case. Words with a capital letter count as names."""
    text = without_numbering(text)
    if kind in (AnswerType.DATE, AnswerType.NUMBER):
        pattern = _DATE_PATTERN if kind is AnswerType.DATE else _NUMBER_PATTERN
        yield from (match[0] for match in pattern.finditer(text.lower()))
        return
    for token in _TOKEN_PATTERN.findall(text):
        word = token.lower()
        if token[0].isupper() and word not in STOP_WORDS:
            yield word

"""What kind of thing a question asks for, and whether a text holds one that the question does not hold already.

English by rules: a few patterns over question words and the shapes of dates, numbers and names. In other languages
every question is of kind `OTHER`, which asks for nothing in particular. No model, no index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum

from ragkit.retrieve.stopwords import STOP_WORDS


class Kind(Enum):
    """What a question asks for."""

    DATE = "date"
    """A point in time: when, what year, since what day."""
    NUMBER = "number"
    """A quantity, with or without a unit: how many, how long, what share."""
    PERSON = "person"
    """Somebody: who, whose."""
    PLACE = "place"
    """Somewhere: where, in what city."""
    NAME = "name"
    """The name of something: what company, which language, what is it called."""
    REASON = "reason"
    """A cause or a purpose: why, what caused."""
    MEANING = "meaning"
    """What something is: a definition."""
    OTHER = "other"


_DATE_NOUNS = "year|years|date|day|month|months|decade|century|centuries|era|season|week|weekday|evening|morning|night"
_QUANTITIES = (
    "number|amount|percent|percentage|proportion|share|fraction|ratio|rate|price|cost|fee|fine|penalty|salary|budget"
    "|size|length|width|height|depth|weight|mass|speed|distance|temperature|pressure|altitude|elevation|area|volume"
    "|population|age|score|limit|duration|magnification|frequency|wavelength|value|quantity|capacity|mileage"
)
_DEGREES = (
    "many|much|long|far|fast|quickly|soon|late|early|old|young|large|big|small|high|tall|deep|wide|broad|thick|heavy"
    "|often|frequently|hot|cold|warm|strong|likely|close|near|big|common|expensive|dense|short|steep|bright"
)
_PLACES = (
    "country|countries|city|cities|town|village|state|states|place|places|region|regions|area|areas|location|continent"
    "|island|county|province|district|river|lake|sea|ocean|street|room|building|nation|nations|venue"
)
_NAMED = (
    "name|names|company|companies|organization|organisation|organizations|team|teams|school|university|college"
    "|person|people|man|woman|king|queen|emperor|president|leader|author|artist|scientist|philosopher|group|groups"
    "|language|languages|book|film|movie|song|album|band|show|network|newspaper|magazine|dynasty|party|church|religion"
    "|act|treaty|law|war|battle|program|programme|project|agency|brand|model|tribe|family|award|title|nationality"
)
_ASK = r"(?:what|which|whose)"
_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (Kind.REASON, rf"\bwhy\b|\b{_ASK} (?:\w+ ){{0,2}}(?:reasons?|causes?|caused|purpose|led to)\b|\bhow come\b"),
        (Kind.DATE, rf"\bwhen\b|\b{_ASK} (?:\w+ ){{0,2}}(?:{_DATE_NOUNS})\b|\bhow (?:late|early|soon|long ago)\b"
                    r"|\bwhat time\b"),
        (Kind.NUMBER, rf"\bhow (?:{_DEGREES})\b|\b{_ASK} (?:\w+ ){{0,3}}(?:{_QUANTITIES})\b"
                      rf"|\b(?:by|at|below|above) what\b|\bwhat (?:did|does|do) .*\bcosts?\b"),
        (Kind.PERSON, r"\bwho\b|\bwhom\b|\bwhose\b"),
        (Kind.PLACE, rf"\bwhere\b|\b{_ASK} (?:\w+ ){{0,2}}(?:{_PLACES})\b"),
        (Kind.NAME, rf"\b{_ASK} (?:\w+ ){{0,3}}(?:{_NAMED})\b|\bcalled\b|\bknown as\b|\bname of\b|\bnamed?\b"),
        (Kind.MEANING, r"\bwhat (?:is|are|was|were) (?:an? |the )?[\w'-]+(?: [\w'-]+){0,2}\?*$|\bmeant by\b"
                       r"|\bwhat does .* (?:mean|stand for|do|return)\b|\bdefin(?:e|ition)\b"),
    )
)  # fmt: skip


def kind_of(question: str) -> Kind:
    """What a question asks for, by the first rule that fits."""
    asked = " ".join(question.lower().split())
    return next((kind for kind, pattern in _KINDS if pattern.search(asked)), Kind.OTHER)


_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_DATES = re.compile(
    rf"\b(?:1\d{{3}}|20\d\d)(?:s|\b)|\b\d{{1,4}} ?(?:bc|ad|bce|ce)\b|\b(?:{_MONTHS})\b|\bcentur\w+|\bdecades?\b"
    r"|\b\d{1,2}:\d\d\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:spring|summer|autumn|winter)\b"
    r"|\b(?:before|after|during|until|since) the\b"
)
_NUMBER_WORDS = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen"
    "|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundreds?|thousands?|millions?|billions?|trillions?"
    "|dozens?|half|halves|thirds?|quarters?|once|twice|double|triple|daily|weekly|monthly|yearly|annually|zero|none"
)
_NUMBERS = re.compile(rf"\d+(?:[.,:/]\d+)*|\b(?:{_NUMBER_WORDS})\b")
_NAMES = re.compile(r"(?<![\w'])[A-Z][\w&'’-]*")
_REASONS = re.compile(
    r"\bbecause\b|\bsince\b|\bdue to\b|\bso that\b|\bin order to\b|\breasons?\b|\btherefore\b|\bcaus(?:e|es|ed|ing)\b"
    r"|\bresult(?:s|ed|ing)?\b|\bled to\b|\bowing to\b|\bthus\b|\bto (?:avoid|prevent|make|allow|protect|keep|get)\b|\bfor fear\b"
)
_MEANINGS = re.compile(r"\b(?:is|are|was|were|means?|refers?|stands?|called|known|defined|denotes?|returns?)\b|[:=(]")


def holds(kind: Kind, text: str, question: str) -> bool:
    """Whether `text` holds something of this kind that the question itself does not; True for `OTHER`."""
    find = _FINDERS.get(kind)
    if find is None:
        return True
    known = question.lower()
    return any(found.lower() not in known for found in find(text))


def names_in(text: str) -> Iterator[str]:
    """Words with a capital letter; at the head of the text only those that are no function word."""
    for found in _NAMES.finditer(text):
        if found[0].lower() not in STOP_WORDS:
            yield found[0]


def _lower(pattern: re.Pattern[str]) -> Callable[[str], Iterator[str]]:
    return lambda text: (found[0] for found in pattern.finditer(text.lower()))


_FINDERS: dict[Kind, Callable[[str], Iterator[str]]] = {
    Kind.DATE: _lower(_DATES),
    Kind.NUMBER: _lower(_NUMBERS),
    Kind.PERSON: names_in,
    Kind.PLACE: names_in,
    Kind.NAME: names_in,
    Kind.REASON: _lower(_REASONS),
    Kind.MEANING: _lower(_MEANINGS),
}

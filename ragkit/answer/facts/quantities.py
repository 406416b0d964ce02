"""Finds numbers with their units, times of day and dates in a text, normalized for comparison.

1,000 = 1000, 16 h = 16 hours, 2k = two thousand, 5 % = five per cent, 1 March 2024 = 2024-03-01, 2:30 pm = 14:30.
Units are not converted. English, with the formats of numbers and dates of other languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType

CLOCK = "clock"
"""The unit of a time of day; its value is in minutes."""


def _words(text: str) -> list[str]:
    return text.split()


_WORD_NUMBERS = {
    word: value
    for value, word in enumerate(
        _words(
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
            "sixteen seventeen eighteen nineteen"
        )
    )
} | {
    word: 10 * value
    for value, word in enumerate(_words("twenty thirty forty fifty sixty seventy eighty ninety"), start=2)
}
_ORDINALS = {
    word: value
    for value, word in enumerate(
        _words("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"), start=1
    )
}
_SCALES = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 1e3,
    "k": 1e3,
    "million": 1e6,
    "mio": 1e6,
    "billion": 1e9,
    "bn": 1e9,
}
_UNIT_WORDS = {
    "second": "s sec secs second seconds",
    "minute": "min mins minute minutes",
    "hour": "h hr hrs hour hours",
    "day": "d day days",
    "week": "week weeks",
    "month": "month months",
    "year": "year years yr yrs",
    "night": "night nights",
    "ms": "ms millisecond milliseconds",
    "us": "µs us microsecond microseconds",
    "metre": "m metre metres meter meters",
    "km": "km kilometre kilometres kilometer kilometers",
    "cm": "cm centimetre centimetres centimeter centimeters",
    "mm": "mm millimetre millimetres millimeter millimeters",
    "um": "µm um micrometre micrometres micron microns",
    "nm": "nm nanometre nanometres nanometer nanometers",
    "inch": "inch inches in",
    "foot": "ft foot feet",
    "mile": "mile miles",
    "point": "pt pts point points",
    "em": "em",
    "kg": "kg kilogram kilograms",
    "gram": "g gram grams",
    "mg": "mg milligram milligrams",
    "tonne": "t tonne tonnes ton tons",
    "litre": "l litre litres liter liters",
    "ml": "ml millilitre millilitres milliliter milliliters",
    "byte": "byte bytes",
    "kb": "kb kbyte kbytes kilobyte kilobytes",
    "kib": "kib kibibyte kibibytes",
    "mb": "mb mbyte mbytes megabyte megabytes",
    "mib": "mib mebibyte mebibytes",
    "gb": "gb gbyte gbytes gig gigs gigabyte gigabytes",
    "gib": "gib gibibyte gibibytes",
    "tb": "tb terabyte terabytes",
    "bit": "bit bits",
    "character": "character characters chars char",
    "volt": "v volt volts",
    "kw": "kw kilowatt kilowatts",
    "watt": "w watt watts",
    "kwh": "kwh",
    "hz": "hz hertz",
    "mhz": "mhz megahertz",
    "ghz": "ghz gigahertz",
    "bar": "bar bars",
    "degree": "° °c °f degree degrees",
    "%": "% percent percentage",
    "eur": "€ euro euros eur",
    "usd": "$ dollar dollars usd",
    "gbp": "£ pound pounds gbp",
    "cent": "cent cents",
    "times": "times × fold",
    "m/s": "m/s",
    "km/h": "km/h",
}
UNITS = MappingProxyType({word: unit for unit, words in _UNIT_WORDS.items() for word in words.split()})
"""Words of units -> unit."""
_LETTER_UNITS = frozenset(_words("in s m h d g t l v w k em us pt gig"))  # only directly behind digits
_MONTHS = {
    name: month
    for month, names in enumerate(
        (
            "january jan januar janvier",
            "february feb februar février",
            "march mar märz mars",
            "april apr avril",
            "may mai",
            "june jun juni juin",
            "july jul juli juillet",
            "august aug août",
            "september sep sept septembre",
            "october oct oktober octobre",
            "november nov novembre",
            "december dec dezember décembre",
        ),
        start=1,
    )
    for name in names.split()
}
_MONTH = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = re.compile(
    rf"\b(?P<iso>\d{{4}}-\d{{2}}-\d{{2}})(?!\d)"
    rf"|\b(?P<numeric>\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}})\b"
    rf"|\b(?:(?P<from1>{_DAY})\s?(?:-|–|to|until|through|and|or)\s?)?(?P<day1>{_DAY})\.?\s(?:of\s)?(?P<month1>{_MONTH})"
    rf"(?:,?\s(?P<year1>\d{{4}})\b)?"
    rf"|\b(?P<month2>{_MONTH})\s(?P<day2>{_DAY})\b(?!\d|:)(?:\s?(?:-|–|to|until|through|and)\s?(?P<to2>{_DAY})\b(?!:))?"
    rf"(?:,?\s(?P<year2>\d{{4}})\b)?"
    rf"|\b(?P<month3>{_MONTH})(?:\s(?:of\s)?(?P<year3>\d{{4}})\b)?",
    re.IGNORECASE,
)
_BEFORE_MONTH = re.compile(r"\b(?:in|since|until|till|during|before|after|every|each)\s\Z", re.IGNORECASE)
_TIME = re.compile(
    r"(?<![\w:.,-])(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::\d{2})?|(?=\s?(?:[ap]\.?m\b|o'clock)))"
    r"(?!\d|:)(?:\s?(?P<half>[ap])\.?m\b\.?)?",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w\d)\].%°€$-])[-−]\s?|\bminus\s)?(?P<currency>(?:[€$£]|\b(?:EUR|USD|GBP))\s?)?"
    r"(?<![\w.])(?P<digits>\d{1,3}(?:[,'’\u00a0\u202f]\d{3})+(?:\.\d+)?(?![\d])|\d+(?:[.,]\d+)?|\.\d+)"
    r"(?P<ordinal>st|nd|rd|th)?(?![\d]|[.,:]\d|_)"
)
_WORDS = re.compile(
    rf"\b(?P<tens>{'|'.join(_WORD_NUMBERS)})(?:[- ](?P<ones>one|two|three|four|five|six|seven|eight|nine))?\b"
    rf"|\b(?P<ordinal>{'|'.join(_ORDINALS)}|last)\b|\b(?P<article>an?|one|single)(?=\s(?P<noun>[a-z]+))"
    r"|\b(?P<idiom>twice|doubled?|half an hour|three quarters|(?<!and a )half|dozen)\b",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"(?P<half>[ -]and[ -]a[ -]half\b)?(?:\s?-?\s?(?P<scale>dozen|hundred|thousand|million|mio|billion|bn|k)\b)?"
    r"(?:[\s-]?(?P<compound>(?:met(?:re|er)s? per second|m/s|km/h|per cent))|(?P<sep>[\s-]?)(?P<unit>[%°€$£µ×]?[a-z]*))"
    r"(?:\s(?P<unit2>[a-z]+))?(?:\s(?P<unit3>[a-z]+))?",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"\b[A-Za-z_]+\d[\w.-]*\b|\b[A-Z]{1,6}-\d[\w-]*|\b\d+(?:\.\d+){2,}\b|\b\d:\d\b(?!:)")
_AND_A_HALF = re.compile(r"\s?and a half\b", re.IGNORECASE)
_RANGE_GAP = re.compile(r"\s?(?:-|–|—|to|or|and|until|up to)\s?(?=[€$£\d.a-z])", re.IGNORECASE)
_HEDGE = re.compile(
    r"(?:about|around|roughly|approximately|approx\.?|nearly|almost|some|over|~|≈|circa|ca\.)\s*$", re.I
)
_COMPOUNDS = {"per cent": "%", "m/s": "m/s", "km/h": "km/h"}
_ROUNDING = 0.05


@dataclass(frozen=True)
class Quantity:
    """A number of a text."""

    value: float
    unit: str = ""
    """A key of the table of units, or CLOCK; '' if it is unknown or there is none."""
    text: str = ""
    """As written, with the unit."""
    start: int = 0
    is_word: bool = False
    """Written out, or implied ("an hour", "twice"), so that it may be a figure of speech."""
    is_approximate: bool = False

    def matches(self, other: Quantity) -> bool:
        """Whether another text gives the same number; a missing unit matches any."""
        if self.unit and other.unit and self.unit != other.unit:
            return False
        if CLOCK in (self.unit, other.unit) and self.unit != other.unit:
            return False
        if self.is_approximate and other.value:
            return abs(self.value - other.value) <= _ROUNDING * abs(other.value)
        return abs(self.value - other.value) < 1e-9


@dataclass(frozen=True)
class Date:
    """A date, or a part of one; at least the month is known."""

    year: int | None
    month: int
    day: int | None
    text: str = ""
    start: int = 0
    is_ambiguous: bool = False
    """One of two readings, as of 3/4/2024."""

    def matches(self, other: Date, years: frozenset[int]) -> bool:
        """Whether another text gives this date; `years` are those of that text, for a date without one."""
        if self.month != other.month or (self.day is not None and self.day != other.day):
            return False
        if self.year is None or self.year == other.year:
            return True
        return other.year is None and self.year in years


def find_dates(text: str) -> list[Date]:
    """The dates of a text, in order; 3/4/2024 gives both readings, a bare month is a date."""
    return [date for match in _DATE.finditer(text) for date in _read_date(match)]


def find_quantities(text: str) -> list[Quantity]:
    """The numbers and times of a text, in order, without those of its dates; both ends of a range have its unit."""
    masked = _DATE.sub(lambda match: match[0] if not any(c.isdigit() for c in match[0]) else "·" * len(match[0]), text)
    masked = _IDENTIFIER.sub(lambda match: "·" * len(match[0]), masked)
    found = list(_times(masked))
    masked = _TIME.sub(lambda match: "·" * len(match[0]), masked)
    found += [*_digits(masked), *_written(masked)]
    return sorted(found, key=lambda quantity: quantity.start)


def _read_date(match: re.Match[str]) -> Iterator[Date]:
    text, start = match[0], match.start()
    if match["iso"]:
        year, month, day = map(int, match["iso"].split("-"))
        yield Date(year, month, day, text, start)
    elif match["numeric"]:
        first, second, year = (int(part) for part in re.split(r"[./]", match["numeric"]))
        readings = {(m, d) for m, d in ((second, first), (first, second)) if m <= 12}
        yield from (Date(year, m, d, text, start, is_ambiguous=True) for m, d in sorted(readings))
    elif match["month1"]:
        for name in ("from1", "day1"):
            if match[name]:
                yield Date(_int(match["year1"]), _month(match["month1"]), _int(match[name]), text, start)
    elif match["month2"]:
        for name in ("day2", "to2"):
            if match[name]:
                yield Date(_int(match["year2"]), _month(match["month2"]), _int(match[name]), text, start)
    elif match["month3"][0].isupper() and (match["year3"] or not _may_be_word(match)):
        yield Date(_int(match["year3"]), _month(match["month3"]), None, text, start)


def _may_be_word(match: re.Match[str]) -> bool:
    """Whether a bare month may be another word: May and March are months after a preposition ("since May")."""
    name = match["month3"].lower().rstrip(".")
    is_english = name in ("may", "march") and _BEFORE_MONTH.search(
        match.string, max(0, match.start() - 10), match.start()
    )
    return name in ("may", "march", "mars", "mar") and not is_english


def _month(name: str) -> int:
    return _MONTHS[name.lower().rstrip(".")]


def _int(text: str | None) -> int | None:
    return int(re.sub(r"\D", "", text)) if text else None


def _times(text: str) -> Iterator[Quantity]:
    for match in _TIME.finditer(text):
        yield Quantity(_clock(match), CLOCK, match[0].strip(), match.start())
    for match in re.finditer(r"\b(?:noon|midnight)\b", text, re.IGNORECASE):
        yield Quantity(720.0 if match[0].lower() == "noon" else 0.0, CLOCK, match[0], match.start(), is_word=True)


def _clock(match: re.Match[str]) -> float:
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    if match["half"]:
        hour = hour % 12 + (12 if match["half"].lower() == "p" else 0)
    return float((0 if hour == 24 else hour) * 60 + minute)


def _digits(text: str) -> Iterator[Quantity]:
    pending: list[tuple[Quantity, int]] = []
    for match in _NUMBER.finditer(text):
        after = text[match.end() : match.end() + 1]
        if after.isalpha() and not _glued_unit(text, match.end()):
            continue  # an identifier such as 3c9f
        value = _value(match["digits"]) * (-1 if match["sign"] else 1)
        factor, unit, end = (1.0, "", match.end()) if match["ordinal"] else _tail(text, match.end())
        if match["currency"]:
            unit = UNITS[match["currency"].strip().lower()]
        start = match.start()
        quantity = Quantity(
            value * factor, unit, text[start:end].strip(), start, is_approximate=bool(_HEDGE.search(text[:start][-16:]))
        )
        pending.append((quantity, match.end()))
    yield from _share_units(pending, text)


def _written(text: str) -> Iterator[Quantity]:
    pending: list[tuple[Quantity, int]] = []
    for match in _WORDS.finditer(text):
        start, end = match.span()
        if match["tens"]:
            number = _WORD_NUMBERS[match["tens"].lower()]
            ones = match["ones"]
            if ones and number >= 20 and number % 10 == 0:
                number += _WORD_NUMBERS[ones.lower()]
            elif ones:
                end = match.start("ones") - 1
            factor, unit, tail_end = _tail(text, end)
            has_half = _AND_A_HALF.match(text, end) or _AND_A_HALF.match(text, tail_end)
            value = (number + 0.5 if has_half else number) * factor
            pending.append((Quantity(value, unit, text[start:tail_end].strip(), start, is_word=True), end))
        elif match["ordinal"] and match["ordinal"].lower() in _ORDINALS:
            yield Quantity(_ORDINALS[match["ordinal"].lower()], "", match[0], start, is_word=True)
        elif match["article"] and match["noun"].lower() in UNITS:
            yield Quantity(1.0, UNITS[match["noun"].lower()], f"{match[0]} {match['noun']}", start, is_word=True)
        elif match["idiom"]:
            yield from (
                Quantity(value, unit, match[0], start, is_word=True) for value, unit in _IDIOMS[match[0].lower()]
            )
    yield from _share_units(pending, text)


_IDIOMS: dict[str, tuple[tuple[float, str], ...]] = {
    "twice": ((2.0, "times"),),
    "double": ((2.0, "times"),),
    "doubled": ((2.0, "times"),),
    "half an hour": ((30.0, "minute"),),
    "three quarters": ((75.0, "%"), (0.75, "")),
    "half": ((50.0, "%"), (0.5, "")),
    "dozen": ((12.0, ""),),
}


def _share_units(pending: list[tuple[Quantity, int]], text: str) -> Iterator[Quantity]:
    """`3 to 5 days`: the first number of a range has the unit of the second."""
    for i, (quantity, end) in enumerate(pending):
        following = pending[i + 1][0] if i + 1 < len(pending) else None
        unit = following.unit if following is not None and _RANGE_GAP.fullmatch(text[end : following.start]) else ""
        yield quantity if quantity.unit or unit in ("", "times") else replace(quantity, unit=unit)


def _value(digits: str) -> float:
    if re.fullmatch(r"\d{1,3}(?:[,'’\u00a0\u202f]\d{3})+(?:\.\d+)?", digits):
        return float(re.sub(r"[,'’\u00a0\u202f]", "", digits))
    return float(digits.replace(",", "."))


def _glued_unit(text: str, at: int) -> bool:
    word = re.compile(r"[a-z°%µ/]+", re.IGNORECASE).match(text, at)
    return word is not None and (word[0].lower() in UNITS or word[0].lower() in _SCALES)


def _tail(text: str, at: int) -> tuple[float, str, int]:
    """The scale (2 million), the unit and the end of the number that ends at `at`."""
    match = _TAIL.match(text, at)
    if match is None:
        return 1.0, "", at
    factor = float(_SCALES[match["scale"].lower()]) if match["scale"] else 1.0
    end = match.end("scale") if match["scale"] else at
    if match["compound"]:
        word = match["compound"].lower()
        return factor, _COMPOUNDS.get(word, "m/s"), match.end("compound")
    words = [match["unit"], match["unit2"], match["unit3"]]
    for i, word in enumerate(words):
        if not word:
            break
        unit = UNITS.get(word.lower(), "")
        is_letter = word.lower() in _LETTER_UNITS and (
            i > 0 or (match["sep"] and word.lower() in ("in", "s", "d", "t", "em", "us"))
        )
        if unit and not is_letter:
            return factor, unit, match.end(("unit", "unit2", "unit3")[i])
        if word.lower() in _NO_ADJECTIVES:
            break
    return factor, "", end


_NO_ADJECTIVES = frozenset(
    _words(
        "of in on at to for from by with and or the a an is are was were per as than that which who when "
        "if within after before until up be may can must every each their its"
    )
)

"""Dates in questions, in names of documents and at their beginning, as `2024-05-23`, `2024-05` or `2024`.

A shorter one is a period: `2024-05-23` is in `2024-05`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_MONTHS = (
    "january januar janvier enero",
    "february februar février febrero",
    "march märz mars marzo",
    "april avril abril",
    "may mai mayo",
    "june juni juin junio",
    "july juli juillet julio",
    "august août agosto",
    "september septembre septiembre",
    "october oktober octobre octubre",
    "november novembre noviembre",
    "december dezember décembre diciembre",
)
_YEAR = r"(?P<y>(?:19|20)\d\d)"
_WORD = r"(?P<month>[^\W\d_]{3,10})\.?"
_DAY = r"(?P<d>\d{1,2})(?:st|nd|rd|th|\.)?"
_FORMS = (
    re.compile(rf"(?<!\d){_YEAR}(?P<gap>[-_./]?)(?P<m>\d\d)(?P=gap)(?P<d>\d\d)(?!\d)"),
    re.compile(rf"(?<!\d){_DAY}[ -](?:of |de )?{_WORD},?[ -](?:de )?{_YEAR}(?!\d)"),
    re.compile(rf"(?<!\w){_WORD} {_DAY},? {_YEAR}(?!\d)"),
    re.compile(rf"(?<![\d./])(?P<d>\d\d?)[./](?P<m>\d\d?)[./]{_YEAR}(?!\d)"),
    re.compile(rf"(?<!\w){_WORD},? (?:of |de )?{_YEAR}(?!\d)"),
    re.compile(rf"(?<!\d){_YEAR}[-_](?P<m>\d\d)(?![\d-])"),
)
_PLAIN_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")


def read_dates(text: str) -> list[str]:
    """The dates of a text in order, those without a month last."""
    found: list[tuple[int, int, str]] = []
    for form in _FORMS:
        for match in form.finditer(text):
            start, end = match.span()
            if (date := _to_date(match.groupdict())) and all(end <= a or b <= start for a, b, _ in found):
                found.append((start, end, date))
    years = [
        year[0] for year in _PLAIN_YEAR.finditer(text) if all(year.end() <= a or b <= year.start() for a, b, _ in found)
    ]
    return [date for _, _, date in sorted(found)] + years


def read_period(text: str) -> str:
    """The date or period that a text is, `-08` for August of any year; '' for other texts."""
    text = text.strip(" ,.")
    if month := next((n for n, names in enumerate(_MONTHS, 1) if text.lower() in names.split()), 0):
        return f"-{month:02d}"
    if _PLAIN_YEAR.fullmatch(text):
        return text
    return next(
        (date for form in _FORMS if (match := form.fullmatch(text)) and (date := _to_date(match.groupdict()))), ""
    )


def is_within(dates: Iterable[str], period: str) -> bool:
    """Whether one of the dates is in a period."""
    return any(date[4:].startswith(period) if period.startswith("-") else date.startswith(period) for date in dates)


def _to_date(parts: dict[str, str | None]) -> str:
    """'' where the numbers are no date."""
    word, day = (parts.get("month") or "").lower(), int(parts.get("d") or 0)
    month = int(parts.get("m") or 0) or next(
        (n for n, names in enumerate(_MONTHS, 1) if word and any(name.startswith(word) for name in names.split())), 0
    )
    if month > 12 >= day > 0 and parts.get("m"):  # 5/23/2024
        month, day = day, month
    if not 1 <= month <= 12 or day > 31:
        return ""
    return f"{parts['y']}-{month:02d}" + (f"-{day:02d}" if day else "")

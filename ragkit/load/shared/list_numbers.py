"""The numbers of list items, as Word, HTML and OpenDocument count them. Independent of file formats."""

from __future__ import annotations

from collections.abc import Mapping

_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl")),
    *((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
STYLES: Mapping[str, str] = {
    **dict.fromkeys(("a", "lowerLetter", "lower-alpha", "lower-latin"), "a"),
    **dict.fromkeys(("A", "upperLetter", "upper-alpha", "upper-latin"), "A"),
    **dict.fromkeys(("i", "lowerRoman", "lower-roman"), "i"),
    **dict.fromkeys(("I", "upperRoman", "upper-roman"), "I"),
}
"""The name of a numbering in Word, HTML or OpenDocument -> a, A, i or I; digits for all others."""


def format_number(number: int, style: str) -> str:
    """A number from 1 in a numbering of `STYLES`: `3`, `c`, `III`; digits beyond the range of letters."""
    kind = STYLES.get(style, "1")
    if kind in "aA" and 0 < number <= 26 * 27:
        letters = chr(ord("a") + (number - 1) % 26)
        text = letters if number <= 26 else chr(ord("a") + (number - 1) // 26 - 1) + letters
    elif kind in "iI" and 0 < number < 4000:
        text = ""
        for value, letters in _ROMAN:
            text += letters * (number // value)
            number %= value
    else:
        return f"{number:02}" if style == "decimalZero" else str(number)
    return text if kind.islower() else text.upper()

"""The labels of a list of questions and answers: "Q:" and "A:", "Question 3." and "Answer:", in four languages."""

from __future__ import annotations

import re
from collections.abc import Iterator

_MARKS = r"[ \t]*(?:[-*+>][ \t]+)?[*_]{0,3}"
_END = r"[ \t]?\d{0,3}[*_]{0,3}[:.)][*_]{0,3}[ \t]+(?=\S)"
_ASKS = r"(?=[^\n]{0,300}\?[*_ \t]{0,9}$)"
_QUESTION = (
    rf"{_MARKS}(?:(?:Q|Question|Frage|Pregunta)[ \t]?\d{{0,3}}[*_]{{0,3}}:[*_]{{0,3}}[ \t]+(?=\S)"
    rf"|(?:Q|F|P|Question|Frage|Pregunta){_END}{_ASKS})"
)
"""Without a colon only before a question mark: "F. Scott Fitzgerald", "P. 12"."""
_ANSWER = rf"{_MARKS}(?:(?:A|Answer|Antwort|Réponse|Respuesta){_END}|R[*_]{{0,3}}:[*_]{{0,3}}[ \t]+(?=\S))"
_ASKED = re.compile(_QUESTION, re.MULTILINE)
_ANSWERED = re.compile(_ANSWER)
_LABELS = re.compile(rf"^(?:(?P<asked>{_QUESTION})|{_ANSWER})", re.MULTILINE)


def is_asked(text: str) -> bool:
    """Whether a text begins with the label of a question."""
    return _ASKED.match(text) is not None


def is_answered(text: str) -> bool:
    """Whether a text begins with the label of an answer."""
    return _ANSWERED.match(text) is not None


def labelled_parts(text: str) -> Iterator[tuple[int, int, bool]]:
    """The questions and answers of a text that begins with a label: start and end without it, whether it is asked."""
    labels = list(_LABELS.finditer(text))
    ends = [*(label.start() for label in labels[1:]), len(text)]
    for label, end in zip(labels, ends, strict=False):
        start = label.end()
        yield start, start + len(text[start:end].rstrip()), label["asked"] is not None

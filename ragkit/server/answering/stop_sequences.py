"""Ends the text of an answer at the first of the caller's stop sequences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ragkit.answer.base import Answer
from ragkit.answer.citations import CITATION_MARK


class StopSequences:
    """Ends streamed text before the first of some sequences. What may become one is held back."""

    def __init__(self, sequences: Iterable[str]) -> None:
        self._sequences = tuple(sequences)
        self._held = ""
        self._stopped = False

    def feed(self, text: str) -> str:
        """Add a piece; returns the text to show now."""
        if not self._sequences or self._stopped:
            return "" if self._stopped else text
        text = self._held + text
        shown = cut_text(text, self._sequences)
        self._stopped = len(shown) < len(text)
        held = 0 if self._stopped else max(_open_length(text, sequence) for sequence in self._sequences)
        self._held = text[len(text) - held :]
        return shown[: len(shown) - held]

    def restart(self) -> str:
        """The held text, at the end of a text; the next piece begins another one."""
        held, self._held, self._stopped = self._held, "", False
        return held


def cut_text(text: str, sequences: Iterable[str]) -> str:
    """The text before the first of the sequences."""
    places = [place for sequence in sequences if (place := text.find(sequence)) >= 0]
    return text[: min(places)] if places else text


def cut_answer(answer: Answer, sequences: Iterable[str]) -> Answer:
    """The answer before the first of the sequences, with the citations and statements of that part."""
    text = cut_text(answer.text, sequences)
    if len(text) == len(answer.text):
        return answer
    numbers = {int(number) for mark in CITATION_MARK.finditer(text) for number in mark[1].split(",")}
    return replace(
        answer,
        text=text,
        citations=tuple(citation for citation in answer.citations if citation.n in numbers),
        statements=tuple(statement for statement in answer.statements if statement.text in text),
    )


def _open_length(text: str, sequence: str) -> int:
    """Length of the end of the text that begins the sequence."""
    lengths = range(min(len(text), len(sequence) - 1), 0, -1)
    return next((length for length in lengths if text.endswith(sequence[:length])), 0)

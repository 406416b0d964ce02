"""A gate for answers without a model: real documents, questions, conversations, and the figures that may not fall.

`docs/` are freely licensed (`SOURCES.md`). A question names the wanted words: every group must be in the answer, by one
of its strings. `recorded.json` holds the figures; `python -m tests.answer.gate` measures and stores them again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypedDict

from ragkit.answer.base import Answer
from ragkit.knowledge_base.knowledge_base import KnowledgeBase

FOLDER = Path(__file__).parent
RECORDED = FOLDER / "recorded.json"
TOTAL = "total"
_ITEM = re.compile(r"\s*([-*•]|\d+[.)])\s")
_SENTENCE_END = re.compile(r"[.!?][\"')’”]*(?=\s+[\"'(‘“]?[A-Z0-9])|(?=\s\[\d+\])")
_ABBREVIATION = re.compile(r"(^\W*\d[\d.]*|\b(e\.?g|i\.?e|etc|cf|vs|No|Dr|resp))\.$", re.IGNORECASE)


class GateQuestion(TypedDict):
    """A question of the gate, or a turn of a conversation."""

    id: str
    question: str
    kind: str
    answerable: bool
    answers: list[list[str]]
    """Each group must be in the answer, by one of its strings."""
    source: list[str]
    """Names of files with the answer."""
    first: bool
    """Whether the first sentence can hold the whole answer."""


@dataclass
class Figure:
    """How many of the questions that count."""

    hits: int = 0
    n: int = 0

    def __str__(self) -> str:
        low, high = wilson_interval(self.hits, self.n)
        return f"{self.hits}/{self.n} ({low:.2f}-{high:.2f})" if self.n else "-"


@dataclass
class KindFigures:
    """The figures of one kind of questions."""

    right: Figure = field(default_factory=Figure)
    first: Figure = field(default_factory=Figure)
    """The first sentence, or the first list, is a right answer."""
    cited: Figure = field(default_factory=Figure)
    """A file with the answer is cited."""
    refused: Figure = field(default_factory=Figure)
    """Refused although the documents have an answer."""
    answered: Figure = field(default_factory=Figure)
    """Answered although they have none."""

    def add(self, question: GateQuestion, answer: Answer) -> None:
        """Judge one answer."""
        said = not answer.abstained
        if not question["answerable"]:
            _count(self.answered, said)
            return
        correct = said and _contains_all(question["answers"], answer.text)
        names = {Path(citation.source.split("#")[0]).name for citation in answer.citations}
        _count(self.right, correct)
        if question["first"]:
            _count(self.first, correct and _contains_all(question["answers"], first_statement(answer.text)))
        _count(self.cited, said and not names.isdisjoint(question["source"]))
        _count(self.refused, not said)


Figures = Mapping[str, KindFigures]
"""By kind of question, and `total`."""


def measure() -> dict[str, Figures]:
    """The figures of the questions and of the follow-ups of the conversations, asked of a new knowledge base."""
    with (
        TemporaryDirectory(prefix="ragkit-gate-") as scratch,
        KnowledgeBase.open(Path(scratch) / "kb", "default") as kb,
    ):
        kb.index(FOLDER / "docs")
        questions: dict[str, KindFigures] = {}
        for question in _read_lines("questions.jsonl"):
            _add(questions, question, kb.ask(question["question"], model="extractive"))
        turns: dict[str, KindFigures] = {}
        for conversation in _read_lines("conversations.jsonl"):
            chat = kb.chat(model="extractive")
            for turn in conversation["turns"]:
                _add(turns, turn, chat.ask(turn["question"]))
    for figures in (questions, turns):
        figures[TOTAL] = figures.pop(TOTAL)  # the last line
    return {"questions": questions, "conversations": turns}


def to_json(figures: Mapping[str, Figures]) -> dict[str, dict[str, dict[str, list[int]]]]:
    """The figures as [hits, n], without empty ones."""
    return {
        part: {
            kind: {name: [figure.hits, figure.n] for name, figure in vars(row).items() if figure.n}
            for kind, row in kinds.items()
        }
        for part, kinds in figures.items()
    }


def table(figures: Mapping[str, Figures]) -> Iterator[str]:
    """The figures with 95 % intervals, one line for each kind."""
    for part, kinds in figures.items():
        yield f"{part:18}" + "".join(f"{name:>22}" for name in vars(KindFigures()))
        for kind, row in kinds.items():
            yield f"{kind:18}" + "".join(f"{figure!s:>22}" for figure in vars(row).values())


def wilson_interval(hits: int, n: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share; (0, 1) without questions."""
    if not n:
        return 0.0, 1.0
    z, share = 1.96, hits / n
    middle, spread = share + z * z / (2 * n), z * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, (middle - spread) / (1 + z * z / n)), min(1.0, (middle + spread) / (1 + z * z / n))


def first_statement(text: str) -> str:
    """The first sentence of an answer, or its first list with the line that leads to it."""
    rows = [row for row in text.splitlines() if row.strip()] or [""]
    lead = 0 if _ITEM.match(rows[0]) else 1
    end = lead
    while end < len(rows) and _ITEM.match(rows[end]):
        end += 1
    if end > lead and (lead == 0 or rows[0].rstrip().endswith(":")):
        return "\n".join(rows[:end])
    for mark in _SENTENCE_END.finditer(rows[0]):
        if not _ABBREVIATION.search(rows[0][: mark.start() + 1]):
            return rows[0][: mark.start() + 1]
    return rows[0]


def _add(figures: dict[str, KindFigures], question: GateQuestion, answer: Answer) -> None:
    for kind in (question["kind"], TOTAL):
        figures.setdefault(kind, KindFigures()).add(question, answer)


def _count(figure: Figure, hit: bool) -> None:
    figure.hits += hit
    figure.n += 1


def _contains_all(groups: list[list[str]], text: str) -> bool:
    plain = _plain(text)
    return all(any(_plain(string) in plain for string in group) for group in groups)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _read_lines(name: str) -> Iterator[Any]:
    yield from map(json.loads, (FOLDER / name).read_text("utf-8").splitlines())

"""A provider without a language model: it calls the search tool and answers with quotes from the passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest, Provider
from ragkit.answer.answer_selection import ScoredAnswerUnit, select_answer_units
from ragkit.answer.base import Searcher
from ragkit.answer.evidence import EVIDENCE_THRESHOLD
from ragkit.answer.tool import TOOL_NAME, RetrievedPassages
from ragkit.records import Hit
from ragkit.usage.tokens import Tokens

NOT_IN_DOCUMENTS = "Not in these documents."
"""The first words of an abstention."""
MAX_SENTENCES = 3
"""Sentences in one answer, at most."""
ZERO_COST = Tokens(cost_usd=0.0)


@dataclass(frozen=True)
class Quote:
    """A quoted sentence of an answer and its citation number."""

    n: int
    hit: Hit
    unit: ScoredAnswerUnit


@dataclass(frozen=True)
class ExtractiveAnswer:
    """The quotes that an answer consists of: the data of its message."""

    quotes: tuple[Quote, ...]
    abstained: bool


class ExtractiveProvider(Provider):
    """Answers with the best sentences of the passages, each with its citation; abstains if there are none."""

    name = "extractive"
    default_model = "extractive"

    def __init__(self, searcher: Searcher, *, threshold: float = EVIDENCE_THRESHOLD) -> None:
        """Abstain if the estimated probability of an answer is below `threshold`."""
        self._searcher = searcher
        self._threshold = threshold

    def complete(self, request: ModelRequest) -> Completion:
        """A tool call after a question; an answer after a tool result."""
        last = request.messages[-1]
        if last.role is Role.TOOL and isinstance(last.data, RetrievedPassages):
            return Completion(self._compose_answer(last.data), ZERO_COST)
        if last.role is Role.TOOL:
            return Completion(Message.assistant(last.content), ZERO_COST)
        call = ToolCall(TOOL_NAME, {"query": last.content})
        return Completion(Message.assistant("", [call]), ZERO_COST, "tool_calls")

    def _compose_answer(self, passages: RetrievedPassages) -> Message:
        units = select_answer_units(passages.query, passages.hits, self._searcher, MAX_SENTENCES)
        abstained = passages.evidence < self._threshold or not units
        quotes = tuple(Quote(n, passages.hits[unit.hit_index], unit) for n, unit in enumerate(units, start=1))
        text = _format_abstention(quotes) if abstained else _format_answer(quotes)
        return Message(Role.ASSISTANT, text, data=ExtractiveAnswer(quotes, abstained))


def _format_answer(quotes: Sequence[Quote]) -> str:
    """One line for each quote: they come from different places and do not form a paragraph."""
    return "\n".join(f"{' '.join(quote.unit.text.split())} [{quote.n}]" for quote in quotes)


def _format_abstention(quotes: Sequence[Quote]) -> str:
    marks = " ".join(f"[{quote.n}]" for quote in quotes)
    return f"{NOT_IN_DOCUMENTS} The nearest passages: {marks}" if marks else NOT_IN_DOCUMENTS

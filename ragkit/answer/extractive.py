"""The answerer that needs no language model: it calls the tool as a model would, and quotes what answers best."""

from __future__ import annotations

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
"""What an answer begins with when the passages do not hold one."""
MAX_SENTENCES = 3
"""Sentences of an answer."""
ZERO_COST = Tokens(cost_usd=0.0)


@dataclass(frozen=True)
class Quote:
    """A sentence that an answer is made of, and the number that stands behind it."""

    n: int
    hit: Hit
    unit: ScoredAnswerUnit


@dataclass(frozen=True)
class ExtractiveAnswer:
    """What an answer was composed of: the object behind its message."""

    quotes: tuple[Quote, ...]
    abstained: bool


class ExtractiveProvider(Provider):
    """Answers with the best sentences of the passages, each with its citation; says so when there are none."""

    name = "extractive"
    default_model = "extractive"

    def __init__(self, searcher: Searcher, *, threshold: float = EVIDENCE_THRESHOLD) -> None:
        """Below `threshold`, a probability, it does not answer."""
        self._searcher = searcher
        self._threshold = threshold

    def complete(self, request: ModelRequest) -> Completion:
        """A call of the tool after a question; an answer after the tool's result."""
        last = request.messages[-1]
        if last.role is Role.TOOL and isinstance(last.data, RetrievedPassages):
            return Completion(self._compose_answer(last.data), ZERO_COST)
        if last.role is Role.TOOL:
            return Completion(Message.assistant(last.content), ZERO_COST)
        call = ToolCall(TOOL_NAME, {"query": last.content})
        return Completion(Message.assistant("", [call]), ZERO_COST, "tool_calls")

    def _compose_answer(self, outcome: RetrievedPassages) -> Message:
        sentences = select_answer_units(outcome.query, outcome.hits, self._searcher, MAX_SENTENCES)
        abstained = outcome.evidence < self._threshold or not sentences
        quotes: list[Quote] = []
        for sentence in sentences:
            quotes.append(Quote(len(quotes) + 1, outcome.hits[sentence.hit_index], sentence))
        draft = ExtractiveAnswer(tuple(quotes), abstained)
        return Message(Role.ASSISTANT, _format_abstention(draft) if abstained else _format_answer(draft), data=draft)


def _format_answer(draft: ExtractiveAnswer) -> str:
    """A line for each statement: they come from different places, and do not make one paragraph."""
    return "\n".join(f"{' '.join(quote.unit.text.split())} [{quote.n}]" for quote in draft.quotes)


def _format_abstention(draft: ExtractiveAnswer) -> str:
    near = " ".join(f"[{quote.n}]" for quote in draft.quotes)
    return f"{NOT_IN_DOCUMENTS} The nearest passages: {near}" if near else NOT_IN_DOCUMENTS

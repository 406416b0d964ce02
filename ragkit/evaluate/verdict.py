"""The verdict on one question in words: what a person would say about the answer, or about the hits without answers."""

from __future__ import annotations

from enum import StrEnum

from ragkit.evaluate.run import QuestionResult


class Verdict(StrEnum):
    """What became of a question, in the words of a report."""

    FAILED = "failed with an error"
    ANSWERED_WRONGLY = "answered, although the documents do not answer it"
    REFUSED_WRONGLY = "refused, although the documents answer it"
    WRONG = "wrong: the answer does not hold what was expected"
    NOT_CITED = "wrong: no citation of a file that answers it"
    NOT_FOUND = "no file that answers it is among the hits"
    NOT_FIRST = "right, but not in the first sentence"
    NOT_CITED_RIGHT = "right, but no citation of a file that answers it"
    RIGHT = "right"
    REFUSED_RIGHTLY = "refused, and the documents do not answer it"
    FOUND = "found"
    UNJUDGED = "not judged: no expected answers or sources"

    @property
    def is_miss(self) -> bool:
        """Whether the user did not get what was expected."""
        return self in _MISSES


_MISSES = frozenset(
    (
        Verdict.FAILED, Verdict.ANSWERED_WRONGLY, Verdict.REFUSED_WRONGLY, Verdict.WRONG, Verdict.NOT_CITED,
        Verdict.NOT_FOUND,
    )
)  # fmt: skip


def judge_result(result: QuestionResult) -> Verdict:
    """The verdict on a question: on its answer, or on its hits if no answer was asked for."""
    if result.error:
        return Verdict.FAILED
    if result.answer is None:
        return _judge_hits(result)
    if not result.question.answerable:
        return Verdict.REFUSED_RIGHTLY if result.abstained else Verdict.ANSWERED_WRONGLY
    if result.abstained:
        return Verdict.REFUSED_WRONGLY
    return _judge_answer(result)


def _judge_answer(result: QuestionResult) -> Verdict:
    right, cited = result.metrics.get("right"), result.metrics.get("cited")
    if right is None:
        return Verdict.UNJUDGED if cited is None else Verdict.RIGHT if cited else Verdict.NOT_CITED
    if not right:
        return Verdict.WRONG
    if cited == 0:
        return Verdict.NOT_CITED_RIGHT
    return Verdict.NOT_FIRST if result.metrics.get("first_sentence") == 0 else Verdict.RIGHT


def _judge_hits(result: QuestionResult) -> Verdict:
    if not result.question.answerable or not result.question.sources:
        return Verdict.UNJUDGED
    return Verdict.FOUND if any(hit.right for hit in result.hits) else Verdict.NOT_FOUND

"""The verdict on one question in words: what a person would say about the answer, or about the hits without answers."""

from __future__ import annotations

from enum import StrEnum

from ragkit.evaluate.run import QuestionResult


class QuestionVerdict(StrEnum):
    """The outcome of one evaluated question."""

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
        QuestionVerdict.FAILED,
        QuestionVerdict.ANSWERED_WRONGLY,
        QuestionVerdict.REFUSED_WRONGLY,
        QuestionVerdict.WRONG,
        QuestionVerdict.NOT_CITED,
        QuestionVerdict.NOT_FOUND,
    )
)


def judge_result(result: QuestionResult) -> QuestionVerdict:
    """The verdict on a question: on its answer, or on its hits if no answer was asked for."""
    if result.error:
        return QuestionVerdict.FAILED
    if result.answer is None:
        return _judge_hits(result)
    if not result.question.answerable:
        return QuestionVerdict.REFUSED_RIGHTLY if result.abstained else QuestionVerdict.ANSWERED_WRONGLY
    if result.abstained:
        return QuestionVerdict.REFUSED_WRONGLY
    return _judge_answer(result)


def _judge_answer(result: QuestionResult) -> QuestionVerdict:
    right, cited = result.metrics.get("right"), result.metrics.get("cited")
    if right is None:
        return (
            QuestionVerdict.UNJUDGED if cited is None else QuestionVerdict.RIGHT if cited else QuestionVerdict.NOT_CITED
        )
    if not right:
        return QuestionVerdict.WRONG
    if cited == 0:
        return QuestionVerdict.NOT_CITED_RIGHT
    return QuestionVerdict.NOT_FIRST if result.metrics.get("first_sentence") == 0 else QuestionVerdict.RIGHT


def _judge_hits(result: QuestionResult) -> QuestionVerdict:
    if not result.question.answerable or not result.question.sources:
        return QuestionVerdict.UNJUDGED
    return QuestionVerdict.FOUND if any(hit.right for hit in result.hits) else QuestionVerdict.NOT_FOUND

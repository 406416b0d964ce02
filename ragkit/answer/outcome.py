"""What kind of answer an answer is: its outcome, and the words for it.

Where a service says why its model stopped, the outcome follows from that, not from phrases of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ragkit.split.sentence_segmentation import sentence_spans

NOT_FOUND_MARK = "[not in documents]"
"""The first words of a model's answer when the passages do not hold it, in every language; never shown."""
NOT_IN_DOCUMENTS = "Not in these documents."
"""The first words of an abstention without a model."""
CLOSEST_PASSAGES = "No direct answer found. Closest passages:"
"""The words before the numbers of passages that may hold an answer."""

_MARK = re.compile(r"[\s>*_`]*\[not in (?:the )?documents?\][*_`]*[.:]?\s*", re.IGNORECASE)
_PREFIX = re.compile(
    r"[\s>*_]*not in these documents\b[*_]*[.:]?\s*(?:the nearest passages: [\[\]\d ,]*)?", re.IGNORECASE
)
_ALONE = re.compile(
    r"[\s>*_`\"']*(?:not in (?:the )?documents?|no passage was found)[*_`\"']*[.!]?[*_`\"'\s]*", re.IGNORECASE
)
"""The mark or the result of an empty search, as small models repeat it, and nothing else."""
_CITATION = re.compile(r"\[\d")
_CITATIONS = re.compile(r"\s*(?:\[\d[\d, ]*\]\s*)+")
_NUMBER = re.compile(r"\d+")
_CITED_NUMBERS = re.compile(r"\[\d[\d, ]*+\]")
_NUMBERS_ALONE = re.compile(r"[\s(]*(?:\[\d[\d, ]*\][\s,.;)]*)+")
_DATA_TAG = re.compile(r"\s{0,9}</?data (?:tool=\"\w{1,64}\" )?n=\"[0-9a-f]{12}\">\s{0,9}")
_WORD = re.compile(r"\w+")
_MIN_ECHO_WORDS = 5
"""A shorter answer that stands in the instructions may be an answer."""
_MIN_REPEATED_WORDS = 5
"""Shorter answers, such as "In August.", may hold for two questions."""
_COMPLETE = frozenset(
    {"", "stop", "end_turn", "stop_sequence", "eos", "eos_token", "complete", "tool_calls", "max_iterations", "loop"}
)
"""The stop reasons of a complete answer, as services write them."""


class Outcome(StrEnum):
    """What kind of answer an answer is."""

    ANSWERED = "answered"
    """With citations of the documents."""
    NOT_IN_DOCUMENTS = "not_in_documents"
    """The documents do not hold the answer."""
    PASSAGES = "passages"
    """No direct answer was found; the citations are the closest passages. Without a model only."""
    NOT_SEARCHED = "not_searched"
    """The model searched nothing, and cites nothing that an earlier search showed."""
    UNCITED = "uncited"
    """The model cites no passage, or says that the documents hold no answer and gives one without citing."""
    REFUSED = "refused"
    """The model refused to answer; the text is its refusal."""
    FILTERED = "filtered"
    """The model's service withheld the answer, or the rest of it."""
    CUT = "cut"
    """The service ended the answer before its end: most often at the limit of tokens."""
    EMPTY = "empty"
    """The model sent no text, or only what it was sent: numbers of passages, its instructions, or the passages."""
    ITERATIONS_USED_UP = "iterations_used_up"
    """The model only called tools, until it had no iteration left."""


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What is known about the answer of a model."""

    text: str
    """As the model wrote it."""
    stop_reason: str
    """Of its last request; see `Completion.stop_reason`."""
    question: str
    searched: bool
    """Whether a search of this run returned a result."""
    cited: bool
    """Whether it cites a passage that was shown."""
    unknown_citations: Sequence[int] = ()
    """Its citation numbers that were never shown."""
    iterations: int = 0
    no_answer: str = ""
    """What the text has in place of an answer, see `find_no_answer`; '' for an answer."""
    used_up: bool = False
    """Whether it was asked for a last answer because its iterations were used up."""
    not_there: bool = False
    """Whether it says in its own words that the passages do not hold the answer, and nothing else."""


def find_outcome(facts: AnswerFacts) -> Outcome:  # noqa: PLR0911 - one per outcome
    """The outcome of a model's answer."""
    if facts.stop_reason == "refusal":
        return Outcome.REFUSED
    if facts.stop_reason == "content_filter":
        return Outcome.FILTERED
    if not facts.text.strip():
        return Outcome.ITERATIONS_USED_UP if facts.used_up else Outcome.EMPTY
    if facts.no_answer:
        return Outcome.EMPTY
    if facts.stop_reason not in _COMPLETE:
        return Outcome.CUT
    if not facts.searched and not facts.cited:
        return Outcome.NOT_SEARCHED
    if facts.not_there or says_not_found(facts.text, facts.question):
        return Outcome.NOT_IN_DOCUMENTS
    if not facts.cited or claims_after_abstention(facts.text, facts.question):
        return Outcome.UNCITED
    return Outcome.ANSWERED


def says_not_found(text: str, question: str) -> bool:
    """Whether an answer says that the documents do not hold it, and says nothing else without a citation."""
    return _after_abstention(text) is not None and not claims_after_abstention(text, question)


def claims_after_abstention(text: str, question: str) -> bool:
    """Whether an answer begins with an abstention, and then states something without a citation.

    After NOT_FOUND_MARK, one sentence without numbers may say in the user's language that there is no answer.
    """
    rest = _after_abstention(text)
    if rest is None:
        return False
    uncited = [sentence for sentence in _sentences(rest) if not _CITATION.search(sentence)]
    if _MARK.match(text) and uncited and uncited[0] == next(_sentences(rest)):
        known = set(_NUMBER.findall(question))
        uncited = uncited[1:] if set(_NUMBER.findall(uncited[0])) <= known else uncited
    return bool(uncited)


def abstains_within(text: str) -> bool:
    """Whether NOT_FOUND_MARK stands within the only sentence of an answer: `The treasurer is [not in documents].`"""
    before, mark, _ = text.lower().partition(NOT_FOUND_MARK)
    said = _CITED_NUMBERS.sub("", before).strip(" \t\r\n*_`")
    return bool(mark and said) and said[-1] not in ".!?。！？" and len(list(sentence_spans(text))) == 1


def without_mark(text: str) -> str:
    """An answer without NOT_FOUND_MARK; NOT_IN_DOCUMENTS in place of nothing but the mark."""
    mark = _MARK.match(text)
    return text if mark is None else text[mark.end() :] or NOT_IN_DOCUMENTS


def may_become_not_found_mark(text: str) -> bool:
    """Whether the beginning of an answer may be the beginning of NOT_FOUND_MARK."""
    start = text.lstrip(" \t\r\n>*_`").lower()
    mark = _MARK.match(text)
    if mark is not None:
        return mark.end() == len(text)  # the mark may go on: `**.`
    return any(full.startswith(start) for full in (NOT_FOUND_MARK, "[not in the documents]", "[not in document]"))


def find_no_answer(text: str, instructions: str, shown: Sequence[str] = ()) -> str:
    """What a text has in place of an answer: numbers of passages, the instructions or `shown` passages; else ''.

    Passages in place of an answer are lines of them with the line of a place, as no answer has it.
    """
    if _NUMBERS_ALONE.fullmatch(text):
        return "only the numbers of passages"
    if any(line in text for line in place_lines(shown)):
        passages = " ".join(map(_words, shown))
        if all(_words(line) in passages for line in text.splitlines() if not is_data_tag(line)):
            return "only the passages"
    said = [words for line in text.splitlines() if (words := _words(line))]
    known = _words(instructions)
    is_echo = said and len(known) >= len(said[0]) and all(words in known for words in said)
    return "its instructions" if is_echo and sum(len(words.split()) for words in said) >= _MIN_ECHO_WORDS else ""


def repeats_answer(text: str, earlier: Sequence[str]) -> bool:
    """Whether all lines of a text of some length stand in one earlier answer of the conversation."""
    said = [words for line in text.splitlines() if (words := _words(line))]
    if sum(len(words.split()) for words in said) < _MIN_REPEATED_WORDS:
        return False
    return any(all(words in known for words in said) for known in map(_words, earlier))


def place_lines(shown: Iterable[str]) -> set[str]:
    """The first lines of passages as a model sees them: number and place."""
    return {text.partition("\n")[0] for text in shown}


def is_data_tag(line: str) -> bool:
    """Whether a line is a mark around the result of a tool, which a small model may repeat."""
    return bool(_DATA_TAG.fullmatch(line))


def _words(text: str) -> str:
    return " ".join(_WORD.findall(_CITED_NUMBERS.sub(" ", text).lower()))


def build_notices(outcome: Outcome, facts: AnswerFacts) -> Iterator[str]:
    """What a reader must be told about an answer, one line each."""
    if outcome is Outcome.CUT and facts.stop_reason != "length":
        yield f"the service ended the answer for the reason {facts.stop_reason[:60]!r}: it may be incomplete"
    elif outcome is Outcome.UNCITED and claims_after_abstention(facts.text, facts.question):
        yield "the answer says that the documents do not hold it, and goes on without a citation: do not rely on it"
    elif outcome is Outcome.EMPTY and facts.no_answer:
        yield f"the model sent {facts.no_answer}, no answer: ask again, or use another model"
    elif outcome is Outcome.EMPTY and facts.stop_reason == "length":
        yield "the model reached its limit of tokens before it wrote an answer: raise `max_tokens`, or ask for less"
    elif outcome is Outcome.ITERATIONS_USED_UP:
        used = f"the model used up its iterations ({facts.iterations}) without an answer"
        yield f"{used}: ask for less, or raise `max_iterations`"
    elif outcome in NOTICES:
        yield NOTICES[outcome]
    if facts.used_up and outcome is Outcome.ANSWERED:
        yield f"the model used up its iterations ({facts.iterations}): this is its answer from what it had found"
    if facts.unknown_citations:
        yield describe_unknown_citations(facts.unknown_citations)


NOTICES = {
    Outcome.NOT_SEARCHED: "the model did not search the documents: this is not an answer from them",
    Outcome.UNCITED: "the answer cites no passage: nothing shows that it is from the documents",
    Outcome.REFUSED: "the model refused to answer",
    Outcome.FILTERED: "the content filter of the model's service withheld the answer or the rest of it",
    Outcome.CUT: "the answer is cut off: the model reached its limit of tokens",
    Outcome.EMPTY: "the model sent an empty answer: ask again, or use another model",
    Outcome.ITERATIONS_USED_UP: "the model used up its iterations without an answer",
}
"""The line for each outcome that needs one."""


def describe_unknown_citations(numbers: Sequence[int]) -> str:
    """The line about citation numbers that were taken out."""
    shown = ", ".join(f"[{n}]" for n in numbers[:5]) + (", ..." if len(numbers) > 5 else "")
    what = (
        "a citation of a passage that was" if len(numbers) == 1 else f"{len(numbers)} citations of passages that were"
    )
    return f"{what} never shown to the model {'is' if len(numbers) == 1 else 'are'} taken out: {shown}"


def _after_abstention(text: str) -> str | None:
    """The text after the words of an abstention; None if it does not begin with them."""
    match = _MARK.match(text) or _PREFIX.match(text) or _ALONE.fullmatch(text)
    if match is None:
        return "" if abstains_within(text) else None
    rest = text[match.end() :]
    second = _PREFIX.match(rest)  # the mark, then the old words
    return rest[second.end() :] if second else rest


def _sentences(text: str) -> Iterator[str]:
    """The sentences, each with the citations behind its full stop."""
    for start, end in sentence_spans(text):
        if text[start:end].strip(" \t\r\n*_`.>-"):
            behind = _CITATIONS.match(text, end)
            yield text[start : behind.end() if behind else end]

"""Questions written by a model: the passages it sees, and which questions are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragkit.agent.cache.disk import DiskCache
from ragkit.agent.providers.base import ModelRequest
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.errors import RunError
from ragkit.evaluate.model_questions import QuestionWriter, rejection_reason
from ragkit.evaluate.questions import Question
from ragkit.evaluate.rule_questions import generate_off_topic_questions
from ragkit.evaluate.structured_model import StructuredModel
from ragkit.records import Chunk, Document
from tests.wire.parts import serving
from tests.wire.server import Turn

PASSAGE = "The boiler in the cellar is serviced by Ms Aldous on the first Monday\nof each month. " * 3


def chunk(source: str, number: int, text: str = PASSAGE) -> Chunk:
    return Chunk(f"{source}{number}", source, source, f"{number}. {text}", 100 * number, 100 * number + 9, 1, 2)


def chunks(files: int = 3, each: int = 4) -> list[Chunk]:
    return [chunk(f"{name}.md", number) for name in "abcdefgh"[:files] for number in range(each)]


def response_json(
    question: str = "Who looks after the heating?", answer: str = "Ms Aldous", *, usable: bool = True
) -> str:
    return json.dumps({"usable": usable, "question": question, "answer": answer})


def written(
    *script: str, count: int, seed: int = 0, given: list[Chunk] | None = None
) -> tuple[list[Question], QuestionWriter]:
    writer = QuestionWriter(StructuredModel(ScriptedProvider(script)))
    return writer.write(given if given is not None else chunks(), count, seed), writer


@pytest.mark.parametrize(
    ("question", "answer", "why"),
    [
        ("Who looks after the heating?", "Ms Aldous", ""),
        ("When is the heating looked after?", "the first Monday of each month", ""),
        ("Who looks after the heating?", "Mr Aldous", "the answer is not in the passage"),
        ("Who looks after the heating?", "ms aldous", "the answer is not in the passage"),
        ("Who looks after the heating?", "...", "no short answer"),
        ("Who looks after the heating?", PASSAGE, "no short answer"),
        ("Does Ms Aldous look after the heating?", "Ms Aldous", "gives its answer away"),
        ("Who is named in the passage?", "Ms Aldous", "points at its passage"),
        ("The heating", "Ms Aldous", "no question"),
        ("Who?", "Ms Aldous", "no question"),
    ],
)
def test_a_question_is_kept_only_if_its_answer_is_in_the_passage(question: str, answer: str, why: str) -> None:
    assert rejection_reason(question, answer, PASSAGE) == why


def test_questions_come_with_their_answer_and_their_source() -> None:
    result, writer = written(response_json(), response_json("Which room is the boiler in?", "cellar"), count=2)
    assert [(item.id, item.text, item.answers, item.kind, item.answerable) for item in result] == [
        ("w0001", "Who looks after the heating?", ("Ms Aldous",), "written", True),
        ("w0002", "Which room is the boiler in?", ("cellar",), "written", True),
    ]
    assert len({next(iter(item.sources)) for item in result}) == 2
    assert (writer.passage_count, writer.drop_counts) == (2, {})


def test_dropped_questions_are_counted_and_another_passage_is_shown() -> None:
    script = [
        response_json(usable=False),
        response_json(answer="Mr Aldous"),
        response_json(),
        response_json("who looks after the Heating?"),
    ]
    script += ["x", "x", response_json("Which room is it in?", "cellar")]
    result, writer = written(*script, count=2)
    assert [item.text for item in result] == ["Who looks after the heating?", "Which room is it in?"]
    assert writer.drop_counts == {
        "nothing to ask": 1,
        "the answer is not in the passage": 1,
        "asked before": 1,
        "the model failed": 1,
    }
    assert writer.to_dict()["passages"] == 6


def test_no_more_than_three_passages_are_shown_for_each_question() -> None:
    result, writer = written(*[response_json(usable=False)] * 6, count=2)
    assert (result, writer.passage_count) == ([], 6)


def test_the_same_seed_shows_the_same_passages_and_files_take_turns() -> None:
    def shown(seed: int, value: list[Chunk]) -> list[str]:
        seen: list[str] = []

        def note(request: ModelRequest) -> str:
            seen.append(request.messages[-1].content)
            return response_json(usable=False)

        QuestionWriter(StructuredModel(ScriptedProvider([note] * 6))).write(value, 2, seed)
        return seen

    value = [chunk(f"{name}.md", number, f"{name} {PASSAGE}") for name in "abc" for number in range(4)]
    first = shown(0, value)
    assert shown(0, value[::-1]) == first
    assert shown(1, value) != first
    names = [item.partition(". ")[2][0] for item in first]
    assert (sorted(names[:3]), names[3:], len(set(first))) == (["a", "b", "c"], names[:3], 6)


def test_short_passages_are_not_shown() -> None:
    result, writer = written(count=3, given=[chunk("a.md", 1, "Too short.")])
    assert (result, writer.passage_count) == ([], 0)


def test_a_model_that_fails_at_once_is_an_error() -> None:
    with pytest.raises(RunError, match="does not match response_format"):
        written("nonsense", "nonsense", count=1)


def test_questions_are_cached_for_a_second_run(tmp_path: Path) -> None:
    turns = [
        Turn((response_json(),), prompt_tokens=400, completion_tokens=40),
        Turn((response_json("Which room is it in?", "cellar"),), prompt_tokens=400, completion_tokens=40),
    ]
    with serving("openai", *turns) as (provider, server), DiskCache(tmp_path / "a.sqlite") as cache:
        first = QuestionWriter(StructuredModel(provider, cache=cache))
        second = QuestionWriter(StructuredModel(provider, cache=cache))
        assert first.write(chunks(), 2) == second.write(chunks(), 2)
        assert len(server.seen) == 2
    cost = 2 * (400 * 0.15 + 40 * 0.60) / 1e6
    assert first.model.usage.total_cost_usd == pytest.approx(cost)
    assert second.model.usage.total_cost_usd == 0.0
    assert second.model.usage.saved_cost_usd == pytest.approx(cost)


def test_off_topic_questions_share_no_word_with_the_documents() -> None:
    documents = [Document("The boiler is serviced on Monday.", source="a.md")]
    result = generate_off_topic_questions(documents, str.split, 3, 1)
    assert [(item.answerable, item.kind, dict(item.sources)) for item in result] == [
        (False, "unanswerable-off", {})
    ] * 3
    assert result == generate_off_topic_questions(documents, str.split, 3, 1)

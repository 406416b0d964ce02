"""Evaluation of questions: file rankings, answer metrics and errors."""

from __future__ import annotations

import pytest

from ragkit.errors import RagkitError
from ragkit.evaluate.answer_matching import strip_citation_marks
from ragkit.evaluate.questions import Question
from ragkit.evaluate.run import Depths, EvaluatedSystem, evaluate_questions, match_source_name
from ragkit.usage.meter import AgentUsage
from tests.evaluate.parts import FakeAnswer, citation, hit, system


def test_a_file_is_ranked_by_its_best_chunk() -> None:
    result = system({"q": ["/d/b.md", "/d/b.md", "/d/sub/a.md", "/d/c.md"]})
    [item] = evaluate_questions(result, [Question("1", "q", (), {"sub/a.md": 1})])
    assert item.ranking == ("/d/b.md", "sub/a.md", "/d/c.md")
    assert item.metrics["mrr@10"] == 0.5
    assert (item.metrics["recall@10"], item.metrics["precision@10"]) == (1.0, 0.1)
    assert [(shown.source, shown.line, shown.right) for shown in item.hits] == [
        ("/d/b.md", 3, False),
        ("/d/b.md", 3, False),
        ("/d/sub/a.md", 3, True),
        ("/d/c.md", 3, False),
    ]
    assert item.answer is None


def test_metrics_are_at_the_requested_depth() -> None:
    result = system({"q": ["b", "a"]})
    [item] = evaluate_questions(result, [Question("1", "q", (), {"a": 1})], Depths(k=1, max_chunks=2))
    assert (item.metrics["hit_rate@1"], len(item.hits)) == (0.0, 1)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("/x/a.md", "a.md"),
        ("/x/sub/a.md", "sub/a.md"),
        ("a.md", "a.md"),
        ("/x/ba.md", "/x/ba.md"),
        ("/x/other/b.md", "/x/other/b.md"),
    ],
)
def test_a_file_is_identified_by_the_end_of_its_path(source: str, name: str) -> None:
    assert match_source_name(source, {"a.md": 1, "sub/a.md": 1}) == name


def test_an_answer_is_judged_by_what_it_says_and_cites() -> None:
    question = Question("1", "q", ("27 days",), {"a": 1, "b": 1})
    result = FakeAnswer(
        "It is 27 days [1]. Perhaps more [2, 3].",
        (citation("/d/a"), citation("/d/x"), citation("/d/a", verified=False), citation("/d/a", stale=True)),
        evidence=0.75,
        usage=AgentUsage(llm_cost_usd=0.25),
    )
    [item] = evaluate_questions(system({"q": ["/d/a"]}, {"q": result}), [question])
    assert item.metrics["answer_contained"] == 1.0
    assert item.metrics["citation_precision"] == 0.75
    assert item.metrics["citation_recall"] == 0.5
    assert item.metrics["quotes_verified"] == 0.5
    assert item.metrics["token_f1"] == pytest.approx(2 * 2 / (6 + 2))
    assert (item.evidence, item.cost_usd, item.abstained) == (0.75, 0.25, False)


def test_a_refusal_is_a_miss_only_for_an_answerable_question() -> None:
    result = {"q": FakeAnswer("Not in these documents. The nearest: 27 days", (citation("a"),), abstained=True)}
    [inside] = evaluate_questions(system({"q": ["a"]}, result), [Question("1", "q", ("27 days",), {"a": 1})])
    assert (inside.metrics["answer_contained"], inside.metrics["citation_recall"]) == (0.0, 0.0)
    assert "citation_precision" not in inside.metrics
    [outside] = evaluate_questions(system({"q": ["a"]}, result), [Question("1", "q", answerable=False)])
    assert outside.metrics == {"abstention_recall": 1.0, "quotes_verified": 1.0}


def test_an_answer_is_judged_as_a_person_reads_it() -> None:
    parts = Question("1", "q", ("soft",), {"a": 1}, further_answers=(("hard",),))
    later = FakeAnswer("There are limits [1]. They are soft and hard [1].", (citation("/d/a"),))
    half = FakeAnswer("There are soft limits [1].", (citation("/d/b"),))
    refused = FakeAnswer("Not in these documents. Soft, hard", (citation("a"),), abstained=True)
    names = ("right", "first_sentence", "cited", "answered")
    expected = [(later, (1.0, 0.0, 1.0, 1.0)), (half, (0.0, 0.0, 0.0, 1.0)), (refused, (0.0, 0.0, 0.0, 0.0))]
    for answer, values in expected:
        [item] = evaluate_questions(system({"q": ["a"]}, {"q": answer}), [parts])
        assert tuple(item.metrics[name] for name in names) == values
        assert "token_f1" not in item.metrics  # of several parts, no single string is the answer


def test_a_question_may_leave_its_first_sentence_unjudged() -> None:
    question = Question("1", "q", ("yes",), first=False)
    [item] = evaluate_questions(system({"q": ["a"]}, {"q": FakeAnswer("Well. Yes.")}), [question])
    assert item.metrics["right"] == 1.0
    assert "first_sentence" not in item.metrics


def test_a_failed_answer_is_a_result_with_its_error() -> None:
    def ask(_: str) -> FakeAnswer:
        raise RagkitError("the service is down")

    result = list(
        evaluate_questions(
            EvaluatedSystem(lambda *_: [hit("a")], ask), [Question("1", "q", ("x",), {"a": 1}), Question("2", "r")]
        )
    )
    assert [item.error for item in result] == ["the service is down", "the service is down"]
    assert result[0].metrics["hit_rate@10"] == 1.0
    assert (result[0].metrics["right"], result[0].metrics["answered"]) == (0.0, 0.0)  # the user has no answer
    assert result[0].answer is None


@pytest.mark.parametrize(
    ("text", "plain"),
    [("so it is [1].", "so it is."), ("[12] a[1,2] b [x] [", " a b [x] ["), ("array[index]", "array[index]")],
)
def test_citation_numbers_are_not_words_of_an_answer(text: str, plain: str) -> None:
    assert strip_citation_marks(text) == plain

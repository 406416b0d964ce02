"""Reports: aggregation, comparison with an earlier run, and output formats."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest

from ragkit.evaluate.html_report import render_evaluation_report
from ragkit.evaluate.junit import to_junit_xml
from ragkit.evaluate.questions import Question, QuestionsInvalid
from ragkit.evaluate.report import EvaluationReport, build_report, compare_with_baseline
from ragkit.evaluate.run import evaluate_questions
from ragkit.evaluate.verdict import QuestionVerdict, judge_result
from ragkit.usage.meter import AgentUsage
from tests.evaluate.parts import FakeAnswer, citation, system

QUESTIONS = [Question(str(n), f"q{n}", ("yes",), {"a": 1}) for n in range(4)]
OUTSIDE = [Question("x", "out", answerable=False), Question("y", "off", answerable=False)]


def run(right: int, *, refused: int = 1) -> EvaluationReport:
    """The first `right` of four questions are answered, and `refused` of two without an answer are refused."""
    result = {
        f"q{n}": FakeAnswer("yes" if n < right else "no", (citation("a"),), evidence=0.9 - n / 10) for n in range(4)
    }
    result |= {
        "out": FakeAnswer("?", abstained=refused > 0, evidence=0.1),
        "off": FakeAnswer("?", abstained=refused > 1, evidence=0.8),
    }
    hits = {f"q{n}": ["a" if n < right else "b"] for n in range(4)} | {"out": [], "off": ["b"]}
    return build_report(list(evaluate_questions(system(hits, result), [*QUESTIONS, *OUTSIDE])), {"pipeline": "test"})


def test_every_metric_is_a_mean_over_the_questions_that_have_it() -> None:
    result = run(3)
    assert (result.metrics["answer_contained"].mean, result.metrics["answer_contained"].n) == (0.75, 4)
    assert (result.metrics["hit_rate@10"].mean, result.metrics["quotes_verified"].n) == (0.75, 4)
    assert (result.metrics["abstention_precision"].mean, result.metrics["abstention_precision"].n) == (1.0, 1)
    assert (result.metrics["abstention_recall"].mean, result.metrics["abstention_recall"].n) == (0.5, 2)
    # evidence .9 .8 .7 .6 against .1 and .8: of eight pairs 1 + .5 + 0 + 0 and four are won
    assert result.metrics["evidence_auroc"].mean == pytest.approx(5.5 / 8)
    assert set(result.milliseconds) == {"search_p50", "search_p95", "ask_p50", "ask_p95"}


def test_the_cost_is_a_sum_and_unknown_if_one_cost_is_unknown() -> None:
    priced = {
        "q0": FakeAnswer("yes", usage=AgentUsage(llm_cost_usd=0.5)),
        "q1": FakeAnswer("no", usage=AgentUsage(llm_cost_usd=0.25)),
    }
    hits: dict[str, list[str]] = {"q0": [], "q1": []}
    assert build_report(list(evaluate_questions(system(hits, priced), QUESTIONS[:2])), {}).cost_usd == 0.75
    priced["q1"] = FakeAnswer("no", usage=AgentUsage(llm_cost_usd=None))
    assert build_report(list(evaluate_questions(system(hits, priced), QUESTIONS[:2])), {}).cost_usd is None


def test_a_drop_beyond_the_tolerance_is_detected(tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    before.write_text(json.dumps(run(4).to_dict()))
    changes = {item.name: item for item in compare_with_baseline(run(3), before, 0.02)}
    contained = changes["answer_contained"]
    assert (contained.before, contained.now, contained.n, contained.dropped) == (1.0, 0.75, 4, True)
    assert contained.p > 0.5  # one question of four is not significant
    assert not changes["quotes_verified"].dropped
    assert not any(item.dropped for item in compare_with_baseline(run(3), before, 0.25))
    assert not any(item.dropped for item in compare_with_baseline(run(4), before, 0.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a report of `ragkit eval`; write one with --out"),
        ('{"rows": [{"id": 1}]}', "not a report of `ragkit eval`"),
        ("[]", "not a report of `ragkit eval`"),
        ('{"rows": [{"id": "other", "figures": {}}]}', "no question in common with this run"),
    ],
)
def test_a_baseline_that_cannot_be_compared_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(QuestionsInvalid, match=message):
        compare_with_baseline(run(3), tmp_path / "b.json", 0.02)
    with pytest.raises(QuestionsInvalid, match="cannot be read"):
        compare_with_baseline(run(3), tmp_path / "none.json", 0.02)


def test_the_junit_report_names_the_dropped_metrics(tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    before.write_text(json.dumps(run(4).to_dict()))
    result = run(3)
    suite = Xml.fromstring(to_junit_xml(result, compare_with_baseline(result, before, 0.02), 0.02))[0]
    failed = {case.get("name"): case[0].get("message") for case in suite if len(case)}
    assert suite.get("failures") == str(len(failed))
    assert failed["answer_contained"] == "answer_contained dropped from 1.0000 to 0.7500 (allowed drop: 0.02)"
    assert "quotes_verified" not in failed


def test_questions_and_answers_are_escaped_in_html() -> None:
    evil = "<script>alert(1)</script>"
    question = Question("<b>", evil, (evil,), {evil: 1}, True, evil)
    result = {evil: FakeAnswer(evil, (citation(evil),))}
    results = render_evaluation_report(
        build_report(list(evaluate_questions(system({evil: [evil]}, result), [question])), {"pipeline": evil}),
        title=evil,
    )
    assert "<script" not in results
    assert results.count("&lt;script&gt;") >= 7


KINDS = [
    Question("1", "holds", ("yes",), {"a": 1}, kind="number"),
    Question("2", "empty", ("yes",), {"a": 1}, kind="number"),
    Question("3", "later", ("yes",), {"a": 1}, kind="list"),
    Question("4", "refused", ("yes",), {"a": 1}, kind="list"),
    Question("5", "outside", answerable=False, kind="outside"),
]
ANSWERS = {
    "holds": FakeAnswer("yes [1]", (citation("a"),)),
    "empty": FakeAnswer("Something else [1].", (citation("a"),)),
    "later": FakeAnswer("Well. The answer is yes.", (citation("a"),)),
    "refused": FakeAnswer("Not in these documents.", (citation("a"),), abstained=True),
    "outside": FakeAnswer("The moon [1].", (citation("b"),)),
}
VERDICTS = {
    "holds": QuestionVerdict.RIGHT,
    "empty": QuestionVerdict.WRONG,
    "later": QuestionVerdict.NOT_FIRST,
    "refused": QuestionVerdict.REFUSED_WRONGLY,
    "outside": QuestionVerdict.ANSWERED_WRONGLY,
}


def kinds_report() -> EvaluationReport:
    hits = {question.text: ["a"] for question in KINDS}
    return build_report(list(evaluate_questions(system(hits, ANSWERS), KINDS)), {})


def test_each_kind_of_question_has_the_figures_of_a_reader_with_intervals() -> None:
    kinds = kinds_report().kinds
    assert list(kinds) == ["number", "list", "outside"]
    right = kinds["number"]["right"]
    assert (right.mean, right.low, right.high, right.n) == (0.5, 0.0, 1.0, 2)
    assert (kinds["list"]["right"].mean, kinds["list"]["first_sentence"].mean) == (0.5, 0.0)
    assert {name: metric.mean for name, metric in kinds["outside"].items()} == {"abstention_recall": 0.0}
    assert json.loads(json.dumps(kinds_report().to_dict()))["kinds"]["number"]["right"]["mean"] == 0.5
    assert run(3).kinds == {}


def test_a_verdict_says_what_became_of_a_question() -> None:
    outcomes = kinds_report().outcomes
    assert {item.question.text: judge_result(item) for item in outcomes} == VERDICTS
    [unjudged] = evaluate_questions(system({"q": []}, {"q": FakeAnswer("yes")}), [Question("1", "q")])
    assert judge_result(unjudged) is QuestionVerdict.UNJUDGED
    [found] = evaluate_questions(system({"q": ["a"]}), [Question("1", "q", (), {"a": 1})])
    [lost] = evaluate_questions(system({"q": ["b"]}), [Question("1", "q", (), {"a": 1})])
    assert (judge_result(found), judge_result(lost)) == (QuestionVerdict.FOUND, QuestionVerdict.NOT_FOUND)


def test_a_miss_is_shown_as_a_miss_although_its_file_was_found() -> None:
    page = render_evaluation_report(kinds_report())
    rows = {text: mark for mark, text in re.findall(r"<summary class=(\w+)>(\w+)", page)}
    assert rows == {"holds": "good", "later": "good", "empty": "bad", "refused": "bad", "outside": "bad"}
    assert "<b>wrong: the answer does not hold what was expected</b>" in page
    assert page.index("outside") < page.index("right, but not in the first sentence</b>")  # misses first
    assert "<h2>Answers by kind of question</h2>" in page

"""Reports: sums, comparison with an earlier run, and the forms in which they are written."""

from __future__ import annotations

import json
import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest

from ragkit.evaluate.html_report import render_evaluation_report
from ragkit.evaluate.junit import to_junit_xml
from ragkit.evaluate.questions import Question, QuestionsInvalid
from ragkit.evaluate.report import EvaluationReport, build_report, compare_with_baseline
from ragkit.evaluate.run import evaluate_questions
from ragkit.usage.meter import AgentUsage
from tests.evaluate.parts import Said, citation, system

QUESTIONS = [Question(str(n), f"q{n}", ("yes",), {"a": 1}) for n in range(4)]
OUTSIDE = [Question("x", "out", answerable=False), Question("y", "off", answerable=False)]


def run(right: int, *, refused: int = 1) -> EvaluationReport:
    """The first `right` of four questions are answered, and `refused` of two without an answer are refused."""
    said = {f"q{n}": Said("yes" if n < right else "no", (citation("a"),), evidence=0.9 - n / 10) for n in range(4)}
    said |= {
        "out": Said("?", abstained=refused > 0, evidence=0.1),
        "off": Said("?", abstained=refused > 1, evidence=0.8),
    }
    hits = {f"q{n}": ["a" if n < right else "b"] for n in range(4)} | {"out": [], "off": ["b"]}
    return build_report(list(evaluate_questions(system(hits, said), [*QUESTIONS, *OUTSIDE])), {"pipeline": "test"})


def test_every_figure_is_a_mean_over_the_questions_that_have_it() -> None:
    found = run(3)
    assert (found.metrics["answer_contained"].mean, found.metrics["answer_contained"].n) == (0.75, 4)
    assert (found.metrics["hit_rate@10"].mean, found.metrics["quotes_verified"].n) == (0.75, 4)
    assert (found.metrics["abstention_precision"].mean, found.metrics["abstention_precision"].n) == (1.0, 1)
    assert (found.metrics["abstention_recall"].mean, found.metrics["abstention_recall"].n) == (0.5, 2)
    # evidence .9 .8 .7 .6 against .1 and .8: of eight pairs 1 + .5 + 0 + 0 and four are won
    assert found.metrics["evidence_auroc"].mean == pytest.approx(5.5 / 8)
    assert set(found.milliseconds) == {"search_p50", "search_p95", "ask_p50", "ask_p95"}


def test_a_cost_is_the_sum_and_unknown_when_one_is() -> None:
    priced = {
        "q0": Said("yes", usage=AgentUsage(llm_cost_usd=0.5)),
        "q1": Said("no", usage=AgentUsage(llm_cost_usd=0.25)),
    }
    hits: dict[str, list[str]] = {"q0": [], "q1": []}
    assert build_report(list(evaluate_questions(system(hits, priced), QUESTIONS[:2])), {}).cost_usd == 0.75
    priced["q1"] = Said("no", usage=AgentUsage(llm_cost_usd=None))
    assert build_report(list(evaluate_questions(system(hits, priced), QUESTIONS[:2])), {}).cost_usd is None


def test_a_drop_beyond_what_is_allowed_is_found(tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    before.write_text(json.dumps(run(4).to_dict()))
    changes = {one.name: one for one in compare_with_baseline(run(3), before, 0.02)}
    contained = changes["answer_contained"]
    assert (contained.before, contained.now, contained.n, contained.dropped) == (1.0, 0.75, 4, True)
    assert contained.p > 0.5  # one question of four says nothing
    assert not changes["quotes_verified"].dropped
    assert not any(one.dropped for one in compare_with_baseline(run(3), before, 0.25))
    assert not any(one.dropped for one in compare_with_baseline(run(4), before, 0.0))


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


def test_a_ci_system_is_told_what_fell(tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    before.write_text(json.dumps(run(4).to_dict()))
    found = run(3)
    suite = Xml.fromstring(to_junit_xml(found, compare_with_baseline(found, before, 0.02), 0.02))[0]
    failed = {case.get("name"): case[0].get("message") for case in suite if len(case)}
    assert suite.get("failures") == str(len(failed))
    assert failed["answer_contained"] == "answer_contained dropped from 1.0000 to 0.7500 (allowed drop: 0.02)"
    assert "quotes_verified" not in failed


def test_nothing_in_a_question_or_an_answer_is_markup() -> None:
    evil = "<script>alert(1)</script>"
    question = Question("<b>", evil, (evil,), {evil: 1}, True, evil)
    said = {evil: Said(evil, (citation(evil),))}
    found = render_evaluation_report(
        build_report(list(evaluate_questions(system({evil: [evil]}, said), [question])), {"pipeline": evil}), title=evil
    )
    assert "<script" not in found
    assert found.count("&lt;script&gt;") >= 7

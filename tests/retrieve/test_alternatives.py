"""The benchmark of the alternatives: articles, evaluation of answers and table, with values computed by hand."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ragkit.agent.tracing.trace import AgentTrace
from ragkit.answer.base import Answer
from ragkit.records import Citation, Document
from ragkit.usage.meter import AgentUsage

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    return importlib.import_module("retrieval_alternatives")


def answer(path: Path, start: int, end: int, *, abstained: bool = False) -> Answer:
    """A text with one citation."""
    cited = Citation(1, str(path), "quote", start, end, 1, 1, None, (), "id", 1.0, verified=True, stale=False)
    return Answer(
        "?", "The hedge is cut in August. [1]", (cited,), abstained, 0.9, "m", AgentUsage(), AgentTrace("t", "rag"), "t"
    )


def test_paragraphs_with_one_title_become_one_file_and_keep_their_offsets(script: ModuleType, tmp_path: Path) -> None:
    documents = [
        Document("first  one\n", title="A", id="1"),
        Document("other", title="B", id="2"),
        Document("second one", title="A", id="3"),
    ]
    result = script.articles(documents, tmp_path)
    assert result["1"].path == result["3"].path != result["2"].path
    text = result["1"].path.read_text()
    assert text == "# A\n\nfirst one\n\nsecond one\n"
    assert [text[slice(*result[key].spans[key])] for key in "13"] == ["first one", "second one"]


def test_an_answer_is_correct_if_a_quote_is_from_the_right_paragraph(script: ModuleType, tmp_path: Path) -> None:
    articles = script.articles([Document("the hedge", title="A", id="1"), Document("x", title="A", id="2")], tmp_path)
    path, (start, end) = articles["1"].path, articles["1"].spans["1"]

    def judged(first: int, last: int, *, abstained: bool = False) -> dict[str, float]:
        results: dict[str, float] = script.judge_answer(
            answer(path, first, last, abstained=abstained), ["August"], ["1"], articles
        )
        return results

    right = {"answer contained": 1.0, "cited right": 1.0, "quotes verified": 1.0, "refused": 0.0}
    assert judged(start, end) == right
    assert judged(start + 4, end) == right
    assert judged(start, end + 1) == {**right, "cited right": 0.0}
    assert judged(start, end, abstained=True) == {
        "answer contained": 0.0,
        "cited right": 0.0,
        "quotes verified": 1.0,
        "refused": 1.0,
    }


def test_the_table_has_differences_and_marks_those_whose_interval_leaves_out_0(script: ModuleType) -> None:
    values = {
        script.DEFAULT: {"ndcg": [0.5, 0.5, 0.5, 0.5]},
        "better": {"ndcg": [0.75, 0.75, 0.75, 0.75]},
        "the same": {"ndcg": [0.75, 0.25, 0.75, 0.25]},
    }
    head, _, default, better, same = script.table(values, {"better": 1.25}, 0)
    assert head == "| retrieval | ndcg | latency |"
    assert default == f"| {script.DEFAULT} | 0.5000 (0.500 to 0.500) |  |"
    assert better == "| better | 0.7500, +0.2500* (+0.250 to +0.250) | 1.25 |"
    assert same == "| the same | 0.5000, +0.0000 (-0.250 to +0.250) |  |"

"""`ragkit eval`: own questions, BEIR folders, generated questions, models, and the check for CI."""

from __future__ import annotations

import json
import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest

from tests.cli.conftest import HASHING, Ragkit
from tests.wire.dialects import DIALECTS
from tests.wire.server import Turn, WireServer

QUESTIONS: list[dict[str, object]] = [
    {"id": "1", "question": "hedge cut month", "answers": ["August"], "sources": ["garden.txt"]},
    {"id": "2", "question": "boiler filter cleaned", "answers": ["Monday"], "sources": ["boiler.md"]},
    {"id": "3", "question": "violin strings", "answerable": False},
]


@pytest.fixture
def house(workplace: Path, ragkit: Ragkit) -> Path:
    """An indexed folder, and questions about it."""
    folder = workplace / "house"
    folder.mkdir()
    (folder / "boiler.md").write_text(
        "# Boiler manual\n\nThe boiler filter is cleaned on the first Monday by Ms Aldous.\n"
    )
    (folder / "garden.txt").write_text("The hedge is cut in the month of August. The roses are cut in March 1997.\n")
    (workplace / "ragkit.yaml").write_text(HASHING)
    (workplace / "q.jsonl").write_text("".join(json.dumps(item) + "\n" for item in QUESTIONS))
    ragkit("index", "house")
    return workplace


def test_metrics_are_printed_and_written(house: Path, ragkit: Ragkit) -> None:
    result = ragkit("eval", "q.jsonl", "--out", "e.json", "--html", "e.html")
    rows = {line.split()[0]: line.split()[1] for line in result.out.splitlines()}
    assert (rows["hit_rate@10"], rows["mrr@10"], rows["quotes_verified"]) == ("1.0000", "1.0000", "1.0000")
    assert result.out.splitlines()[-1].startswith("3 questions; search ")
    assert result.out.rstrip().endswith("cost $0.0000")
    written = json.loads((house / "e.json").read_text())
    assert [row["id"] for row in written["rows"]] == ["1", "2", "3"]
    assert written["rows"][0]["ranking"][0] == "garden.txt"
    assert written["settings"]["model"] == "auto"
    page = (house / "e.html").read_text()
    assert "hedge cut month" in page
    assert "http" not in page


def test_retrieval_only_generates_no_answers(house: Path, ragkit: Ragkit) -> None:
    result = ragkit("eval", "q.jsonl", "--retrieval-only", "-k", "1", "--json").json
    assert set(result["figures"]) == {f"{name}@1" for name in ("ndcg", "recall", "precision", "mrr", "map", "hit_rate")}
    assert (result["questions"], result["settings"]["model"], result["dropped"]) == (3, None, [])
    assert all(row["answer"] is None for row in result["rows"])


def test_reports_with_other_metrics_are_not_compared_silently(house: Path, ragkit: Ragkit) -> None:
    ragkit("eval", "q.jsonl", "--retrieval-only", "--out", "before.json")
    same = ragkit("eval", "q.jsonl", "--retrieval-only", "--baseline", "before.json")
    assert (same.err, "ndcg@10" in same.out) == ("", True)
    other = ragkit("eval", "q.jsonl", "--retrieval-only", "-k", "1", "--baseline", "before.json", code=1)
    assert "before.json: no metric in common with this run; use the same --top-k" in other.err


def test_dropped_metrics_are_failures(house: Path, ragkit: Ragkit) -> None:
    ragkit("eval", "q.jsonl", "--retrieval-only", "--out", "before.json")
    lines = [dict(QUESTIONS[0], sources=["boiler.md"]), QUESTIONS[1]]
    (house / "q.jsonl").write_text("".join(json.dumps(item) + "\n" for item in lines))
    result = ragkit("eval", "q.jsonl", "--retrieval-only", "--baseline", "before.json", "--junit", "j.xml", code=1)
    assert "mrr@10 dropped by 0.2500 (allowed: 0.02)" in result.err
    suite = Xml.parse(house / "j.xml").getroot()[0]
    assert "mrr@10" in {case.get("name") for case in suite if len(case)}
    ragkit("eval", "q.jsonl", "--retrieval-only", "--baseline", "before.json", "--max-drop", "0.6")


def test_questions_are_generated_from_the_documents(house: Path, ragkit: Ragkit) -> None:
    (house / "house" / "rules.md").write_text(
        "# Rules of the house\n\nThe maximum weight of the lift is 320 kilograms. "
        "The front door must not be locked at night.\n"
    )
    ragkit("index", "house")
    first = ragkit("eval", "--auto", "10", "--save", "generated.jsonl", "--retrieval-only", "--json")
    created = [json.loads(line) for line in (house / "generated.jsonl").read_text().splitlines()]
    assert {item["kind"] for item in created} >= {"unanswerable-off", "number"}
    assert all(source.startswith("house/") for item in created for source in item["sources"])
    assert "questions could be generated from the documents" in first.err
    again = ragkit("eval", "generated.jsonl", "--retrieval-only", "--json").json
    assert again["figures"] == first.json["figures"]


def test_a_beir_folder_includes_its_documents(workplace: Path, ragkit: Ragkit) -> None:
    (workplace / "ragkit.yaml").write_text(HASHING)
    (workplace / "set").mkdir()
    (workplace / "set" / "corpus.jsonl").write_text(
        '{"_id": "d/1", "title": "Tea", "text": "Tea is brewed hot."}\n'
        '{"_id": "2", "title": "", "text": "Iron rusts."}\n'
    )
    (workplace / "set" / "queries.jsonl").write_text('{"_id": "q", "text": "how is tea brewed"}\n')
    (workplace / "set" / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\td/1\t1\n")
    result = ragkit("eval", "set", "--retrieval-only", "--json").json
    assert (result["questions"], result["figures"]["mrr@10"]["mean"]) == (1, 1.0)
    assert not (workplace / ".ragkit").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["eval"], 2, "give either a file of questions, --auto N or --feedback"),
        (["eval", "q.jsonl", "--auto", "3"], 2, "give either a file of questions, --auto N or --feedback"),
        (["eval", "none.jsonl"], 1, "error: none.jsonl: file not found; pass a .jsonl or .csv file"),
        (["eval", "q.jsonl", "--baseline", "q.jsonl", "--retrieval-only"], 1, "not a report of `ragkit eval`"),
        (["eval", "q.jsonl", "--retrieval-only", "--out", "house/boiler.md/x"], 1, "cannot be written"),
    ],
)
def test_invalid_options_give_a_one_line_error(
    house: Path, ragkit: Ragkit, arguments: list[str], code: int, message: str
) -> None:
    result = ragkit(*arguments, code=code)
    assert message in result.err
    assert "Traceback" not in result.err


def test_missing_sources_are_reported(house: Path, ragkit: Ragkit) -> None:
    (house / "q.jsonl").write_text('{"question": "hedge", "sources": ["hedges.md"]}\n')
    result = ragkit("eval", "q.jsonl", "--retrieval-only")
    assert "1 sources of the questions are not in the knowledge base (such as 'hedges.md')" in result.err


def test_unlabelled_questions_are_reported_and_not_treated_as_unanswerable(house: Path, ragkit: Ragkit) -> None:
    (house / "q.jsonl").write_text(
        '{"question": "When is the hedge cut?", "answer": "August"}\n'
        '{"question": "Who cleans the filter?", "anwsers": ["Aldous"]}\n'
        '{"question": "Who won in 1998?", "answerable": false}\n'
    )
    result = ragkit("eval", "q.jsonl", "--json")
    assert "1 of 3 questions have neither `answers` nor `sources` (such as 'Who cleans the filter?')" in result.err
    assert result.json["figures"]["abstention_recall"]["n"] == 1
    (house / "q.jsonl").write_text('{"question": "When is the hedge cut?", "answer": "August"}\n')
    assert "neither" not in ragkit("eval", "q.jsonl").err


def test_without_a_knowledge_base_there_is_nothing_to_evaluate(workplace: Path, ragkit: Ragkit) -> None:
    (workplace / "q.jsonl").write_text('{"question": "hedge"}\n')
    assert "ragkit index" in ragkit("eval", "q.jsonl", code=1).err


JUDGED = {
    "statements": [{"statement": "It is August.", "passages": [1], "supported": True}],
    "relevance": 2,
    "reason": "answers it",
}
WRITTEN = [
    {"usable": True, "question": "Who looks after the heating?", "answer": "Ms Aldous"},
    {"usable": True, "question": "When is the hedge trimmed?", "answer": "in July"},
    {"usable": False, "question": "", "answer": ""},
]


def test_a_model_judges_and_a_second_run_sends_no_requests(
    house: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    extractive = ("--set", "answer.provider=extractive")
    plain = ragkit("eval", "q.jsonl", "--json", *extractive).json
    answered = sum(not row["abstained"] for row in plain["rows"])
    assert "faithfulness" not in plain["figures"]
    assert "judge" not in plain
    turn = {"content": json.dumps(JUDGED), "usage": {"prompt_tokens": 100, "completion_tokens": 10}}
    monkeypatch.setenv("RAGKIT_MOCK_JSON", json.dumps([turn] * answered))
    result = ragkit(
        "eval", "q.jsonl", "--judge", "auto", "--out", "e.json", "--html", "e.html", "--json", *extractive
    ).json
    assert result["figures"]["faithfulness"]["mean"] == result["figures"]["relevance"]["mean"] == 1.0
    assert (result["figures"]["faithfulness"]["n"], result["judge"]["judged"]) == (answered, answered)
    assert result["judge"]["usage"]["prompt_tokens"] == 100 * answered
    assert json.loads((house / "e.json").read_text())["judge"] == result["judge"]
    assert "Judge: answers it" in (house / "e.html").read_text()
    monkeypatch.setenv("RAGKIT_MOCK_JSON", "[]")
    again = ragkit("eval", "q.jsonl", "--judge", "auto", "--baseline", "e.json", *extractive)
    known = f"{answered} cache hits (saved no cost)"
    assert again.out.splitlines()[-1] == f"judged by scripted:scripted: 0 requests, no cost, {known}"
    assert "faithfulness" in again.out
    ragkit("verify")


def test_a_model_writes_the_questions_of_auto(house: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch) -> None:
    filler = " It stands in the cellar beside the old wine rack, as it always has." * 3
    (house / "house" / "boiler.md").write_text(f"# Boiler\n\nThe boiler is cleaned by Ms Aldous.{filler}\n")
    (house / "house" / "garden.txt").write_text(f"The hedge is cut in the month of August.{filler}\n")
    ragkit("index", "house")
    by_word = {"Aldous": WRITTEN[0], "hedge": WRITTEN[1]}
    script = [json.dumps(by_word["Aldous"]), json.dumps(by_word["Aldous"])]
    monkeypatch.setenv("RAGKIT_MOCK_JSON", json.dumps([{"content": item} for item in script]))
    result = ragkit("eval", "--auto", "2", "--question-model", "auto", "--save", "generated.jsonl", "--retrieval-only")
    created = [json.loads(line) for line in (house / "generated.jsonl").read_text().splitlines()]
    assert [(item["question"], item["answers"], item["sources"]) for item in created] == [
        ("Who looks after the heating?", ["Ms Aldous"], {"house/boiler.md": 1})
    ]
    assert "2 passages sent to the model; discarded questions: 1 the answer is not in the passage" in result.err
    assert "only 1 of 2 questions could be generated" in result.err
    assert result.out.splitlines()[-1] == "questions written by scripted:scripted: 2 requests, no cost"


def test_an_unknown_judge_is_an_error(house: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("auto", "extractive"):
        result = ragkit("eval", "q.jsonl", "--judge", name, code=1)
        assert result.err.startswith(f"error: {name} is not a model: use provider:model")
    assert "did you mean 'openai'?" in ragkit("eval", "q.jsonl", "--judge", "opnai:x", code=2).err
    assert "cannot be combined" in ragkit("eval", "q.jsonl", "--judge", "auto", "--retrieval-only", code=2).err
    assert "--auto N" in ragkit("eval", "q.jsonl", "--question-model", "auto", code=2).err


def test_judging_stops_at_its_budget_and_the_report_is_written(
    house: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = Turn((json.dumps(JUDGED),), prompt_tokens=1_000_000)
    with WireServer(DIALECTS["openai"], [turn]) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        common = ("--set", "answer.provider=extractive", "--judge", "openai:gpt-4o-mini", "--max-cost", "0.1")
        result = ragkit("eval", "q.jsonl", "--json", *common, code=4)
        assert (result.json["judge"]["judged"], len(server.seen)) == (1, 1)
        assert result.json["judge"]["usage"]["total_cost_usd"] == pytest.approx(0.15)
        assert result.json["cost_usd"] == 0  # the cost of answers excludes the judge
        assert "completed judgments are kept" in result.err
        unknown = ragkit("eval", "q.jsonl", "--judge", "openai:gpt-none", "--max-cost", "1", code=4)
        assert "gpt-none" in unknown.err

"""`ragkit eval`: figures on one's own documents, on a BEIR folder, on questions made by rule; and a check for CI."""

from __future__ import annotations

import json
import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest

from tests.cli.conftest import HASHING, Ragkit

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
    (workplace / "q.jsonl").write_text("".join(json.dumps(one) + "\n" for one in QUESTIONS))
    ragkit("index", "house")
    return workplace


def test_figures_are_printed_and_written(house: Path, ragkit: Ragkit) -> None:
    said = ragkit("eval", "q.jsonl", "--out", "e.json", "--html", "e.html")
    rows = {line.split()[0]: line.split()[1] for line in said.out.splitlines()}
    assert (rows["hit_rate@10"], rows["mrr@10"], rows["quotes_verified"]) == ("1.0000", "1.0000", "1.0000")
    assert said.out.splitlines()[-1].startswith("3 questions; search ")
    assert said.out.rstrip().endswith("cost $0.0000")
    written = json.loads((house / "e.json").read_text())
    assert [row["id"] for row in written["rows"]] == ["1", "2", "3"]
    assert written["rows"][0]["ranking"][0] == "garden.txt"
    assert written["settings"]["model"] == "auto"
    page = (house / "e.html").read_text()
    assert "hedge cut month" in page
    assert "http" not in page


def test_retrieval_alone_asks_for_no_answers(house: Path, ragkit: Ragkit) -> None:
    found = ragkit("eval", "q.jsonl", "--retrieval-only", "-k", "1", "--json").json
    assert set(found["figures"]) == {f"{name}@1" for name in ("ndcg", "recall", "precision", "mrr", "map", "hit_rate")}
    assert (found["questions"], found["settings"]["model"], found["dropped"]) == (3, None, [])
    assert all(row["answer"] is None for row in found["rows"])


def test_reports_with_other_figures_are_not_compared_in_silence(house: Path, ragkit: Ragkit) -> None:
    ragkit("eval", "q.jsonl", "--retrieval-only", "--out", "before.json")
    same = ragkit("eval", "q.jsonl", "--retrieval-only", "--baseline", "before.json")
    assert (same.err, "ndcg@10" in same.out) == ("", True)
    other = ragkit("eval", "q.jsonl", "--retrieval-only", "-k", "1", "--baseline", "before.json", code=1)
    assert "before.json: has no figure in common with this run; use the same --depth" in other.err


def test_figures_that_fall_are_failures(house: Path, ragkit: Ragkit) -> None:
    ragkit("eval", "q.jsonl", "--retrieval-only", "--out", "before.json")
    lines = [dict(QUESTIONS[0], sources=["boiler.md"]), QUESTIONS[1]]
    (house / "q.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    said = ragkit("eval", "q.jsonl", "--retrieval-only", "--baseline", "before.json", "--junit", "j.xml", code=1)
    assert "mrr@10 fell by 0.2500; at most 0.02 was allowed" in said.err
    suite = Xml.parse(house / "j.xml").getroot()[0]
    assert "mrr@10" in {case.get("name") for case in suite if len(case)}
    ragkit("eval", "q.jsonl", "--retrieval-only", "--baseline", "before.json", "--max-drop", "0.6")


def test_questions_are_made_of_the_documents(house: Path, ragkit: Ragkit) -> None:
    first = ragkit("eval", "--auto", "10", "--write", "made.jsonl", "--retrieval-only", "--json")
    made = [json.loads(line) for line in (house / "made.jsonl").read_text().splitlines()]
    assert {one["kind"] for one in made} >= {"off_topic", "cloze"}
    assert all(source.startswith("house/") for one in made for source in one["sources"])
    assert "the documents give " in first.err
    again = ragkit("eval", "made.jsonl", "--retrieval-only", "--json").json
    assert again["figures"] == first.json["figures"]


def test_a_beir_folder_brings_its_own_documents(workplace: Path, ragkit: Ragkit) -> None:
    (workplace / "ragkit.yaml").write_text(HASHING)
    (workplace / "set").mkdir()
    (workplace / "set" / "corpus.jsonl").write_text(
        '{"_id": "d/1", "title": "Tea", "text": "Tea is brewed hot."}\n'
        '{"_id": "2", "title": "", "text": "Iron rusts."}\n'
    )
    (workplace / "set" / "queries.jsonl").write_text('{"_id": "q", "text": "how is tea brewed"}\n')
    (workplace / "set" / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\td/1\t1\n")
    found = ragkit("eval", "set", "--retrieval-only", "--json").json
    assert (found["questions"], found["figures"]["mrr@10"]["mean"]) == (1, 1.0)
    assert not (workplace / ".ragkit").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["eval"], 2, "name a file of questions, or let --auto N make some"),
        (["eval", "q.jsonl", "--auto", "3"], 2, "name a file of questions, or let --auto N make some"),
        (["eval", "none.jsonl"], 1, "error: none.jsonl: there is no such file; name a .jsonl or .csv file"),
        (["eval", "q.jsonl", "--baseline", "q.jsonl", "--retrieval-only"], 1, "is no report of `ragkit eval`"),
        (["eval", "q.jsonl", "--retrieval-only", "--out", "house/boiler.md/x"], 1, "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    house: Path, ragkit: Ragkit, arguments: list[str], code: int, message: str
) -> None:
    said = ragkit(*arguments, code=code)
    assert message in said.err
    assert "Traceback" not in said.err


def test_sources_that_are_not_there_are_named(house: Path, ragkit: Ragkit) -> None:
    (house / "q.jsonl").write_text('{"question": "hedge", "sources": ["hedges.md"]}\n')
    said = ragkit("eval", "q.jsonl", "--retrieval-only")
    assert "1 of the sources that the questions name are not in the knowledge base, 'hedges.md' for one" in said.err


def test_without_a_knowledge_base_there_is_nothing_to_evaluate(workplace: Path, ragkit: Ragkit) -> None:
    (workplace / "q.jsonl").write_text('{"question": "hedge"}\n')
    assert "ragkit index" in ragkit("eval", "q.jsonl", code=1).err

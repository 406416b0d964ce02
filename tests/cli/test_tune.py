"""`ragkit tune`: table, pipeline file and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragkit.pipeline.settings import Pipeline
from tests.cli.conftest import HASHING, Ragkit

GRID = """\
pipeline: base.yaml
documents: house
questions: q.jsonl
metric: mrr@5
grid:
  retrieve.dense_weight: [0.2, 0.8]
"""


@pytest.fixture
def house(workplace: Path) -> Path:
    """A folder, questions about it, and a grid."""
    (workplace / "house").mkdir()
    subjects = {"boiler": "filter is cleaned on Monday", "hedge": "is cut in August", "roof": "was mended in 1997"}
    lines = []
    for name, fact in subjects.items():
        (workplace / "house" / f"{name}.md").write_text(f"# The {name}\n\nThe {name} {fact}.\n")
        for word in ("When", "Why", "How"):
            lines.append(json.dumps({"question": f"{word} about the {name}: {fact}?", "sources": [f"{name}.md"]}))
    (workplace / "q.jsonl").write_text("\n".join(lines))
    (workplace / "base.yaml").write_text("extends: default\n" + HASHING)
    (workplace / "grid.yaml").write_text(GRID)
    return workplace


def test_the_winner_is_written_as_a_pipeline_that_can_be_used(house: Path, ragkit: Ragkit) -> None:
    result = ragkit("tune", "grid.yaml")
    head, *rows = result.out.splitlines()
    assert head.split()[:3] == ["#", "dense_weight", "mrr@5"]
    assert rows[0].startswith("*")
    assert any("4 held-out questions: mrr@5 1.0000" in row for row in rows)
    assert any("texts embedded 3, distinct (text, embedder) 3" in row for row in rows)
    assert "note: only 5 selection questions: small differences" in result.out
    assert "wrote tuned.yaml" in result.err
    assert Pipeline.load(house / "tuned.yaml").retriever.name == "hybrid"
    ragkit("index", "house", "--pipeline", "tuned.yaml")


def test_an_existing_file_is_not_overwritten(house: Path, ragkit: Ragkit) -> None:
    (house / "tuned.yaml").write_text("mine")
    result = ragkit("tune", "grid.yaml", code=1)
    assert result.err == "error: tuned.yaml exists: choose another file with --save, or add --force\n"
    assert (house / "tuned.yaml").read_text() == "mine"
    assert not (house / ".ragkit-tune").exists()
    ragkit("tune", "grid.yaml", "--force")
    assert "Selected by `ragkit tune grid.yaml`" in (house / "tuned.yaml").read_text()


def test_json_is_one_object_and_a_second_run_has_nothing_to_do(house: Path, ragkit: Ragkit) -> None:
    first = ragkit("tune", "grid.yaml", "--json").json
    second = ragkit("tune", "grid.yaml", "--json", "--force", "-q")
    assert second.err == ""
    assert [item["resumed"] for item in first["trials"]] == [False, False]
    assert [item["resumed"] for item in second.json["trials"]] == [True, True]
    assert (second.json["winner"], second.json["counts"]["embedded"]) == (first["winner"], 0)
    assert first["usage"]["total_cost_usd"] == 0
    assert (first["questions"], first["written"]) == ({"choose": 5, "held_out": 4}, "tuned.yaml")


def test_problems_of_the_grid_are_reported_all_at_once(house: Path, ragkit: Ragkit) -> None:
    (house / "grid.yaml").write_text(GRID.replace("dense_weight", "dens_weight").replace("mrr@5", "mmr@5"))
    result = ragkit("tune", "grid.yaml", code=1)
    assert [line for line in result.err.splitlines() if line.startswith("grid.yaml:")] == [
        "grid.yaml:4:9: metric must be one of ndcg@10, recall@10, precision@10, mrr@10, map@10, hit_rate@10, "
        "right, first_sentence, cited, answer_contained, exact_match, token_f1, citation_precision, "
        "citation_recall (or another depth) "
        "(got 'mmr@5'; did you mean 'mrr@10'?)",
        "grid.yaml:6:12: unknown option 'dens_weight' of the retriever 'hybrid' (did you mean 'dense_weight'?); "
        + result.err.partition("'dense_weight'?); ")[2].splitlines()[0],
    ]
    assert not (house / ".ragkit-tune").exists()


def test_a_beir_folder_includes_its_documents(house: Path, ragkit: Ragkit) -> None:
    folder = house / "beir"
    folder.mkdir()
    rows = [{"_id": f"d{n}", "title": f"Thing {n}", "text": f"All there is to say of {n}."} for n in range(3)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    queries = [{"_id": f"q{n}", "text": f"thing {n}"} for n in range(3)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    (folder / "qrels.tsv").write_text("query\tdoc\tgrade\n" + "".join(f"q{n}\td{n}\t1\n" for n in range(3)))
    text = GRID.replace("q.jsonl", "beir").replace("documents: house\n", "holdout: 0\n")
    (house / "grid.yaml").write_text(text)
    result = ragkit("tune", "grid.yaml", "--json").json
    assert result["questions"] == {"choose": 3, "held_out": 0}
    assert [item["quality"]["mean"] for item in result["trials"]] == [1.0, 1.0]


def test_questions_can_be_generated_from_the_documents(house: Path, ragkit: Ragkit) -> None:
    for number in range(6):
        name = ["lathe", "anvil", "kiln", "loom", "still", "press"][number]
        text = (
            f"# The {name} of the workshop\n\nThe {name} is a tool of the {number}th room. It cost {900 + number}.37.\n"
        )
        (house / "house" / f"{name}.md").write_text(text)
    (house / "grid.yaml").write_text(GRID.replace("q.jsonl", "{auto: 10}").replace("mrr@5", "hit_rate@5"))
    result = ragkit("tune", "grid.yaml", "--json").json
    assert result["questions"]["choose"] + result["questions"]["held_out"] == 6
    assert result["trials"][0]["rows"][0]["id"].startswith("a0")

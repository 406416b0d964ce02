"""The benchmark script, on a collection with metrics computed by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from math import log2
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "beir.py"


def collection(folder: Path) -> Path:
    """Three documents; lexical search ranks c, b (a has no term), the relevance judgements are a 2, b 1."""
    texts = {"a": "rudder and keel", "b": "sails sew mend wool linen", "c": "sails sails"}
    questions = {"judged": "sails", "nobody judged": "rudder", "judged worthless": "keel"}
    rows = [{"_id": key, "title": "", "text": text} for key, text in texts.items()]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "queries.jsonl").write_text(
        "\n".join(json.dumps({"_id": key, "text": text}) for key, text in questions.items())
    )
    (folder / "qrels.tsv").write_text(
        "query-id\tcorpus-id\tscore\njudged\ta\t2\njudged\tb\t1\njudged worthless\tc\t0\n"
    )
    return folder


@pytest.mark.parametrize("chunks", [[], ["--chunks"]])
def test_the_benchmark_reports_the_expected_figures(tmp_path: Path, chunks: list[str]) -> None:
    command = [sys.executable, str(SCRIPT), str(collection(tmp_path)), "--json", *chunks]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stderr == ""
    report = json.loads(done.stdout)
    [run] = report["runs"]
    lexical = next(row for row in run["figures"] if row["retriever"] == "lexical")
    assert [row["retriever"] for row in run["figures"]] == ["lexical", "dense", "rrf", "hybrid", "sentences"]
    assert lexical["queries"] == 1
    assert lexical["ndcg"] == pytest.approx((1 / log2(3)) / (2 + 1 / log2(3)))
    assert lexical["recall"] == 0.5
    assert lexical["mrr"] == 0.5
    assert {"python", "sqlite", "terms", "embedder"} <= report["versions"].keys()

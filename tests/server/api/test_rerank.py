"""Reranking, as Cohere's client and Open WebUI ask for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cohere
import httpx
import numpy as np
import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests.server.parts import LOCAL, Served, limited, serving

QUERY = "When is the hedge cut?"
TEXTS = ["The boiler is swept in May.", "The hedge is cut in August.", "The saw hangs on a nail."]


def test_the_client_of_cohere_gets_texts_by_relevance(base: Path) -> None:
    with serving(base) as (served, _), httpx.Client() as http:
        client = cohere.Client(api_key="unused", base_url=served.url, httpx_client=http)
        result = client.rerank(query=QUERY, documents=TEXTS, model="ragkit", top_n=2, return_documents=True)
        with served.kb.session() as session:
            cosines = session.embed(TEXTS) @ session.embed_question(QUERY)
    assert [item.index for item in result.results] == list(np.argsort(-cosines))[:2]
    assert result.results[0].document is not None
    assert result.results[0].document.text == TEXTS[1]
    assert [item.relevance_score for item in result.results] == pytest.approx(sorted(cosines, reverse=True)[:2])


def test_open_webui_reads_a_score_for_each_text(base: Path) -> None:
    """The request of `open_webui/retrieval/models/external.py` of Open WebUI 0.12, and how it reads the response."""
    payload: dict[str, Any] = {"model": "reranker", "query": QUERY, "documents": TEXTS, "top_n": len(TEXTS)}
    with serving(base) as (_, client):
        data = client.post("/v1/rerank", json=payload, headers={"authorization": "Bearer unused"}).json()
    scores = [result["relevance_score"] for result in sorted(data["results"], key=lambda result: result["index"])]
    assert len(scores) == 3
    assert max(scores) == scores[1]


def test_the_reranker_of_the_pipeline_is_used(base: Path, tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("The hedge is cut in August.\n", "utf-8")
    settings = "embed: {name: hashing, dimension: 64}\nretrieve: {name: hybrid, rerank: {name: sentences}}\n"
    with KnowledgeBase.open(tmp_path / "reranked", Pipeline.from_yaml(settings)) as kb:
        kb.index(tmp_path / "note.md")
        served = Served(kb, LOCAL)
        with served.client() as client:
            long = f"{TEXTS[0]} {TEXTS[2]} {TEXTS[1]}"
            body = {"query": QUERY, "documents": [{"text": TEXTS[0]}, {"text": long}]}
            result = client.post("/v1/rerank", json=body).json()
        served.stop()
    assert (result["model"], [item["index"] for item in result["results"]]) == ("sentences", [1, 0])
    assert result["results"][0]["relevance_score"] > 0.8


def test_wrong_rerank_requests_give_a_one_line_error(base: Path) -> None:
    with serving(base, settings=limited(question_chars=100)) as (_, client):
        for change, says in (
            ({"documents": []}, "documents must have 1 to 1000 texts (got 0)"),
            ({"documents": ["x"] * 1001}, "documents must have 1 to 1000 texts (got 1001)"),
            ({"query": " "}, "the question is empty"),
            ({"query": "x" * 101}, "the question is too long"),
        ):
            refused = client.post("/v1/rerank", json={"query": QUERY, "documents": TEXTS, **change})
            assert refused.status_code == 400
            assert refused.json()["error"]["message"].startswith(says)

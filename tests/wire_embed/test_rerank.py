"""Cohere's reranker through its SDK, against a server that checks each field; and a pipeline that names one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ragkit.embed import service_requests
from ragkit.embed.hashing import HashingEmbedder
from ragkit.errors import AuthenticationFailed
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Chunk, Hit
from ragkit.retrieve.options import RerankOptions
from ragkit.usage.meter import Meter, use_meter
from tests.wire_embed.dialects import KEY

HITS = [Hit(Chunk(text, "d", "", text, 0, len(text), 1, 1), 0.0, {}, 1) for text in ("cats", "dogs bark", "owls")]


class Reranking:
    """Implements `/v2/rerank`: longer documents are more relevant. The first responses are errors."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.bodies: list[dict[str, Any]] = []

    def answer(self, path: str, key: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body."""
        self.bodies.append(body)
        if len(self.bodies) <= self.refusals:
            return 429, {"message": "slow down"}
        if (path, key, set(body)) != ("/v2/rerank", f"Bearer {KEY}", {"model", "query", "documents"}):
            return 400, {"message": f"wrong request: {path} {sorted(body)}"}
        scores = [(min(1.0, len(text) / 100), at) for at, text in enumerate(body["documents"])]
        results = [{"index": at, "relevance_score": score} for score, at in sorted(scores, reverse=True)]
        return 200, {"id": "1", "results": results, "meta": {"billed_units": {"search_units": 1}}}


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Reranking]]:
    """Starts a server and points Cohere's SDK at it."""
    running: list[tuple[ThreadingHTTPServer, Thread]] = []

    def start(refusals: int = 0) -> Reranking:
        service = Reranking(refusals)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = service.answer(self.path, self.headers["Authorization"], body)
                raw = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        running.append((http, thread))
        monkeypatch.setenv("CO_API_URL", f"http://127.0.0.1:{http.server_address[1]}")
        monkeypatch.setenv("COHERE_API_KEY", KEY)
        monkeypatch.setattr(service_requests, "INITIAL_BACKOFF_S", 0.01)
        return service

    yield start
    for http, thread in running:
        http.shutdown()
        http.server_close()
        thread.join()


def test_scores_are_in_the_order_of_the_hits_after_retries(serve: Callable[[int], Reranking]) -> None:
    from ragkit.retrieve.rerank_cohere import CohereReranker

    service, meter = serve(2), Meter()
    with use_meter(meter):
        scores = CohereReranker(RerankOptions("cohere", model="my-model"), HashingEmbedder()).scores("which?", HITS)
    assert scores.tolist() == [0.04, 0.09, 0.04]
    assert service.bodies == [{"model": "my-model", "query": "which?", "documents": ["cats", "dogs bark", "owls"]}] * 3
    assert [(call.kind, call.provider, call.model) for call in meter.calls] == [("rerank", "cohere", "my-model")]


def test_a_missing_api_key_names_the_variable_to_set() -> None:
    from ragkit.retrieve.rerank_cohere import CohereReranker

    with pytest.raises(
        AuthenticationFailed, match=r"^cohere: no API key: set COHERE_API_KEY or CO_API_KEY, or pass api_key$"
    ):
        CohereReranker(RerankOptions("cohere"), HashingEmbedder()).scores("which?", HITS)


def test_a_pipeline_names_a_reranker_and_its_hits_have_its_scores(
    tmp_path: Path, serve: Callable[[int], Reranking]
) -> None:
    serve(0)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "short.txt").write_text("Owls hunt at night.")
    (tmp_path / "docs" / "long.txt").write_text("Owls sleep by day, high up in the old oak behind the house.")
    pipeline = Pipeline.from_yaml("embed: {name: hashing}\nretrieve: {name: hybrid, rerank: {name: cohere}}\n")
    assert Pipeline.from_yaml(pipeline.to_yaml()) == pipeline
    with KnowledgeBase.open(tmp_path / "kb", pipeline) as kb:
        kb.index(tmp_path / "docs")
        hits = kb.search("when do owls hunt at night?")
        assert [Path(hit.chunk.source).name for hit in hits] == ["long.txt", "short.txt"]
        assert [hit.scores["rerank"] for hit in hits] == [hit.score for hit in hits]
        assert "rerank" not in kb.search("when do owls hunt?", mode="dense")[0].scores

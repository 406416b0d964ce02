"""The rerankers of Cohere (through its SDK) and Jina, against a server that checks each field."""

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
from ragkit.errors import AuthenticationFailed, ConnectionFailed, InvalidRequest
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Chunk, Hit
from ragkit.retrieve.options import RerankOptions
from ragkit.retrieve.rerank_jina import JinaReranker
from ragkit.usage.meter import Meter, use_meter
from tests.wire_embed.dialects import KEY

HITS = [Hit(Chunk(text, "d", "", text, 0, len(text), 1, 1), 0.0, {}, 1) for text in ("cats", "dogs bark", "owls")]


FIELDS = {
    "/v2/rerank": {"model", "query", "documents"},
    "/v1/rerank": {"model", "query", "documents", "return_documents"},
}


class Reranking:
    """Implements `/v2/rerank` of Cohere and `/v1/rerank` of Jina: longer documents are more relevant.

    The first responses are errors.
    """

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.shown: int | None = None
        """How many results an answer has; None: all."""
        self.bodies: list[dict[str, Any]] = []

    def answer(self, path: str, key: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body."""
        self.bodies.append(body)
        if len(self.bodies) <= self.refusals:
            return 429, {"message": "slow down"}
        if (key, set(body)) != (f"Bearer {KEY}", FIELDS.get(path)):
            return 400, {"message": f"wrong request: {path} {sorted(body)}"}
        scores = [(min(1.0, len(text) / 100), at) for at, text in enumerate(body["documents"])]
        results = [{"index": at, "relevance_score": score} for score, at in sorted(scores, reverse=True)]
        usage = {"total_tokens": 21}
        return 200, {
            "id": "1",
            "results": results[: self.shown],
            "usage": usage,
            "meta": {"billed_units": {"search_units": 1}},
        }


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Reranking]]:
    """Starts a server and points both adapters at it."""
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
        monkeypatch.setenv("JINA_BASE_URL", f"http://127.0.0.1:{http.server_address[1]}")
        monkeypatch.setenv("COHERE_API_KEY", KEY)
        monkeypatch.setenv("JINA_API_KEY", KEY)
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


def test_jina_scores_in_the_order_of_the_hits_after_retries_and_reports_its_tokens(
    serve: Callable[[int], Reranking],
) -> None:
    service, meter = serve(2), Meter()
    with use_meter(meter):
        scores = JinaReranker(RerankOptions("jina", model="my-model"), HashingEmbedder()).scores("which?", HITS)
    assert scores.tolist() == [0.04, 0.09, 0.04]
    sent = {
        "model": "my-model",
        "query": "which?",
        "documents": ["cats", "dogs bark", "owls"],
        "return_documents": False,
    }
    assert service.bodies == [sent] * 3
    assert [(call.kind, call.provider, call.model) for call in meter.calls] == [("rerank", "jina", "my-model")]


def test_jina_names_what_is_wrong_with_a_key_a_request_or_an_answer(
    serve: Callable[[int], Reranking], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, jina = serve(0), JinaReranker(RerankOptions("jina"), HashingEmbedder())
    monkeypatch.setattr(service_requests, "MAX_BACKOFF_S", 0.01)
    service.shown = 2
    with pytest.raises(ConnectionFailed, match="jina-reranker-v3 returned no score for some of 3 documents"):
        jina.scores("which?", HITS)
    monkeypatch.setenv("JINA_API_KEY", "wrong")
    with pytest.raises(InvalidRequest, match="jina: the request was rejected with status 400"):
        jina.scores("which?", HITS)
    monkeypatch.setenv("JINA_BASE_URL", "http://127.0.0.1:9")
    with pytest.raises(ConnectionFailed, match="jina: incomplete response"):
        jina.scores("which?", HITS)
    monkeypatch.delenv("JINA_API_KEY")
    with pytest.raises(AuthenticationFailed, match=r"^jina: no API key: set JINA_API_KEY, or pass api_key$"):
        jina.scores("which?", HITS)


@pytest.mark.parametrize("name", ["cohere", "jina"])
def test_a_pipeline_names_a_reranker_and_its_hits_have_its_scores(
    tmp_path: Path, serve: Callable[[int], Reranking], name: str
) -> None:
    serve(0)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "short.txt").write_text("Owls hunt at night.")
    (tmp_path / "docs" / "long.txt").write_text("Owls sleep by day, high up in the old oak behind the house.")
    pipeline = Pipeline.from_yaml(f"embed: {{name: hashing}}\nretrieve: {{name: hybrid, rerank: {{name: {name}}}}}\n")
    assert Pipeline.from_yaml(pipeline.to_yaml()) == pipeline
    with KnowledgeBase.open(tmp_path / "kb", pipeline) as kb:
        kb.index(tmp_path / "docs")
        hits = kb.search("when do owls hunt at night?")
        assert [Path(hit.chunk.source).name for hit in hits] == ["long.txt", "short.txt"]
        assert [hit.scores["rerank"] for hit in hits] == [hit.score for hit in hits]
        assert "rerank" not in kb.search("when do owls hunt?", mode="dense")[0].scores

"""Search, documents, status, health and metrics over HTTP."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document
from ragkit.server.api.knowledge_base import MAX_DOCUMENT_CHARS, document_excerpt
from ragkit.server.http_errors import RequestRejected
from ragkit.server.settings import ServerSettings
from tests import reads
from tests.load import sample_files
from tests.server.api.test_limits import wait_until
from tests.server.conftest import HASHING, TEXTS
from tests.server.parts import serving


def test_a_search_returns_the_hits_of_the_knowledge_base(base: Path) -> None:
    with serving(base) as (served, client):
        result = client.post("/v1/search", json={"query": "hedge", "top_k": 2, "explain": True}).json()
        expected = reads.explain(served.kb, "hedge", 2)
    assert [hit["chunk_id"] for hit in result["hits"]] == [item.hit.chunk.id for item in expected]
    assert [hit["document_id"] for hit in result["hits"]] == [item.hit.chunk.document_id for item in expected]
    assert result["hits"][0]["explain"] == {"ranks": dict(expected[0].ranks), "shares": dict(expected[0].contributions)}
    assert result["question"] == "hedge"
    assert result["usage"]["total_cost_usd"] == 0.0


@pytest.mark.parametrize("where", [{"year": {"$lt": 2020}}, "year < 2020"])
def test_a_filter_can_be_json_or_text(base: Path, where: object) -> None:
    with serving(base) as (_, client):
        result = client.post("/v1/search", json={"query": "hedge", "where": where}).json()
        assert [hit["source"].rpartition("/")[2] for hit in result["hits"]] == ["house.md"]
        wrong = client.post("/v1/search", json={"query": "hedge", "where": {"year": {"$near": 1}}})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "invalid_value")


def test_documents_are_listed_by_page_and_returned_in_full(base: Path) -> None:
    with serving(base) as (served, client):
        first = client.get("/documents", params={"limit": 2}).json()
        rest = client.get("/documents", params={"limit": 2, "cursor": first["next"]}).json()
        rows = [*first["documents"], *rest["documents"]]
        assert [row["source"].rpartition("/")[2] for row in rows] == sorted(TEXTS)
        assert rest["next"] is None
        [result] = client.get("/documents", params={"q": "SHED"}).json()["documents"]
        assert (result["format"], result["chunks"], result["characters"]) == ("text", 1, len(TEXTS["shed.txt"]))
        shown = client.get(f"/documents/{result['id']}").json()
        source = reads.documents(served.kb)[2][0]
    assert (shown["text"], shown["first_line"], shown["last_line"]) == (TEXTS["shed.txt"], 1, 2)
    assert (shown["stale"], shown["pages"], source.endswith("shed.txt")) == (False, [], True)


def test_a_citation_of_a_pdf_file_is_marked_on_its_page(tmp_path: Path) -> None:
    (tmp_path / "saw.pdf").write_bytes(sample_files.pdf([["The saw hangs on a nail.", "The rake leans beside it."]]))
    with KnowledgeBase.open(tmp_path / "own", Pipeline.from_yaml(HASHING)) as kb:
        kb.index(tmp_path / "saw.pdf")
    with serving(tmp_path / "own") as (_, client):
        [row] = client.get("/documents").json()["documents"]
        start = client.get(f"/documents/{row['id']}").json()["text"].index("rake")
        result = client.get(f"/documents/{row['id']}/rectangles", params={"start": start, "end": start + 4}).json()
        missing = client.get("/documents/none/rectangles", params={"start": 0, "end": 1})
    [found] = result["rectangles"]
    assert (found["page"], result["stale"], missing.status_code) == (1, False, 404)
    assert 15 < found["right"] - found["left"] < 30
    assert 8 < found["top"] - found["bottom"] < 16


def test_a_browser_that_opens_a_document_gets_the_page_at_its_lines(base: Path) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    with serving(base, settings=ServerSettings(port=0, tokens=("a-token-of-twenty-letters",))) as (_, client):
        led = client.get("/documents/0ea9?start_line=6&end_line=7", headers=browser)
        assert (led.status_code, led.headers["location"]) == (303, "../#/document/0ea9?start_line=6&end_line=7")
        assert client.get("/documents/0ea9", headers=browser).headers["location"] == "../#/document/0ea9"
        for path in ("/documents", "/documents/0ea9/file", "/documents/a%0ab", "/documents/..%2fx"):
            assert client.get(path, headers=browser).status_code in (401, 404), path
        assert client.get("/documents/0ea9").status_code == 401


@pytest.mark.parametrize("named", ["none", "../../etc/passwd", "%2e%2e%2fetc%2fpasswd", "/etc/passwd", "shed.txt"])
def test_no_file_named_by_a_client_is_opened(base: Path, named: str) -> None:
    with serving(base) as (_, client):
        result = client.get(f"/documents/{named}")
    assert (result.status_code, result.json()["error"]["type"]) == (404, "invalid_request_error")


def test_a_changed_document_is_stale_and_returned_as_indexed(tmp_path: Path, base: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("The saw hangs on a nail.\n")
    with KnowledgeBase.open(tmp_path / "own", Pipeline.from_yaml(HASHING)) as kb:
        kb.index(file)
    file.write_text("The saw is gone.\n")
    with serving(tmp_path / "own") as (_, client):
        [row] = client.get("/documents").json()["documents"]
        result = client.get(f"/documents/{row['id']}").json()
    assert (result["text"], result["stale"]) == ("The saw hangs on a nail.\n", True)


def test_a_long_document_returns_the_requested_lines() -> None:
    lines = [f"line {n}" for n in range(1, 60_001)]
    result = document_excerpt(Document("\n".join(lines), page_starts=(0, 7, 14)), 30_000, 30_010)
    first, last = result["first_line"], result["last_line"]
    assert isinstance(first, int) and isinstance(last, int)
    assert first < 30_000
    assert last > 30_010
    assert result["text"] == "\n".join(lines[first - 1 : last])
    assert MAX_DOCUMENT_CHARS * 0.9 < len(str(result["text"])) <= MAX_DOCUMENT_CHARS
    assert (result["lines"], result["pages"]) == (60_000, [{"page": n, "line": n} for n in (1, 2, 3)])
    # more lines before the requested ones would leave no room for the last of them
    many = document_excerpt(Document("\n".join(lines)), 30_000, 45_000)
    assert int(str(many["first_line"])) <= 30_000
    assert int(str(many["last_line"])) >= 45_000
    only_end = document_excerpt(Document("\n".join(lines)), None, 50_000)
    assert int(str(only_end["first_line"])) < 50_000 <= int(str(only_end["last_line"]))
    with pytest.raises(RequestRejected, match=r"end_line must be >= start_line, 3 \(got 2\)"):
        document_excerpt(Document("a\nb\nc"), 3, 2)
    short = document_excerpt(Document("a\nb"), 2, 2)
    assert (short["text"], short["first_line"], short["last_line"]) == ("a\nb", 1, 2)
    assert len(str(document_excerpt(Document("x" * 300_000), None, None)["text"])) == MAX_DOCUMENT_CHARS


def test_status_has_the_knowledge_base_and_the_server(base: Path) -> None:
    with serving(base) as (_, client):
        result = client.get("/status").json()
    assert (result["documents"], result["chunks"], result["failed"]) == (3, 3, 0)
    assert result["server"]["models"] == ["ragkit"]
    assert result["server"]["limits"]["question_chars"] == 20_000


def test_the_server_is_ready_only_if_the_index_can_be_opened(base: Path, tmp_path: Path) -> None:
    stored = shutil.copytree(base, tmp_path / "kept")
    with serving(base) as (served, client):
        assert client.get("/ready").json() == {"status": "ready", "parts": {"knowledge_base": "ok", "state": "ok"}}
        served.kb.clear()
        wait_until(lambda: client.get("/ready").status_code == 503)
        assert client.get("/health").json() == {"status": "live"}
        result = client.get("/ready")
        assert (result.status_code, result.json()["error"]["code"]) == (503, "knowledge_base_unavailable")
        search = client.post("/v1/search", json={"query": "hedge"})
        assert (search.status_code, str(stored) in search.text) == (503, False)


def test_documents_indexed_while_serving_are_found(base: Path, tmp_path: Path) -> None:
    file = tmp_path / "pond.txt"
    file.write_text("The newt lives in the pond.\n")
    with serving(base) as (_, client):
        assert client.get("/documents").json()["documents"][-1]["source"].endswith("shed.txt")
        with KnowledgeBase.open(base) as kb:
            kb.index(file)
        result = client.post("/v1/search", json={"query": "newt", "top_k": 1}).json()
    assert result["hits"][0]["text"] == "The newt lives in the pond."


def test_metrics_are_in_the_format_of_prometheus(base: Path) -> None:
    with serving(base) as (_, client):
        client.post("/chat", json={"message": "When is the hedge cut?"})
        client.get("/session/ses_none")
        result = client.get("/metrics")
    assert result.headers["content-type"].startswith("text/plain")
    lines = result.text.splitlines()
    assert 'ragkit_requests_total{route="/chat",status="200"} 1.0' in lines
    assert 'ragkit_requests_total{route="/session/{session_id}",status="404"} 1.0' in lines
    [answers] = [line for line in lines if line.startswith("ragkit_answers_total{")]
    assert answers == 'ragkit_answers_total{kb="",model="extractive",principal="",status="done"} 1.0'
    [written] = [line for line in lines if line.startswith('ragkit_index_timestamp_seconds{kb=""} ')]
    assert 0 < time.time() - float(written.rpartition(" ")[2]) < 86_400
    assert any(line.startswith("ragkit_process_start_time_seconds ") for line in lines)
    assert "ragkit_first_text_seconds_count 1.0" in lines
    assert "ragkit_answers_running 0.0" in lines

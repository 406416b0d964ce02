"""The middleware: access, and headers of every response."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ragkit.knowledge_base.session import Session
from ragkit.server.settings import ServerSettings
from tests.server.parts import LOCAL, serving

TOKEN = "a-token-of-some-length"
GUARDED = ServerSettings(port=0, tokens=(TOKEN,))
SITE = "https://notes.example"


def test_every_response_has_a_request_id_and_security_headers(base: Path) -> None:
    with serving(base) as (_, client):
        for path in ("/health", "/nowhere", "/traces/none"):
            headers = client.get(path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
            assert headers["cache-control"] == "no-store"
            assert headers["x-request-id"].startswith("req_")
            assert "server" not in headers
        assert client.get("/health", headers={"x-request-id": "mine-1"}).headers["x-request-id"] == "mine-1"
        forged = client.get("/health", headers={"x-request-id": "a b\tc"}).headers["x-request-id"]
        assert forged.startswith("req_")


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "[::2]"])
def test_unknown_hosts_are_rejected(base: Path, host: str) -> None:
    with serving(base) as (_, client):
        result = client.get("/health", headers={"host": host})
    assert (result.status_code, result.json()["error"]["code"]) == (421, "wrong_host")


def test_own_host_names_are_accepted(base: Path) -> None:
    with serving(base, settings=ServerSettings(port=0, hosts=("kb.lan",))) as (served, client):
        port = served.address[1]
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", "[::1]:80", "LOCALHOST", "kb.lan"):
            assert client.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("origin", [SITE, "null", "http://127.0.0.1:1", "http://evil@127.0.0.1"])
def test_other_origins_are_rejected(base: Path, origin: str) -> None:
    with serving(base) as (served, client):
        result = client.post("/session/start", headers={"origin": origin})
        assert (result.status_code, result.json()["error"]["code"]) == (403, "wrong_origin")
        assert "access-control-allow-origin" not in result.headers
        assert client.post("/session/start", headers={"origin": served.url}).status_code == 200
        assert len(client.get("/sessions").json()["sessions"]) == 1


def test_allowed_origins_are_accepted(base: Path) -> None:
    asks = {"origin": SITE, "access-control-request-method": "POST"}
    with serving(base, settings=ServerSettings(port=0, origins=(SITE,))) as (_, client):
        before = client.options("/chat", headers=asks)
        assert before.status_code == 204
        assert before.headers["access-control-allow-origin"] == SITE
        assert "authorization" in before.headers["access-control-allow-headers"]
        assert client.get("/sessions", headers={"origin": SITE}).headers["access-control-allow-origin"] == SITE
        assert client.options("/chat", headers={**asks, "origin": "https://other.example"}).status_code == 403


def test_all_paths_but_the_page_and_health_require_the_token(base: Path) -> None:
    with serving(base, settings=GUARDED) as (_, client):
        assert client.get("/health").status_code == 200
        paths = ["/sessions", "/traces", "/status", "/documents", "/metrics", "/v1/models", "/openapi.json", "/nowhere"]
        for path in (*paths, "/health/", "/static/../sessions"):
            result = client.get(path)
            assert (path, result.status_code) == (path, 401)
            assert result.headers["www-authenticate"] == "Bearer"
        for wrong in ("Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer \xff"):
            assert client.get("/sessions", headers={b"authorization": wrong.encode("latin-1")}).status_code == 401
        for right in (f"Bearer {TOKEN}", f"bearer  {TOKEN}"):
            assert client.get("/sessions", headers={"authorization": right}).status_code == 200


def test_the_request_log_has_no_token_and_no_question(base: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ragkit"), serving(base, settings=GUARDED) as (_, client):
        headers = {"authorization": f"Bearer {TOKEN}", "x-request-id": "mine-2"}
        client.post("/v1/search", json={"query": "hedge"}, headers=headers)
        client.get("/documents", params={"q": "boiler"}, headers={"authorization": "Bearer some-other-token"})
    records = [vars(record) for record in caplog.records if record.name == "ragkit.server.request"]
    assert [(item["method"], item["path"], item["status"]) for item in records] == [
        ("POST", "/v1/search", 200),
        ("GET", "/documents", 401),
    ]
    assert records[0]["token"] == "token-1"
    result = str(records)
    assert not [word for word in (TOKEN, "some-other-token", "hedge", "boiler") if word in result]


def test_an_internal_error_hides_its_details(
    base: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("secret words")

    with serving(base, settings=LOCAL) as (_, client):
        monkeypatch.setattr(Session, "list_documents", broken)
        result = client.get("/documents", headers={"x-request-id": "mine-3"})
    assert (result.status_code, result.json()["error"]["code"]) == (500, "internal_error")
    assert "secret" not in result.text
    assert "secret words" in caplog.text

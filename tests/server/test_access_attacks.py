"""Attacks on the rights of users: every one is refused, and shows nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx2
import pytest

from ragkit.cli.commands.serve import create_application
from ragkit.errors import KnowledgeBaseDamaged
from ragkit.index.access.rules import AccessSettings, User, sign
from ragkit.index.access.stores import AccessFile
from ragkit.index.access.tokens import create_token
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.server.http_errors import RequestRejected
from ragkit.server.principals import CURRENT, Principal, current_grants
from ragkit.server.settings import ServerSettings
from tests import reads
from tests.server.access_parts import HASHING, KINDS, USERS, World, rpc, world
from tests.server.parts import Served

SECRET = "s" * 40
HEADER = "x-ragkit-user"
ACCEPT = {"accept": "application/json, text/event-stream"}
INITIALIZE = rpc(
    "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A knowledge base with users, served with a proxy's secret and a token of the server."""
    settings = ServerSettings(port=0, proxy_secret=SECRET)
    with world(tmp_path_factory.mktemp("attacks"), settings) as made:
        yield made


def red_question(base: World) -> tuple[str, str]:
    """A question about a document of the red group, and its word."""
    secret = next(s for s in base.secrets if s.allowed == {"group:red"} and s.number % len(KINDS) == KINDS.index("red"))
    return f"What is the keyword of project aster{secret.number}?", secret.word


def search(base: World, headers: dict[str, str], **parameters: str) -> httpx2.Response:
    """Search for a document of the red group."""
    with base.served.client(headers=headers) as client:
        return client.post("/v1/search", json={"query": red_question(base)[0], "top_k": 50}, params=parameters)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


OTHER_TOKEN = create_token()[0]
FORGED: dict[str, Callable[[World], dict[str, str]]] = {
    "no token": lambda _: {},
    "no credentials": lambda _: {"authorization": "Bearer"},
    "unknown token": lambda _: bearer(create_token()[0]),
    "half a token": lambda base: bearer(base.tokens["ann"][:-1]),
    "a token and more": lambda base: bearer(base.tokens["ann"] + "x"),
    "the hash of a token": lambda base: bearer(base.kb.location.access.read().users[0].tokens[0].digest),
    "a token as Basic": lambda base: {"authorization": f"Basic {base.tokens['ann']}"},
    "a token in another header": lambda base: {"x-api-key": base.tokens["ann"]},
    "a name as token": lambda _: bearer("ann"),
    "two tokens": lambda base: bearer(f"{base.tokens['eve']}, {base.tokens['ann']}"),
    "a token with a NUL": lambda base: bearer(base.tokens["ann"][:8] + "%00"),
    "a header without signature": lambda _: {HEADER: "ann"},
    "a header with an empty signature": lambda _: {HEADER: f"{int(time.time())};ann;red;;"},
    "a header with another secret": lambda _: {HEADER: sign("t" * 40, "ann", ["red"])},
    "a header of ten minutes ago": lambda _: {HEADER: sign(SECRET, "ann", ["red"], now=time.time() - 600)},
    "a header of tomorrow": lambda _: {HEADER: sign(SECRET, "ann", ["red"], now=time.time() + 86400)},
    "a header of another base": lambda _: {HEADER: sign(SECRET, "ann", ["red"], "other")},
    "a header with another user": lambda _: {HEADER: sign(SECRET, "eve", []).replace("eve", "ann")},
    "a header with another group": lambda _: {HEADER: sign(SECRET, "eve", ["blue"]).replace("blue", "red")},
    "a header with a group that moves": lambda _: {HEADER: sign(SECRET, "eve", []).replace("eve;", "eve;red")},
    "a name with separators": lambda _: {HEADER: sign(SECRET, "eve;red", [])},
    "a group with a comma": lambda _: {HEADER: sign(SECRET, "eve,red", [";"])},
    "a name with a line break": lambda _: {HEADER: sign(SECRET, "ann%0aeve", [])},
    "a time that is no number": lambda _: {HEADER: sign(SECRET, "ann", ["red"]).replace("1", "x", 1)},
    "a forged header beside a token": lambda base: {**bearer(base.tokens["eve"]), HEADER: sign("t" * 40, "ann")},
    "a token of another base": lambda _: bearer(OTHER_TOKEN),
}


@pytest.mark.parametrize("attack", FORGED)
def test_forged_principals_are_refused(base: World, attack: str) -> None:
    answer = search(base, FORGED[attack](base))
    assert answer.status_code == 401, attack
    assert not any(secret.word in answer.text for secret in base.secrets)


def test_a_signed_header_is_the_user_it_names(base: World) -> None:
    word = red_question(base)[1]
    assert word in search(base, {HEADER: sign(SECRET, "zoe", ["red"])}).text
    assert word not in search(base, {HEADER: sign(SECRET, "zoe", ["blue"])}).text
    # the role is that of the knowledge base, whatever groups the proxy names
    assert search(base, {HEADER: sign(SECRET, "zoe", ["owner", "editor"])}).status_code == 200
    with base.served.client(headers={HEADER: sign(SECRET, "zoe", ["owner"])}) as client:
        assert client.get("/sources").status_code == 403


CLAIMS: dict[str, dict[str, object]] = {
    "a group in the body": {"groups": ["red"]}, "a user in the body": {"user": "ann"}, "an owner": {"role": "owner"},
}  # fmt: skip


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_request_cannot_name_its_rights(base: World, claim: str) -> None:
    question, word = red_question(base)
    with base.client("eve") as client:
        for path, body in (("/v1/search", {"query": question}), ("/chat", {"message": question})):
            assert word not in client.post(path, json={**body, **CLAIMS[claim]}).text
        assert word not in client.post("/chat", json={"message": question}, params={"user": "ann"}).text


WRITES: dict[str, Callable[[httpx2.Client, World], httpx2.Response]] = {
    "upload": lambda client, _: client.post("/documents", params={"name": "a.md"}, content=b"# A\n\ntext"),
    "delete": lambda client, base: client.delete(f"/documents/{base.document_ids[0]}"),
    "index": lambda client, base: client.post(f"/documents/{base.document_ids[0]}/index"),
    "add a source": lambda client, _: client.post("/sources", json={"source": "/etc"}),
    "start a job": lambda client, _: client.post("/jobs", json={"kind": "index"}),
    "list jobs": lambda client, _: client.get("/jobs"),
    "list sources": lambda client, _: client.get("/sources"),
    "metrics": lambda client, _: client.get("/metrics"),
}


@pytest.mark.parametrize("attack", WRITES)
def test_readers_cannot_manage(base: World, attack: str) -> None:
    with base.client("ann") as client:
        answer = WRITES[attack](client, base)
    assert answer.status_code == 403 and not base.leaks("ann", answer.text), answer.text


def test_documents_of_others_do_not_exist(base: World) -> None:
    with base.client("eve") as client:
        for row in reads.list_documents(base.kb, "", 1000)[::3]:
            hidden = bool(base.leaks("eve", row.source))
            for path in ("", "/file", "/html", "/pages/1", "/rectangles?start=0&end=9"):
                answer = client.get(f"/documents/{row.id}{path}")
                assert not base.leaks("eve", answer.text), (row.source, path)
                if hidden and not path:
                    unknown = client.get("/documents/0123456789abcdef")
                    assert answer.status_code == unknown.status_code == 404
        # a table with rows of others cannot be downloaded, though some of its rows may be read
        table = next(row for row in reads.list_documents(base.kb, "", 1000) if "rows.csv" in row.source)
        with base.client("olga") as owner:
            assert owner.get(f"/documents/{table.id}/file").status_code == 200
        assert client.get(f"/documents/{table.id}/file").status_code in (404, 409)


def test_sessions_traces_and_links_are_those_of_their_user(base: World) -> None:
    question, word = red_question(base)
    with base.client("ann") as ann, base.client("bea") as bea, base.client("eve") as eve, base.client("olga") as olga:
        mine = ann.post("/chat", json={"message": question}).json()
        session, trace = mine["session_id"], mine["trace_id"]
        link = ann.post(f"/session/{session}/share").json()["share_id"]
        answer = ann.get(f"/session/{session}").json()["history"][-1]["id"]
        assert word in ann.get(f"/traces/{trace}").text and word in ann.get(f"/shared/{link}").text
        for other in (bea, eve):
            refused = [
                other.get(f"/session/{session}"),
                other.get(f"/session/{session}/export"),
                other.get(f"/session/{session}/suggestions"),
                other.patch(f"/session/{session}", json={"title": "mine"}),
                other.post("/session/end", json={"session_id": session}),
                other.post("/session/stop", json={"session_id": session}),
                other.post(f"/session/{session}/share"),
                other.delete(f"/session/{session}/share"),
                other.get(f"/shared/{link}"),
                other.get(f"/traces/{trace}"),
                other.post("/feedback", json={"message_id": answer, "rating": "down"}),
                other.post("/chat", json={"message": "And what else?", "session_id": session}),
                other.post("/chat", json={"message": "Again", "session_id": session, "replace": trace}),
            ]
            assert [reply.status_code for reply in refused] == [404] * len(refused)
            assert not any(word in reply.text for reply in refused)
            assert session not in other.get("/sessions", params={"q": "keyword"}).text
            assert trace not in other.get("/traces").text + other.get("/traces", params={"session_id": session}).text
        assert base.served.client().get(f"/shared/{link}").status_code == 401
        assert olga.get(f"/session/{session}").status_code == 200  # owners see everything


def test_a_response_is_continued_by_its_user_only(base: World) -> None:
    question, word = red_question(base)
    with base.client("ann") as ann, base.client("eve") as eve:
        first = ann.post("/v1/responses", json={"input": question})
        assert word in first.text
        body = {"input": "What else?", "previous_response_id": first.json()["id"]}
        refused, unknown = (
            eve.post("/v1/responses", json=sent) for sent in (body, {**body, "previous_response_id": "resp_none"})
        )
        assert refused.status_code == 404
        assert refused.json() == unknown.json()
        assert ann.post("/v1/responses", json=body).status_code == 200


def test_an_mcp_session_cannot_be_handed_over(base: World) -> None:
    question, word = red_question(base)
    call = rpc("tools/call", {"name": "search_knowledge_base", "arguments": {"query": question}})
    with base.client("ann") as ann, base.client("eve") as eve:
        session = ann.post("/mcp", json=INITIALIZE, headers=ACCEPT).headers["mcp-session-id"]
        headers = {**ACCEPT, "mcp-session-id": session}
        ann.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
        assert word in ann.post("/mcp", json=call, headers=headers).text
        stolen = eve.post("/mcp", json=call, headers=headers)
        assert stolen.status_code == 404 and word not in stolen.text
        with base.served.client() as nobody:
            assert nobody.post("/mcp", json=call, headers=headers).status_code == 401
        # a revocation holds in sessions that have begun
        before = base.kb.location.access.read()
        base.kb.location.access.update(lambda s: replace(s, users=tuple(u for u in s.users if u.name != "ann")))
        try:
            assert ann.post("/mcp", json=call, headers=headers).status_code == 401
        finally:
            base.kb.location.access.update(lambda _: before)


def test_a_revoked_token_is_refused_at_once(base: World) -> None:
    word = red_question(base)[1]
    assert word in search(base, bearer(base.tokens["ann"])).text  # what it read is in the caches now
    before = base.kb.location.access.read()
    try:
        base.kb.location.access.update(lambda s: replace(s, users=tuple(u for u in s.users if u.name != "ann")))
        assert search(base, bearer(base.tokens["ann"])).status_code == 401
        base.kb.location.access.update(lambda _: before.with_rule("red/**", remove=["group:red"]))
        assert word not in search(base, bearer(base.tokens["ann"])).text
    finally:
        base.kb.location.access.update(lambda _: before)


def test_a_lost_or_broken_file_of_users_opens_nothing(base: World) -> None:
    word = red_question(base)[1]
    path = base.kb.path / "access.json"
    content = path.read_bytes()
    try:
        for broken in (b"", b"{", b"[]", b'{"users": 1, "rules": []}', content.replace(b"reader", b"king")):
            path.write_bytes(broken)
            for headers in (bearer(base.tokens["ann"]), {}, bearer(base.tokens["olga"])):
                answer = search(base, headers)
                assert answer.status_code >= 401 and word not in answer.text
        path.unlink()
        for headers in (bearer(base.tokens["ann"]), {}):
            answer = search(base, headers)
            assert answer.status_code >= 401 and word not in answer.text
        with KnowledgeBase.open(base.kb.path) as other, pytest.raises(KnowledgeBaseDamaged, match="is missing"):
            other.as_user("ann", USERS["ann"]).search("keyword")
    finally:
        draft = path.with_suffix(".new")
        draft.write_bytes(content)
        draft.replace(path)
    assert word in search(base, bearer(base.tokens["ann"])).text


def _replace(new: AccessSettings, _: AccessSettings) -> AccessSettings:
    return new


def test_users_of_one_base_do_not_reach_another(tmp_path: Path) -> None:
    bases, tokens = {}, {}
    for name in ("a", "b"):
        folder = tmp_path / name / "docs"
        folder.mkdir(parents=True)
        (folder / "note.md").write_text(f"# Note\n\nThe lamp of house {name} is in room lamp{name}room.\n")
        bases[name] = KnowledgeBase.open(tmp_path / name / "kb", Pipeline.from_yaml(HASHING))
        bases[name].index(folder)
        tokens[name], digest = create_token()
        with_user = AccessSettings().with_user(User("ann", tokens=(digest,)))
        bases[name].location.access.update(partial(_replace, with_user))
    settings = ServerSettings(port=0)
    served = Served(bases["a"], settings, create_application(bases, settings))
    try:
        with served.client(headers=bearer(tokens["b"])) as client:
            asked = {"query": "Where is the lamp?"}
            assert "lampbroom" in client.post("/kb/b/v1/search", json=asked).text
            assert client.get("/kb/b/bases").json()["bases"] == ["b"]
            refused = [
                client.post("/v1/search", json=asked),
                client.post("/kb/a/v1/search", json=asked),
                client.post("/v1/search", json=asked, params={"kb": "a"}),
                client.post("/kb/b/chat", json={"message": "Where is the lamp?", "model": "ragkit/a"}),
                client.post("/kb/a/mcp", json=INITIALIZE, headers=ACCEPT),
            ]
            call = rpc("tools/call", {"name": "search_knowledge_base", "arguments": {"query": "lamp", "kb": "a"}})
            session = client.post("/mcp", json=INITIALIZE, headers=ACCEPT).headers["mcp-session-id"]
            headers = {**ACCEPT, "mcp-session-id": session}
            client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
            refused.append(client.post("/mcp", json=call, headers=headers))
            assert not any("lamparoom" in reply.text for reply in refused)
            assert [reply.status_code for reply in refused[:4]] == [404] * 4
    finally:
        served.stop()
        for kb in bases.values():
            kb.close()


def test_a_token_expires_and_is_revoked_alone(tmp_path: Path) -> None:
    with world(tmp_path) as base:
        texts: dict[str, str] = {}
        stored = []
        for name, lifetime in (("laptop", 3600.0), ("phone", 3600.0), ("old", 0.0)):
            texts[name], token = create_token(name, lifetime)
            stored.append(token)

        def add(settings: AccessSettings) -> AccessSettings:
            ann = settings.find_user("ann")
            assert ann is not None
            return settings.with_user(replace(ann, tokens=(*ann.tokens, *stored)))

        base.kb.location.access.update(add)
        assert [search(base, bearer(texts[name])).status_code for name in ("laptop", "phone")] == [200, 200]
        expired = search(base, bearer(texts["old"]))
        assert expired.status_code == 401 and expired.headers["www-authenticate"] == "Bearer"
        error = expired.json()["error"]
        assert error["code"] == "token_expired" and "the token 'old' expired on 20" in error["message"]

        def revoke(settings: AccessSettings) -> AccessSettings:
            ann = settings.find_user("ann")
            assert ann is not None
            return settings.with_user(replace(ann, tokens=tuple(t for t in ann.tokens if t.name != "laptop")))

        base.kb.location.access.update(revoke)
        assert search(base, bearer(texts["laptop"])).status_code == 401
        assert search(base, bearer(texts["phone"])).status_code == 200
        assert search(base, bearer(base.tokens["ann"])).status_code == 200


def test_an_answer_that_runs_ends_with_its_token(tmp_path: Path) -> None:
    _, token = create_token("laptop")
    ann, store = User("ann", tokens=(token,)), AccessFile(tmp_path)
    store.update(lambda settings: settings.with_user(ann))
    reset = CURRENT.set(Principal("user:ann@", "reader", "", token=token.digest))
    try:
        assert current_grants("", store) == ann.grants
        store.update(lambda settings: settings.with_user(replace(ann, tokens=(replace(token, expires=1.0),))))
        with pytest.raises(RequestRejected, match="the token 'laptop' expired on 1970-01-01"):
            current_grants("", store)
        store.update(lambda settings: settings.with_user(replace(ann, tokens=())))
        with pytest.raises(RequestRejected, match="the access of this token was revoked"):
            current_grants("", store)
    finally:
        CURRENT.reset(reset)

"""What a user sees of what was answered before, and of what is being answered, follows the rights of the moment."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.routing import APIRoute

from ragkit.agent.providers.base import Provider
from ragkit.cli.commands.serve import create_application
from ragkit.index.access.rules import AccessSettings, User
from ragkit.index.access.tokens import create_token
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.server.app import ROUTERS
from ragkit.server.settings import ServerSettings
from ragkit.server.state.rights_filter import HIDDEN
from tests.server.access_parts import HASHING, rpc
from tests.server.parts import KnowledgeBaseWithProvider, Served
from tests.server.slow_narrator import SlowNarrator

PLANS = "The ocelots move into the new house in June."
OPEN = "The hedge of the house is cut in August."
ACCEPT = {"accept": "application/json, text/event-stream"}


@dataclass
class House:
    """A served knowledge base of two documents; bob, ann and the owner olga are its users."""

    folder: Path
    kb: KnowledgeBaseWithProvider
    served: Served
    tokens: dict[str, str]

    def client(self, user: str) -> httpx2.Client:
        """A client of a user."""
        return self.served.client(headers={"authorization": f"Bearer {self.tokens[user]}"})

    def write(self, access: str = "", name: str = "plans.md", text: str = PLANS) -> None:
        """Write a document, and index the folder with another instance, as another process does."""
        front = f"---\naccess: {access}\n---\n" if access else ""
        (self.folder / name).write_text(f"{front}# Plans\n\n{text}\n")
        with KnowledgeBase(self.kb.location.reopen(), self.kb.pipeline, self.kb.components) as writer:
            writer.index(self.folder)

    def change_user(self, name: str, *groups: str) -> None:
        """Give a user groups."""

        def change(settings: AccessSettings) -> AccessSettings:
            user = settings.find_user(name)
            assert user is not None
            return settings.with_user(replace(user, groups=groups))

        self.kb.location.access.update(change)

    def revoke(self, name: str) -> None:
        """Remove a user."""
        self.kb.location.access.update(lambda s: replace(s, users=tuple(user for user in s.users if user.name != name)))


def open_house(stack: ExitStack, folder: Path, place: str | Path, provider: Provider | None) -> House:
    kb = stack.enter_context(KnowledgeBaseWithProvider.open(place, Pipeline.from_yaml(HASHING)))
    kb.provider = provider
    docs = folder / "docs"
    docs.mkdir(exist_ok=True)
    (docs / "garden.md").write_text(f"# Garden\n\n{OPEN}\n")
    (docs / "plans.md").write_text(f"# Plans\n\n{PLANS}\n")
    kb.index(docs)
    settings, tokens = AccessSettings(), {}
    for name, role in (("ann", "reader"), ("bob", "reader"), ("olga", "owner")):
        tokens[name], digest = create_token()
        settings = settings.with_user(User(name, ("staff",), role, (digest,)))  # type: ignore[arg-type]
    kb.location.access.update(lambda _: settings)
    return House(docs, kb, serve(stack, kb), tokens)


def serve(stack: ExitStack, kb: KnowledgeBaseWithProvider) -> Served:
    settings = ServerSettings(port=0)
    served = Served(kb, settings, create_application({"": kb}, settings))
    stack.callback(served.stop)
    return served


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Answers are quoted, without a model."""
    with ExitStack() as stack:
        yield open_house(stack, tmp_path, tmp_path / "kb", None)


@pytest.fixture
def narrated(tmp_path: Path) -> Iterator[House]:
    """Answers are told slowly by a model."""
    with ExitStack() as stack:
        yield open_house(stack, tmp_path, tmp_path / "kb", SlowNarrator(200, "ocelots house"))


def ask(
    client: httpx2.Client, question: str = "What moves in June, and when is the hedge of the house cut?"
) -> dict[str, Any]:
    answer: dict[str, Any] = client.post("/chat", json={"message": question}).json()
    return answer


def everything_of(client: httpx2.Client, answer: dict[str, Any], link: str) -> dict[str, str]:
    """What each route that shows stored answers says of one, by route."""
    session, trace = answer["session_id"], answer["trace_id"]
    feedback = {"message_id": answer["message"]["id"], "rating": "up"}
    return {
        "GET /session/{session_id}": client.get(f"/session/{session}").text,
        "GET /session/{session_id}/export": client.get(f"/session/{session}/export").text
        + client.get(f"/session/{session}/export?format=markdown").text,
        "GET /session/{session_id}/suggestions": client.get(f"/session/{session}/suggestions").text,
        "PATCH /session/{session_id}": client.patch(f"/session/{session}", json={"title": "Talk"}).text,
        "GET /sessions": client.get("/sessions").text,
        "GET /traces": client.get("/traces").text,
        "GET /traces/{trace_id}": client.get(f"/traces/{trace}").text,
        "GET /shared/{share_id}": client.get(f"/shared/{link}").text,
        "POST /session/{session_id}/share": client.post(f"/session/{session}/share").text,
        "POST /feedback": client.post("/feedback", json=feedback).text,
        "POST /session/start": client.post("/session/start").text,
        "POST /session/stop": client.post("/session/stop", json={"session_id": session}).text,
        "POST /session/end": client.post("/session/end", json={"session_id": session}).text,
        "DELETE /session/{session_id}/share": client.delete(f"/session/{session}/share").text,
    }


SHOW_TEXT = {"GET /session/{session_id}", "GET /session/{session_id}/export", "GET /traces/{trace_id}",
             "GET /shared/{share_id}", "POST /feedback"}  # fmt: skip
OTHER_ROUTES = {
    "POST /chat", "GET /suggestions", "GET /folders", "GET /status", "GET /documents", "GET /documents/{document_id}",
    "POST /v1/search", "POST /v1/embeddings", "POST /v1/chat/completions", "POST /v1/completions",
    "POST /v1/responses", "POST /v1/rerank", "GET /v1/models",
    "GET /v1/models/{model:path}",
    "GET /bases", "POST /bases", "PATCH /bases/{name}", "DELETE /bases/{name}",
    "GET /labels", "GET /access", "POST /access/users", "PATCH /access/users/{user}",
    "DELETE /access/users/{user}", "POST /access/users/{user}/tokens", "DELETE /access/users/{user}/tokens/{name}",
    "GET /settings", "GET /health", "GET /ready", "GET /metrics", "GET /documents/{document_id}/rectangles",
    "GET /documents/{document_id}/pages/{page}", "GET /documents/{document_id}/html",
    "GET /documents/{document_id}/file", "GET /documents/{document_id}/find", "POST /documents",
    "GET /documents/{document_id}/overview",
    "DELETE /documents/{document_id}",
    "POST /documents/{document_id}/index", "GET /sources", "POST /sources", "DELETE /sources/{source_id}", "POST /jobs",
    "GET /jobs", "GET /jobs/{job_id}", "GET /jobs/{job_id}/events", "POST /jobs/{job_id}/cancel",
    "POST /jobs/{job_id}/resume",
}  # fmt: skip
"""Routes that show documents as they are, or nothing of them."""


def test_an_unrelated_grant_a_gained_and_a_lost_group_leave_a_user_the_sessions(house: House) -> None:
    with house.client("ann") as ann, house.client("bob") as bob:
        answer = ask(ann)
        link = ann.post(f"/session/{answer['session_id']}/share").json()["share_id"]
        for change in (
            lambda: house.kb.location.access.update(lambda s: s.with_rule("zzz/**", ["group:ops"])),
            lambda: house.change_user("ann", "staff", "board"),
            lambda: house.change_user("ann"),
        ):
            change()
            assert answer["session_id"] in [row["id"] for row in ann.get("/sessions").json()["sessions"]]
            for route, text in everything_of(ann, answer, link).items():
                assert ("ocelots" in text or route not in SHOW_TEXT) and HIDDEN not in text, route
            link = ann.post(f"/session/{answer['session_id']}/share").json()["share_id"]
            assert bob.get(f"/session/{answer['session_id']}").status_code == 404


@pytest.mark.parametrize("loss", ["front matter", "rule", "group", "deleted"])
def test_what_is_lost_is_blanked_on_every_route_and_the_rest_stays(house: House, loss: str) -> None:
    house.kb.location.access.update(lambda s: s.with_rule("plans.md", ["group:staff"]))
    with house.client("ann") as ann, house.client("olga") as olga:
        answer = ask(ann)
        assert {c["n"] for c in answer["message"]["citations"]} >= {1, 2}, answer
        link = ann.post(f"/session/{answer['session_id']}/share").json()["share_id"]
        if loss == "front matter":
            house.write("[bob]")
        elif loss == "rule":
            house.kb.location.access.update(lambda s: s.with_rule("plans.md", ["user:bob"], ["group:staff"]))
        elif loss == "group":
            house.change_user("ann")
        else:
            (house.folder / "plans.md").unlink()
            with KnowledgeBase(house.kb.location.reopen(), house.kb.pipeline, house.kb.components) as writer:
                writer.index(house.folder)
        for route, text in everything_of(ann, answer, link).items():
            assert "ocelots" not in text and "plans.md" not in text, (route, text)
            assert HIDDEN in text or route not in SHOW_TEXT, (route, text)
        message = ann.get(f"/session/{answer['session_id']}").json()["history"][1]
        assert "The hedge of the house is cut in August." in message["content"]
        assert message["usage"] and {c["source"] for c in message["citations"]} > {HIDDEN}
        assert ann.get("/sessions", params={"q": "june"}).json()["sessions"], "the title holds it"
        assert not ann.get("/sessions", params={"q": "ocelots"}).json()["sessions"]
        assert ann.get("/sessions", params={"q": "august"}).json()["sessions"]
        assert "ocelots" in olga.get(f"/session/{answer['session_id']}").text


@pytest.mark.parametrize(
    "question",
    [
        "How many documents are there?",
        "Which documents mention the house?",
        "Summarize plans.md",
        "What is plan.md about?",
    ],
)
def test_names_and_counts_of_whole_documents_are_blanked_when_one_is_lost(house: House, question: str) -> None:
    with house.client("ann") as ann:
        answer = ask(ann, question)
        assert "plans.md" in answer["response"] or "ocelots" in answer["response"]
        house.write("[bob]")
        stored = ann.get(f"/session/{answer['session_id']}").json()["history"][1]["content"]
        assert "plans.md" not in stored and "ocelots" not in stored and HIDDEN in stored


def test_every_route_is_known_to_show_stored_answers_or_not(house: House) -> None:
    routes = {
        f"{method} {route.path}"
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    with house.client("ann") as ann:
        answer = ask(ann)
        link = ann.post(f"/session/{answer['session_id']}/share").json()["share_id"]
        known = set(everything_of(ann, answer, link)) | OTHER_ROUTES
    assert routes == known


def test_a_document_that_may_be_read_again_is_shown_again(house: House) -> None:
    with house.client("ann") as ann:
        answer = ask(ann)
        house.write("[bob]")
        house.write("[bob, ann]")
        assert "ocelots" in ann.get(f"/session/{answer['session_id']}").text
        house.write("", text="The otters stay.")
        assert "ocelots" in ann.get(f"/session/{answer['session_id']}").text, "replaced: read before, and still open"


def test_a_version_that_others_alone_could_read_stays_theirs_when_it_is_replaced(house: House) -> None:
    house.write("[group:staff]")
    with house.client("ann") as ann:
        answer = ask(ann)
        house.change_user("ann")
        house.write("everyone", text="Nothing is planned.")
        assert "ocelots" not in ann.get(f"/session/{answer['session_id']}").text


def test_a_follow_up_question_is_asked_without_the_lost_text(tmp_path: Path) -> None:
    narrator = SlowNarrator(2, "ocelots house")
    with ExitStack() as stack:
        house = open_house(stack, tmp_path, tmp_path / "kb", narrator)
        with house.client("ann") as ann:
            session = ask(ann, "What moves?")["session_id"]
            house.write("[bob]")
            narrator.requests.clear()
            ann.post("/chat", json={"message": "And then?", "session_id": session})
    told = "\n".join(message.content for request in narrator.requests for message in request.messages)
    assert "What moves?" in told and "ocelots" not in told


def test_a_search_of_sessions_and_a_repeated_history_are_no_oracle(house: House) -> None:
    with house.client("ann") as ann:
        answer = ask(ann, "What moves in June?")
        session, text = answer["session_id"], answer["response"]
        house.write("[bob]")
        for guess in ("ocelots", "the ocelots move", text.lower()[:40]):
            assert ann.get("/sessions", params={"q": guess}).json() == {"sessions": [], "next": None}
        history = [{"role": "user", "content": "What moves in June?"}]
        sizes = []
        for guess in (text, "It is not known."):
            messages = [*history, {"role": "assistant", "content": guess}, {"role": "user", "content": "Why?"}]
            before = ann.get(f"/session/{session}").json()["message_count"]
            ann.post("/chat", json={"messages": messages, "session_id": session})
            sizes.append(ann.get(f"/session/{session}").json()["message_count"] - before)
        assert sizes[0] == sizes[1]


def read_texts(response: httpx2.Response, texts: list[tuple[float, str]]) -> None:
    """Note each line of a stream with its time."""
    try:
        for line in response.iter_lines():
            texts.append((time.monotonic(), line))
    except httpx2.TransportError:
        texts.append((time.monotonic(), "cut off"))


def wait_until_told(house: House) -> None:
    """Wait until the model has the passages, and tells them."""
    assert isinstance(house.kb.provider, SlowNarrator)
    deadline = time.monotonic() + 20
    while len(house.kb.provider.requests) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)


STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/chat", {"message": "What moves?", "stream": True}),
    "v1": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "What moves?"}], "stream": True}),
}


def lose_rights(house: House, how: str) -> None:
    if how == "user":
        house.revoke("bob")
    elif how == "token":
        other = create_token()[1]
        house.kb.location.access.update(lambda s: s.with_user(User("bob", ("staff",), "reader", (other,))))
    elif how == "rule":
        house.kb.location.access.update(lambda s: s.with_rule("plans.md", ["user:ann"]))
    else:
        house.write("[ann]")


def stream_and_lose(house: House, stream: str, how: str, client: httpx2.Client) -> None:
    """Streams an answer, takes the rights away after the first words, and checks what comes afterwards."""
    path, body = STREAMS[stream]
    lines: list[tuple[float, str]] = []
    with client.stream("POST", path, json=body) as response:
        reader = threading.Thread(target=read_texts, args=(response, lines))
        reader.start()
        deadline = time.monotonic() + 20
        while sum("ocelots" in line for _, line in lines) < 4:
            assert time.monotonic() < deadline, lines
            time.sleep(0.01)
        lose_rights(house, how)
        lost_at = time.monotonic()
        reader.join(20)
    assert not reader.is_alive()
    last_text = max(at for at, line in lines if "ocelots" in line)
    assert last_text - lost_at < 1 and lines[-1][0] - lost_at < 1, (last_text - lost_at, lines[-1])
    assert any("access_revoked" in line for _, line in lines)
    assert not any("199: " in line for _, line in lines)


@pytest.mark.parametrize("how", ["user", "token", "rule", "front matter"])
@pytest.mark.parametrize("stream", STREAMS)
def test_lost_rights_end_a_running_stream_within_a_second(narrated: House, stream: str, how: str) -> None:
    with narrated.client("bob") as bob:
        stream_and_lose(narrated, stream, how, bob)


@pytest.mark.parametrize("how", ["user", "rule"])
def test_lost_rights_end_streams_of_another_server_within_a_second(
    database_url: str, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        house = open_house(stack, tmp_path, database_url, SlowNarrator(200, "ocelots house"))
        monkeypatch.setenv("RAGKIT_CACHE", str(tmp_path / "cache of the other"))
        kb = stack.enter_context(KnowledgeBaseWithProvider.open(database_url))
        kb.provider = SlowNarrator(200, "ocelots house")
        other = serve(stack, kb)
        with other.client(headers={"authorization": f"Bearer {house.tokens['bob']}"}) as bob:
            stream_and_lose(house, "chat", how, bob)


@pytest.mark.parametrize("how", ["user", "rule"])
def test_lost_rights_end_an_answer_over_mcp(tmp_path: Path, how: str) -> None:
    with ExitStack() as stack:
        house = open_house(stack, tmp_path, tmp_path / "kb", SlowNarrator(60, "ocelots house"))
        bob = stack.enter_context(house.client("bob"))
        start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        session = bob.post("/mcp", json=rpc("initialize", start), headers=ACCEPT).headers["mcp-session-id"]
        headers = {**ACCEPT, "mcp-session-id": session}
        bob.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
        call = rpc("tools/call", {"name": "ask", "arguments": {"question": "What moves?"}})
        found: list[str] = []

        def run() -> None:
            try:
                found.append(bob.post("/mcp", json=call, headers=headers).text)
            except httpx2.TransportError:
                found.append("cut off")

        thread = threading.Thread(target=run)
        thread.start()
        wait_until_told(house)
        lose_rights(house, how)
        lost_at = time.monotonic()
        thread.join(20)
        assert "ocelots" not in found[0]
        assert how == "rule" or time.monotonic() - lost_at < 1


def test_an_answer_that_is_no_stream_ends_with_an_error_when_its_user_is_revoked(narrated: House) -> None:
    with narrated.client("bob") as bob:
        lost_at: list[float] = []

        def revoke() -> None:
            wait_until_told(narrated)
            narrated.revoke("bob")
            lost_at.append(time.monotonic())

        threading.Thread(target=revoke).start()
        answer = bob.post("/chat", json={"message": "What moves?"})
        assert answer.status_code == 403 and answer.json()["error"]["code"] == "access_revoked"
        assert time.monotonic() - lost_at[0] < 1 and "ocelots" not in answer.text
    with narrated.client("olga") as olga:
        [session] = olga.get("/sessions").json()["sessions"]
        deadline = time.monotonic() + 10
        while (last := olga.get(f"/session/{session['id']}").json()["history"][-1])["status"] == "running":
            assert time.monotonic() < deadline, "the answer of a revoked user runs for ever"
            time.sleep(0.1)
        assert (last["status"], last["error"]["code"]) == ("error", "access_revoked")
        trace = olga.get(f"/traces/{last['trace_id']}").json()
        assert (trace["status"], trace["error"]) == ("error", last["error"]["message"])


def test_the_state_of_an_earlier_version_keeps_its_sessions_and_their_owners(house: House, tmp_path: Path) -> None:
    with house.client("ann") as ann, house.client("bob") as bob:
        mine, other = ask(ann, "What moves in June?"), ask(bob, "When is the hedge cut?")
    house.served.stop()
    with closing(sqlite3.connect(house.kb.path / "server.sqlite")) as connection:
        keys = {"user:ann": "user:ann 0123456789abcdef", "user:bob": "user:bob fedcba9876543210"}
        connection.execute("CREATE TABLE owners (id TEXT PRIMARY KEY, owner TEXT NOT NULL)")
        for table in ("sessions", "traces"):
            rows = connection.execute(f"SELECT id, owner FROM {table}").fetchall()
            connection.executemany("INSERT INTO owners VALUES (?, ?)", [(one, keys[owner]) for one, owner in rows])
        connection.execute("DROP INDEX sessions_by_owner")
        for table, column in (
            ("sessions", "owner"),
            ("sessions", "bytes"),
            ("sessions", "labels"),
            ("sessions", "note"),
            ("traces", "owner"),
            ("suspended", "owner"),
        ):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        for identity, detail in connection.execute("SELECT id, detail FROM messages").fetchall():
            old = {key: value for key, value in json.loads(detail).items() if key != "origins"}
            connection.execute("UPDATE messages SET detail = ? WHERE id = ?", (json.dumps(old), identity))
        connection.execute("PRAGMA user_version = 4")
        connection.commit()
    with ExitStack() as stack:
        house.served = serve(stack, house.kb)
        with house.client("ann") as ann, house.client("bob") as bob:
            assert [row["id"] for row in ann.get("/sessions").json()["sessions"]] == [mine["session_id"]]
            assert bob.get(f"/session/{mine['session_id']}").status_code == 404
            assert "hedge" in bob.get(f"/session/{other['session_id']}").text
            assert "ocelots" in ann.get(f"/session/{mine['session_id']}").text
            house.kb.location.access.update(lambda s: s.with_rule("plans.md", ["user:bob"]))
            assert "ocelots" not in ann.get(f"/session/{mine['session_id']}").text

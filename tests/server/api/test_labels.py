"""Labels and notes belong to a session: whoever may read it sees them, and a link shows neither."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ragkit.server.state.database import StateDatabase
from tests.server.api.test_administration import ROLES, SETTINGS, House, open_house
from tests.server.api.test_limits import code_of
from tests.server.parts import serving

LABEL, NOTE = "zoo-plans", "Ask Maren about the okapi."


def annotated(house: House, who: str) -> str:
    """A session of a user with a label and a note."""
    session: str = house.send(who, "POST", "/chat", {"message": "When is the hedge cut?"}).json()["session_id"]
    answer = house.send(who, "PATCH", f"/session/{session}", {"labels": [LABEL, LABEL], "note": NOTE})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["labels"], answer.json()["note"]) == ([LABEL], NOTE)
    return session


def test_they_are_seen_by_those_who_may_read_the_session_and_by_no_link(base: Path) -> None:
    with open_house(base, SETTINGS, {**ROLES, "bob": "reader"}) as house:
        session = annotated(house, "ann")
        link = house.send("ann", "POST", f"/session/{session}/share").json()["share_id"]
        paths = (f"/session/{session}", f"/session/{session}/export", f"/session/{session}/export?format=markdown",
                 "/sessions", f"/sessions?label={LABEL}", "/sessions?q=OKAPI")  # fmt: skip
        for who in ("ann", "olga"):
            for path in paths:
                assert "okapi" in house.send(who, "GET", path).text, (who, path)
            assert house.send(who, "GET", "/labels").json() == {"labels": [{"label": LABEL, "sessions": 1}]}
        for who in ("bob", "eve", ""):
            for path in (*paths, "/labels", f"/shared/{link}"):
                shown = house.send(who, "GET", path).text
                assert "okapi" not in shown and LABEL not in shown, (who, path)
            refused = house.send(who, "PATCH", f"/session/{session}", {"note": "mine now", "labels": []})
            assert code_of(refused) == ((404, "session_not_found") if who else (401, "invalid_api_key"))
        for who in ("ann", "olga"):
            shared = house.send(who, "GET", f"/shared/{link}")
            assert shared.status_code == 200 and "okapi" not in shared.text and LABEL not in shared.text
        assert house.send("ann", "GET", f"/session/{session}").json()["note"] == NOTE


def test_a_link_on_a_server_without_users_shows_neither(base: Path) -> None:
    with open_house(base, roles={}) as house:
        session = annotated(house, "")
        link = house.send("", "POST", f"/session/{session}/share").json()["share_id"]
        shared = house.send("", "GET", f"/shared/{link}").json()
        assert set(shared) == {"title", "updated", "history"} and "okapi" not in str(shared)


def test_each_is_changed_alone_and_exports_have_them(base: Path) -> None:
    with serving(base) as (_, client):
        session = client.post("/chat", json={"message": "When is the hedge cut?"}).json()["session_id"]
        client.patch(f"/session/{session}", json={"labels": ["a b", "c"], "note": "One\ntwo"})
        renamed = client.patch(f"/session/{session}", json={"title": "Hedge"}).json()
        assert (renamed["title"], renamed["labels"], renamed["note"]) == ("Hedge", ["a b", "c"], "One\ntwo")
        lines = client.get(f"/session/{session}/export", params={"format": "markdown"}).text.splitlines()
        assert lines[0] == "# Hedge" and {"Labels: a b, c", "> One", "> two"} <= set(lines)
        exported = client.get(f"/session/{session}/export").json()
        assert (exported["labels"], exported["note"]) == (["a b", "c"], "One\ntwo")
        answer = client.post("/chat", json={"message": "And the lawn?", "session_id": session}).json()
        assert answer["session"]["labels"] == ["a b", "c"]
        cleared = client.patch(f"/session/{session}", json={"labels": [], "note": ""}).json()
        assert (cleared["labels"], cleared["note"], cleared["title"]) == ([], "", "Hedge")
        assert client.get("/labels").json() == {"labels": []}
        text = client.get(f"/session/{session}/export", params={"format": "markdown"}).text
        assert "Labels:" not in text and "\n>" not in text


@pytest.mark.parametrize("body", [{"labels": ["x" * 51]}, {"labels": ["x"] * 21}, {"note": "x" * 4001}, {"label": "x"}])
def test_limits_are_kept(base: Path, body: dict[str, Any]) -> None:
    with serving(base) as (_, client):
        session = client.post("/session/start").json()["id"]
        assert client.patch(f"/session/{session}", json=body).status_code == 400
        kept = client.get(f"/session/{session}").json()
        assert (kept["labels"], kept["note"]) == ([], "")


def test_their_bytes_count_to_those_of_the_conversation(base: Path) -> None:
    def size(identity: str) -> int:
        state = StateDatabase(base)
        try:
            query = "SELECT bytes FROM sessions WHERE id = ?"
            return int(asyncio.run(state.run(lambda c: c.execute(query, (identity,)).fetchone()[0])))
        finally:
            state.close()

    with serving(base) as (_, client):
        session = client.post("/chat", json={"message": "When is the hedge cut?"}).json()["session_id"]
        empty = client.post("/session/start").json()["id"]
        before = size(session)
        client.patch(f"/session/{session}", json={"note": "x" * 4000})
        assert size(session) == before + 4000
        client.patch(f"/session/{session}", json={"note": ""})
        assert size(session) == before
        client.patch(f"/session/{empty}", json={"note": "x" * 4000})
        assert size(empty) == 0, "it counts among the sessions without messages"

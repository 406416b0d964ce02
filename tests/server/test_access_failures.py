"""A document whose field `access` is damaged: what a server shows of it, and to whom."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx2

from ragkit.index.access.rules import AccessSettings, User
from ragkit.index.access.tokens import create_token
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests.server.parts import SECONDS, serving

PIPELINE = Pipeline.from_yaml("embed: {name: hashing, dimension: 16}\n")


def finished(client: httpx2.Client, job: str) -> dict[str, Any]:
    """A job at its end."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found: dict[str, Any] = client.get(f"/jobs/{job}").json()
        if found["status"] not in ("queued", "running"):
            return found
        time.sleep(0.05)
    raise AssertionError("the job does not end")


def test_an_upload_with_damaged_front_matter_is_reported_and_for_owners_only(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Garden\n\nThe hedge is cut in May.\n")
    tokens = {name: create_token() for name in ("olga", "bob", "alice")}
    with KnowledgeBase.open(tmp_path / "kb", PIPELINE) as kb:
        kb.index(tmp_path / "a.md")
        users = tuple(User(name, (), "owner" if name == "olga" else "reader", (digest,))
                      for name, (_, digest) in tokens.items())  # fmt: skip
        kb.location.access.update(lambda _: AccessSettings(users))
    plans = {
        "colon.md": ("title: Plans: the house\naccess: [bob]", {"olga", "bob"}),
        "board.md": ("access: @board", {"olga"}),
        "twice.md": ("access: [bob]\naccess: [bob]", {"olga"}),
        "broken.md": ("title: a: b", {"olga"}),
        "good.md": ("access: [bob]", {"olga", "bob"}),
        "open.md": ("title: Plans", {"olga", "bob", "alice"}),
    }
    with serving(tmp_path / "kb") as (_, client):
        headers = {name: {"authorization": f"Bearer {token}"} for name, (token, _) in tokens.items()}
        client.headers.update(headers["olga"])
        failed: dict[str, str] = {}
        for name, (head, _) in plans.items():
            plan = f"---\n{head}\n---\nThe {name[:-3]} okapi.\n".encode()
            sent = client.post("/documents", params={"name": name}, content=plan)
            job = finished(client, sent.json()["job"]["id"])
            assert job["status"] == "done"
            failed |= {Path(failure["source"]).name: failure["error"] for failure in job["failures"]}
        assert failed.keys() == {"colon.md", "board.md", "twice.md", "broken.md"}
        assert failed["twice.md"] == "line 2: `access` is given more than once: only owners may read it"
        shown = {Path(row["source"]).name for row in client.get("/status").json()["failures"]}
        assert shown == failed.keys()
        for user, sent_by in headers.items():
            asked = {"query": "okapi", "top_k": 50, "mode": "lexical"}
            found = client.post("/v1/search", json=asked, headers=sent_by)
            names = {Path(hit["source"]).name for hit in found.json()["hits"]}
            assert names == {name for name, (_, readers) in plans.items() if user in readers}, user
            assert all("access" not in hit["text"] for hit in found.json()["hits"])
            if user != "olga":
                assert client.get("/status", headers=sent_by).json()["failures"] == []

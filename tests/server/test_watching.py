"""`ragkit serve --watch`: files that change are indexed without being asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.server.settings import ServerSettings
from tests.server.parts import SECONDS, serving

WATCHED = ServerSettings(watch_seconds=0.2)


def index(base: Path) -> Path:
    """A folder with one file, indexed."""
    folder = base.parent / "pond"
    folder.mkdir()
    (folder / "newt.md").write_text("# Newt\n\nThe newt lives in the pond.\n")
    with KnowledgeBase.open(base) as kb:
        kb.index(folder)
    return folder


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def jobs_of(client: httpx2.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/jobs").json()["jobs"]
    return found


def titles(client: httpx2.Client, question: str) -> list[str]:
    hits = client.post("/v1/search", json={"query": question, "mode": "lexical"}).json()["hits"]
    return [Path(hit["source"]).name for hit in hits]


def test_new_changed_and_deleted_files_are_indexed(base: Path) -> None:
    folder = index(base)
    with serving(base, settings=WATCHED) as (_, client):
        time.sleep(1)
        assert jobs_of(client) == []
        (folder / "heron.md").write_text("# Heron\n\nThe heron eats frogs.\n")
        wait_for(lambda: titles(client, "heron frogs") == ["heron.md"])
        (folder / "newt.md").write_text("# Newt\n\nThe newt moved to the ditch.\n")
        wait_for(lambda: titles(client, "ditch") == ["newt.md"])
        (folder / "heron.md").unlink()
        wait_for(lambda: titles(client, "heron frogs") == [])
        wait_for(lambda: {job["status"] for job in jobs_of(client)} == {"done"})


def test_a_change_that_a_job_could_not_end_is_not_tried_again_and_again(base: Path) -> None:
    folder = index(base)
    with serving(base, settings=WATCHED) as (_, client):
        (folder / "broken.docx").write_bytes(b"PK\x03\x04 this is no archive")
        wait_for(lambda: any(job["failures"] for job in jobs_of(client)))
        time.sleep(1.5)
        assert len(jobs_of(client)) <= 2


def test_a_server_without_the_option_does_not_look(base: Path) -> None:
    folder = index(base)
    with serving(base) as (_, client):
        (folder / "heron.md").write_text("# Heron\n\nThe heron eats frogs.\n")
        time.sleep(1.5)
        assert jobs_of(client) == []


def test_an_idle_server_embeds_what_has_no_vector_yet(tmp_path: Path) -> None:
    (tmp_path / "newt.md").write_text("# Newt\n\nThe newt lives in the pond.\n")
    base = tmp_path / "kb"

    def embedded() -> int:
        with KnowledgeBase.open(base) as kb:
            return kb.status().embedded

    with KnowledgeBase.open(base) as kb:
        kb.index(tmp_path / "newt.md", options=IndexOptions(searchable_first=True, wait=False))
    assert embedded() == 0
    with serving(base) as (_, client):
        assert titles(client, "newt") == ["newt.md"]
        wait_for(lambda: embedded() == 1)
        hits = client.post("/v1/search", json={"query": "Where does the newt live?"}).json()["hits"]
    assert [Path(hit["source"]).name for hit in hits] == ["newt.md"]

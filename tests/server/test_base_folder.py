"""The owner of a server makes, renames and deletes knowledge bases; the server starts again on the same socket."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner

from ragkit.cli import cli
from ragkit.errors import InvalidOption, KnowledgeBaseDamaged
from ragkit.index.access.rules import User
from ragkit.index.access.tokens import create_token
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.server.base_folder import BaseFolder
from tests.server.api.test_limits import code_of
from tests.server.parts import SECONDS, Process, process, serving

FIRST, SECOND = "the-first-token-of-the-server", "the-second-token-of-the-server"
TEA = b"# Tea\n\nGreen tea steeps for two minutes.\n"


def wait_for(check: Callable[[], bool]) -> None:
    """Until something holds; a server that starts again may refuse a connection once."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            if check():
                return
        except httpx2.TransportError:
            pass
        assert time.monotonic() < deadline, "the server does not start again"
        time.sleep(0.1)


def names(client: httpx2.Client) -> list[str]:
    found: list[str] = client.get("/bases").json().get("bases", [])
    return found


def start(folder: Path, **env: str) -> AbstractContextManager[Process]:
    """A server over the folder, with a pipeline that needs no model."""
    (folder.parent / "ragkit.yaml").write_text("embed: {name: hashing, dimension: 64}\n")
    return process(folder, "--kb-folder", str(folder), env=env)


def test_names_and_directories(tmp_path: Path) -> None:
    folder = BaseFolder(tmp_path / "bases")
    assert folder.open() == {"main": tmp_path / "bases" / "main"}
    folder.make("manuals")
    (tmp_path / "bases" / "manuals" / "kept").touch()
    folder.rename("manuals", "old")
    folder.make("manuals")
    again = BaseFolder(tmp_path / "bases").open()
    assert list(again) == ["main", "old", "manuals"]
    assert (again["old"] / "kept").exists() and again["manuals"] != again["old"]
    folder.delete("old")
    assert (again["old"] / "kept").exists(), "the running server uses it"
    assert list(BaseFolder(tmp_path / "bases").open()) == ["main", "manuals"]
    assert not again["old"].exists() and again["manuals"].exists()


@pytest.mark.parametrize("name", ["", "A", "a b", "../a", "-a", "x" * 41, "main"])
def test_a_name_is_valid_and_new(tmp_path: Path, name: str) -> None:
    folder = BaseFolder(tmp_path)
    folder.open()
    changes: list[Callable[[], None]] = [lambda: folder.make(name), lambda: folder.rename("main", name)]
    for change in changes:
        with pytest.raises(InvalidOption, match=r"small letters|a new name: there are main"):
            change()
    with pytest.raises(InvalidOption, match="the last one stays"):
        folder.delete("main")
    assert folder.names() == ["main"] and not folder.changed


@pytest.mark.parametrize(
    "text", ["", "[]", '{"bases": {}, "deleted": []}', '{"bases": {"a": "../b"}, "deleted": []}',
             '{"bases": {"a": "a"}, "deleted": ["/"]}', '{"bases": {"a": 1}, "deleted": []}'],
)  # fmt: skip
def test_a_damaged_file_of_names_deletes_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "names.json").write_text(text)
    (tmp_path / "a").mkdir()
    with pytest.raises(KnowledgeBaseDamaged, match="does not hold names of knowledge bases"):
        BaseFolder(tmp_path).open()
    assert (tmp_path / "a").exists()


def test_the_server_starts_again_with_the_names_and_keeps_what_was_stored(tmp_path: Path) -> None:
    folder = tmp_path / "bases"
    with start(folder) as server:
        identity = server.process.pid
        with server.client() as client:
            assert client.get("/bases").json() == {"bases": ["main"], "current": "main", "managed": True}
            made = client.post("/bases", json={"name": "manuals"})
            assert made.json()["bases"] == ["main", "manuals"]
            assert code_of(client.post("/bases", json={"name": "third"})) == (503, "overloaded")
            wait_for(lambda: names(client) == ["main", "manuals"])
            uploaded = client.post("/kb/manuals/documents", params={"name": "tea.md"}, content=TEA).json()["job"]["id"]
            wait_for(lambda: client.get(f"/kb/manuals/jobs/{uploaded}").json()["status"] == "done")
            answer = client.post("/kb/manuals/chat", json={"message": "How long does green tea steep?"}).json()
            session = answer["session_id"]

            assert client.patch("/bases/manuals", json={"name": "kitchen"}).status_code == 200
            wait_for(lambda: names(client) == ["main", "kitchen"])
            assert client.get(f"/kb/kitchen/session/{session}").json()["history"]
            [document] = client.get("/kb/kitchen/documents").json()["documents"]
            assert document["source"].endswith("uploads/tea.md")
            job = client.post("/kb/kitchen/jobs").json()["id"]
            wait_for(lambda: client.get(f"/kb/kitchen/jobs/{job}").json()["status"] == "done")
            assert len(client.get("/kb/kitchen/documents").json()["documents"]) == 1, "its file is still found"
            assert client.get("/kb/manuals/bases").status_code == 404

            assert client.delete("/bases/kitchen").status_code == 200
            wait_for(lambda: names(client) == ["main"])
            assert sorted(path.name for path in folder.iterdir()) == ["main", "names.json"]
            assert code_of(client.delete("/bases/main")) == (400, "invalid_value")
            assert code_of(client.delete("/bases/kitchen")) == (404, "kb_not_found")
        assert server.process.pid == identity
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(SECONDS) == 0


def test_only_the_owner_of_the_server_changes_its_knowledge_bases(tmp_path: Path) -> None:
    folder = tmp_path / "bases"
    text, stored = create_token()
    with KnowledgeBase.open(folder / "main") as kb:
        kb.location.access.update(lambda s: s.with_user(User("olga", (), "owner", (stored,))))
    (folder / "main" / "server.sqlite").touch()
    with start(folder, RAGKIT_SERVER_TOKEN=f"{FIRST}\n{SECOND}") as server, server.client() as client:
        for token, status in ((text, 403), (SECOND, 403), ("unknown", 401), (FIRST, 200)):
            client.headers["authorization"] = f"Bearer {token}"
            for method, path in (("PATCH", "/bases/main"), ("DELETE", "/bases/main"), ("POST", "/bases")):
                if status != 200:
                    assert client.request(method, path, json={"name": "x"}).status_code == status, (token, method)
            if status != 401:
                assert client.get("/bases").json()["managed"] is (status == 200)
        assert client.get("/bases").json()["bases"] == ["main"]


def test_a_server_without_a_folder_says_how_to_get_one(base: Path) -> None:
    with serving(base) as (_, client):
        refused = client.post("/bases", json={"name": "x"})
        assert code_of(refused) == (409, "not_managed") and "--kb-folder FOLDER" in refused.text
        assert client.get("/bases").json()["managed"] is False


@pytest.mark.parametrize("options", [["--kb", "a=b"], ["--workers", "2"]])
def test_a_folder_goes_alone(tmp_path: Path, options: list[str]) -> None:
    done = CliRunner().invoke(cli, ["serve", "--kb-folder", str(tmp_path), *options])
    assert done.exit_code == 2 and "--kb-folder goes without --kb, and with one worker" in done.output
    assert list(tmp_path.iterdir()) == []

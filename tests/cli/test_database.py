"""Every command on a knowledge base in PostgreSQL says what it says on a directory."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client

from ragkit.index.catalog.database_url import DatabaseUrl
from tests.cli.conftest import HASHING, Ragkit, start
from tests.server.mcp.parts import McpConnection
from tests.server.mcp.parts import process as mcp_process

COMMANDS: dict[str, tuple[str, ...]] = {
    "index": ("index", "house"),
    "index of a changed file": ("index", "house", "--dry-run"),
    "search": ("search", "hedge month"),
    "ask": ("ask", "When is the hedge cut?"),
    "status": ("status",),
    "list": ("list",),
    "list of chunks": ("list", "--chunks"),
    "show": ("show", "house/boiler.md"),
    "summarize": ("summarize", "house/boiler.md"),
    "verify": ("verify",),
    "eval": ("eval", "q.jsonl"),
    "explain": ("explain", "boiler filter Monday", "--expect", "house/boiler.md:3"),
    "usage": ("usage",),
    "remove": ("remove", "house/garden.txt"),
    "clear": ("clear", "--yes"),
}
"""Title -> arguments; each is run with --json."""
CHANGING = {
    "database",
    "seconds", "stage_seconds", "stations", "trace_id", "kb", "bytes", "vectors", "usage", "looked_at", "created",
    "search_ms", "ask_ms", "search_p50", "search_p95", "ask_p50", "ask_p95",
}  # fmt: skip
"""Keys with times and places, or with the size of files."""


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in CHANGING}
    return [without_times(item) for item in value] if isinstance(value, list) else value


@pytest.fixture
def house(workplace: Path) -> Path:
    folder = workplace / "house"
    folder.mkdir()
    (folder / "boiler.md").write_text(
        "# Boiler manual\n\nThe boiler filter is cleaned on the first Monday by Ms Aldous.\n"
    )
    (folder / "garden.txt").write_text("The hedge is cut in the month of August. The roses are cut in March 1997.\n")
    (workplace / "ragkit.yaml").write_text(HASHING)
    question = {"id": "1", "question": "hedge cut month", "answers": ["August"], "sources": ["garden.txt"]}
    (workplace / "q.jsonl").write_text(json.dumps(question) + "\n")
    return workplace


@pytest.fixture
def indexed(house: Path, database_url: str, ragkit: Ragkit) -> Path:
    """The same folder indexed in a directory and in the database."""
    ragkit("index", "house")
    ragkit("index", "house", "--kb", database_url)
    return house


@pytest.mark.rotating
@pytest.mark.parametrize("title", COMMANDS)
def test_a_command_says_the_same_of_a_database(title: str, indexed: Path, database_url: str, ragkit: Ragkit) -> None:
    if title.startswith("index"):
        (indexed / "house" / "garden.txt").write_text("The hedge is cut in May.\n")
        (indexed / "house" / "new.md").write_text("The siphon is in the cellar.\n")
    arguments = (*COMMANDS[title], "--json")
    here = ragkit(*arguments)
    there = ragkit(*arguments, "--kb", database_url)
    assert [without_times(line) for line in there.lines] == [without_times(line) for line in here.lines]
    if len(there.lines) == 1 and "kb" in there.json:
        assert there.json["kb"] == str(DatabaseUrl.parse(database_url))
    assert ragkit("list", "--json", "--kb", database_url).out == ragkit("list", "--json").out


def test_a_chat_answers_from_a_database(
    indexed: Path, database_url: str, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("When is the hedge cut?\nWho cleans the filter?\n\n"))
    answers = ragkit("chat", "--json", "--kb", database_url).lines
    assert ["August" in str(answers[0]["answer"]), "Aldous" in str(answers[1]["answer"])] == [True, True]


def test_the_database_may_stand_in_the_environment_or_in_the_pipeline_file(
    indexed: Path, database_url: str, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = str(DatabaseUrl.parse(database_url))
    monkeypatch.setenv("RAGKIT_KB", database_url)
    assert ragkit("status", "--json").json["kb"] == shown
    monkeypatch.delenv("RAGKIT_KB")
    (indexed / "ragkit.yaml").write_text(HASHING + f"kb: {database_url}\n")
    assert ragkit("status", "--json").json["kb"] == shown
    monkeypatch.setenv("MANUALS", database_url)
    (indexed / "ragkit.yaml").write_text(HASHING + "kb: ${MANUALS}\n")
    assert ragkit("status", "--json").json["kb"] == shown
    assert ragkit("doctor", "--json", code=None).out.count(shown) == 1
    (indexed / "ragkit.yaml").write_text(HASHING + "kb: .ragkit\n")
    assert Path(ragkit("status", "--json").json["kb"]).name == ".ragkit"
    (indexed / "deep").mkdir()
    monkeypatch.chdir(indexed / "deep")
    (indexed / ".git").mkdir()
    assert ragkit("status", "--json").json["documents"] == 2
    (indexed / "ragkit.yaml").write_text(HASHING + "kb: [one, two]\n")
    assert "kb must be a directory, or an address like postgresql://host/database" in ragkit("status", code=1).err


def test_a_knowledge_base_moves_into_a_database_and_back(house: Path, database_url: str, ragkit: Ragkit) -> None:
    ragkit("index", "house")
    copied = ragkit("copy", "--to-kb", database_url)
    assert copied.out.startswith(f"{DatabaseUrl.parse(database_url)}: 2 chunks copied, nothing embedded, ")
    again = ragkit("copy", "--to-kb", database_url, code=2)
    assert "an empty knowledge base: it holds 2 documents" in again.err
    ragkit("copy", "--kb", database_url, "--to-kb", "back")
    for command in (("list", "--chunks", "--json"), ("search", "hedge month")):
        results = [ragkit(*command, "--kb", kb).out for kb in (".ragkit", database_url, "back")]
        assert results[0] == results[1] == results[2]
    assert ragkit("index", "house", "--kb", database_url, "--json").json["embedded"] == 0
    assert "use it without --to" in ragkit("copy", "--to-kb", "x", "--to", "qdrant", code=2).err


def test_there_is_no_knowledge_base_before_the_first_index(house: Path, database_url: str, ragkit: Ragkit) -> None:
    for command in (
        ("status",),
        ("search", "hedge"),
        ("remove", "house"),
        ("clear", "--yes"),
        ("copy", "--to-kb", "x"),
    ):
        assert (
            "is not a knowledge base: build it with `ragkit index FOLDER`"
            in ragkit(*command, "--kb", database_url, code=1).err
        )
    assert "2 added" in ragkit("index", "house", "--dry-run", "--kb", database_url).out
    assert "does not exist" in ragkit("index", "gone", "--kb", database_url, code=2).err
    assert "is not a knowledge base" in ragkit("status", "--kb", database_url, code=1).err


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2222@127.0.0.1:1/docs?schema=manuals",
        "postgresql://me@127.0.0.1:1/docs?schema=manuals&password=hunter2222",
        "postgresql://me:hunter%32222@127.0.0.1:1/docs?schema=manuals&wait=1",
    ],
)
@pytest.mark.parametrize("verb", [("status",), ("index", "house"), ("copy", "--to-kb", ""), ("mcp", "--client-config")])
def test_no_message_shows_the_password_of_a_database(
    verb: tuple[str, ...], address: str, house: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "--to-kb" in verb:
        ragkit("index", "house")
        result = ragkit("copy", "--to-kb", address, code=1)
    else:
        result = ragkit(*verb, "--kb", address, code=None)
    output = result.out + result.err
    assert "hunter" not in output
    assert "127.0.0.1:1/docs" in output
    if verb[0] != "mcp":
        assert "cannot be used (" in result.err
        assert "start the database, or correct the address" in result.err


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("postgresql://host/db?schema=pg_catalog", "schema must be a name of up to 63"),
        ('postgresql://host/db?schema=a"b', "schema must be a name of up to 63"),
        ("postgresql://host/db?wait=soon", "wait must be seconds, from 0 to 86400"),
        ("postgresql://[host/db", "kb must be like postgresql://user@host:5432/database"),
    ],
)
def test_an_invalid_address_is_a_wrong_option(address: str, message: str, house: Path, ragkit: Ragkit) -> None:
    assert message in ragkit("status", "--kb", address, code=2).err


@pytest.fixture
def served(indexed: Path, database_url: str, tmp_path: Path) -> Iterator[str]:
    """The address of a server on another machine: another working directory and another cache."""
    (tmp_path / "elsewhere").mkdir()
    server = start(
        "serve", "--kb", database_url, "--port", "0", "--json", "-q",
        cwd=tmp_path / "elsewhere", env={"RAGKIT_CACHE": str(tmp_path / "cache-server")},
    )  # fmt: skip
    assert server.stdout is not None
    line = json.loads(server.stdout.readline())
    assert line["kb"] == str(DatabaseUrl.parse(database_url))
    yield line["url"]
    _stop(server)


def _stop(server: subprocess.Popen[str]) -> None:
    server.terminate()
    server.communicate(timeout=30)


def test_a_server_on_another_machine_serves_what_is_published(
    served: str, indexed: Path, database_url: str, ragkit: Ragkit
) -> None:
    with httpx2.Client(base_url=served, timeout=30) as client:
        hits = client.post("/v1/search", json={"query": "hedge month"}).json()["hits"]
        expected = ragkit("search", "hedge month", "--json").json["hits"]
        assert [(hit["chunk_id"], hit["score"]) for hit in hits] == [(h["chunk_id"], h["score"]) for h in expected]
        (indexed / "house" / "new.md").write_text("The siphon is in the cellar.\n")
        ragkit("index", "house", "--kb", database_url)
        for _ in range(100):
            hits = client.post("/v1/search", json={"query": "siphon", "mode": "lexical"}).json()["hits"]
            if hits:
                break
        assert hits[0]["source"].endswith("new.md")
        answer = client.post("/chat", json={"message": "When is the hedge cut?"}).json()
        assert "August" in json.dumps(answer)


def test_an_mcp_server_searches_a_database(indexed: Path, database_url: str, tmp_path: Path) -> None:
    target = mcp_process(tmp_path, "--kb", database_url, env={"RAGKIT_CACHE": str(tmp_path / "cache-mcp")})
    with McpConnection(lambda: Client(target)) as connection:
        result = connection.do(lambda client: client.call_tool("search_knowledge_base", {"query": "hedge month"}))
    assert "August" in str(result)
    assert os.path.exists(tmp_path / "cache-mcp")  # noqa: PTH110 - as it stands

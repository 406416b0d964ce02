"""`ragkit copy`: output, later commands, and recovery from a kill."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import HASHING, Ragkit

SLOWLY = (
    "import ragkit.index.external_store as d; d.SYNC_BATCH_SIZE = 3; from ragkit.cli import main; main({arguments!r})"
)
"""The command in small batches, so that it can be killed halfway."""


@pytest.fixture
def docs(workplace: Path, hashing: Path, ragkit: Ragkit) -> Path:
    """A knowledge base of many small files."""
    folder = workplace / "docs"
    folder.mkdir()
    for number in range(200):
        (folder / f"note{number}.txt").write_text(
            f"Note {number}: hook {number * 7 % 50} holds the key of door {number}.\n"
        )
    ragkit("index", "docs", "-q")
    return folder


def test_copy_reports_its_work_and_its_checks(docs: Path, ragkit: Ragkit) -> None:
    result = ragkit("copy", "--to", "qdrant")
    first, second = result.out.splitlines()
    assert first.startswith("qdrant: 200 chunks copied, nothing embedded, ")
    assert second.startswith("verified: 200 of 200 documents, checksum ")
    assert second.endswith("recall 100.0% over 24 searches")
    status = ragkit("status")
    assert "store: qdrant" in status.out
    assert "left by other stores" not in status.out
    used = sum(path.stat().st_blocks for path in (docs.parent / ".ragkit").rglob("*") if path.is_file()) * 512
    assert ragkit("status", "--json").json["bytes"] <= used  # Qdrant's files are sparse
    ragkit("copy", "--to", "sqlite")
    left = "left by other stores: store-qdrant (ragkit copy --to goes back; else delete them)\n"
    assert left in ragkit("status").out
    ragkit("copy", "--to", "qdrant")
    again = ragkit("copy", "--to", "qdrant", "--json").json
    assert (again["copied"], again["there_before"], again["embedding_tokens"]) == (0, 200, 0)
    assert again["verified"]["checksum"] == again["verified"]["checksum_wanted"]
    assert (again["from"], again["to"], again["problems"]) == ("qdrant", "qdrant", [])


def test_the_store_is_switched_in_the_file_and_copy_follows_it(docs: Path, hashing: Path, ragkit: Ragkit) -> None:
    questions = [f"which hook holds the key of door {number}" for number in range(20)]
    before = [ragkit("search", question, "--json").json["hits"] for question in questions]
    hashing.write_text(HASHING + "store: {name: sqlite, path: vectors}\n")
    result = ragkit("search", questions[0])
    assert "the store 'sqlite' is not synchronized, the catalog was searched instead: run `ragkit copy`" in result.err
    assert ragkit("copy", "--json").json["embedding_tokens"] == 0
    assert ragkit("verify", "--json").json["problems"] == []
    for question, expected in zip(questions, before, strict=True):
        results = ragkit("search", question, "--json").json
        assert (results["hits"], results["freshness"]["store_behind"]) == (expected, None)
    assert ragkit("index", "docs", "--json").json["embedded"] == 0


def test_the_store_of_the_file_wins_and_copy_prints_the_setting_to_write(
    docs: Path, hashing: Path, ragkit: Ragkit
) -> None:
    hashing.write_text(HASHING + "store: {name: memory}\n")
    result = ragkit("copy", "--to", "sqlite", "--set", "store.path=vectors")
    assert result.err == (
        "note: ragkit.yaml takes precedence and names the store 'memory':"
        " set `store: {name: sqlite, path: vectors}` there\n"
    )
    assert ragkit("status").out.endswith("store: memory\n")
    hashing.write_text(HASHING + "store: {name: sqlite, path: vectors}\n")
    assert ragkit("copy", "--json").json["copied"] == 0


def test_a_copy_to_memory_warns_that_it_is_not_persistent(docs: Path, ragkit: Ragkit) -> None:
    result = ragkit("copy", "--to", "memory")
    assert result.out == "memory: searches use the catalog itself, 200 chunks\n"
    assert result.err.startswith("note: the store 'memory' persists nothing")


@pytest.mark.parametrize(
    ("arguments", "code", "result"),
    [
        (("--to", "qdrnat"), 1, "unknown store 'qdrnat' (did you mean 'qdrant'?)"),
        (("--to", "qdrant", "--set", "store.colection=x"), 1, "(did you mean 'collection'?)"),
        (("--to", "pinecone"), 1, "api_key"),
        (("--set", "split.chunk_size=9"), 2, "'split.chunk_size' is not a store option"),
        (("--kb", "nowhere", "--to", "qdrant"), 1, "nowhere is not a knowledge base"),
    ],
)
def test_invalid_options_give_clear_errors(
    docs: Path, ragkit: Ragkit, arguments: tuple[str, ...], code: int, result: str
) -> None:
    assert result in ragkit("copy", *arguments, code=code).err


def test_a_killed_copy_resumes_where_it_stopped(docs: Path, ragkit: Ragkit, workplace: Path) -> None:
    arguments = ["copy", "--to", "sqlite", "--set", "store.path=vectors"]
    running = subprocess.Popen([sys.executable, "-c", SLOWLY.format(arguments=arguments)], cwd=workplace)
    catalog = sqlite3.connect(f"file:{workplace / '.ragkit' / 'index.sqlite'}?mode=ro", uri=True)
    until = time.monotonic() + 60
    while catalog.execute("SELECT count(*) FROM derived").fetchone()[0] < 30:
        assert running.poll() is None, "it was done before it could be killed"
        assert time.monotonic() < until
        time.sleep(0.002)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    catalog.close()
    # reopen, so that commits in the log count before they are in its index
    catalog = sqlite3.connect(workplace / ".ragkit" / "index.sqlite")
    noted = catalog.execute("SELECT count(*) FROM derived").fetchone()[0]
    catalog.close()
    assert 30 <= noted < 200
    assert ragkit("status").out.endswith("store: sqlite\n")
    assert ragkit("search", "which hook holds the key of door 7", "--json").json["freshness"]["store_behind"] is None
    report = ragkit(*arguments, "--json").json
    assert (report["problems"], report["chunks"], report["copied"]) == ([], 200, 200 - noted)
    assert ragkit("verify", "--json").json["problems"] == []

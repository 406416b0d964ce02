"""A short trial of kills around a knowledge base in PostgreSQL; `tests.torture.database` says what is counted."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests.torture import database
from tests.torture.database import DOCUMENTS, SPLIT, Counts, Crowd, count_faults, find_faults, run_trial, write_document


@pytest.fixture(autouse=True)
def _no_variables_of_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAGKIT_CACHE", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "")  # restored after a trial, which sets them


def test_a_reader_notices_half_documents_and_versions_that_go_back(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    seen: dict[str, int] = {}
    with KnowledgeBase.open(
        tmp_path / "kb", Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n" + SPLIT)
    ) as kb:
        for version in (2, 3):
            write_document(folder, 1, version)
            kb.index(folder)
            assert find_faults(kb, seen) == []
        write_document(folder, 1, 2)
        kb.index(folder)
        assert [fault.partition(":")[0] for fault in find_faults(kb, seen)] == ["went_back"]
        path = folder / "n1.md"
        path.write_text(path.read_text().replace("version 2, part 1", "version 3, part 1"))
        kb.index(folder)
        assert [fault.partition(":")[0] for fault in find_faults(kb, seen)] == ["half_seen"]
        path.write_text(path.read_text().partition("\n\n")[0])
        kb.index(folder)
        assert [fault.partition(":")[0] for fault in find_faults(kb, seen)] == ["half_seen"]


class OneProcess(Crowd):
    """A crowd of one process, which runs some code."""

    def __init__(self, place: Path, code: str) -> None:
        self._code = code
        super().__init__(place, "")

    def _start(self, name: str) -> None:
        if name == "reader-0":
            self.outputs[name] = self._place / f"{name}.txt"
            with self.outputs[name].open("wb") as out:
                self._processes[name] = subprocess.Popen([sys.executable, "-c", self._code], stdout=out)


@pytest.mark.parametrize(
    ("end", "hung", "other"),
    [
        ("lambda *_: None", 1, []),
        ("lambda *_: os._exit(1)", 0, ["reader-0 ended: ready"]),
        ("lambda *_: os._exit(130)", 0, []),
    ],
)
def test_a_process_that_ctrl_c_does_not_end_or_that_fails_is_counted(
    end: str, hung: int, other: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "INTERRUPT_SECONDS", 3)
    code = (
        f"import os, signal, time\nsignal.signal(signal.SIGINT, {end})\nprint('ready', flush=True)\n"
        "while True: time.sleep(1)"
    )
    crowd, counts = OneProcess(tmp_path, code), Counts()
    try:
        for _ in range(600):
            if crowd.outputs["reader-0"].read_text():
                break
            time.sleep(0.05)
        crowd.interrupt("reader-0", counts)
    finally:
        crowd.stop()
    assert (counts.hung, counts.other) == (hung, other)
    assert counts.faults == hung + len(other)


def test_errors_of_a_process_are_counted_and_lines_of_tracebacks_are_not() -> None:
    counts = Counts()
    count_faults("reader-0", "    from asyncio import CancelledError\nKeyboardInterrupt\n", counts)
    assert counts.faults == 0
    count_faults("reader-0", "half_seen: n1.md\nValueError: 1\nragkit.errors.DatabaseFailed: away\n", counts)
    assert (counts.half_seen, len(counts.other)) == (1, 2)


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_kills_of_writers_workers_readers_and_the_database_cause_no_fault(kills: int, tmp_path: Path) -> None:
    counts = run_trial(tmp_path, kills, seed=kills)
    assert counts.faults == 0, counts
    assert sum(counts.kills.values()) == kills
    assert counts.generations > 0
    assert counts.texts_embedded >= DOCUMENTS

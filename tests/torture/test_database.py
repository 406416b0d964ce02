"""A short trial of kills around a knowledge base in PostgreSQL; `tests.torture.database` says what is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests.torture.database import DOCUMENTS, SPLIT, find_faults, run_trial, write_document


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


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_kills_of_writers_workers_readers_and_the_database_cause_no_fault(kills: int, tmp_path: Path) -> None:
    counts = run_trial(tmp_path, kills, seed=kills)
    assert counts.faults == 0, counts
    assert sum(counts.kills.values()) == kills
    assert counts.generations > 0
    assert counts.texts_embedded >= DOCUMENTS

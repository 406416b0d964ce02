"""A small knowledge base, built once and copied for each test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests.server.sql_guard import forbid_sql_in_event_loops

HASHING = "embed: {name: hashing, dimension: 64}\n"
TEXTS = {
    "garden.md": "---\nyear: 2024\n---\n# Garden\n\nThe hedge is cut in August.\n\nThe lawn is mown on Fridays.\n",
    "house.md": "---\nyear: 2019\n---\n# House\n\nThe boiler is swept in May.\n",
    "shed.txt": "The saw hangs on a nail.\n",
}


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The knowledge base to copy."""
    folder = tmp_path_factory.mktemp("served")
    docs = folder / "docs"
    docs.mkdir()
    for name, text in TEXTS.items():
        (docs / name).write_text(text, "utf-8")
    with KnowledgeBase.open(folder / "kb", Pipeline.from_yaml(HASHING)) as kb:
        kb.index(docs)
    return folder / "kb"


@pytest.fixture
def base(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A knowledge base of three documents, without settings of the environment."""
    for name in [name for name in os.environ if name.startswith("RAGKIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-config"))
    return Path(shutil.copytree(built, tmp_path / "kb"))


@pytest.fixture(autouse=True)
def _no_sql_in_event_loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test of the server fails if a statement runs in the thread of its event loop."""
    refused = forbid_sql_in_event_loops(monkeypatch)
    yield
    assert not refused, f"SQL in the thread of the event loop: {refused}"

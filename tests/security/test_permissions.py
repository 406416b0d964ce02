"""Only the owner can read files that may contain documents, conversations or secrets."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragkit.agent.exporters.audit import AuditLog
from ragkit.agent.memory.stores import FileConversationStore, SQLiteConversationStore
from ragkit.cli.commands.serve import load_tokens
from ragkit.cli.common import CliContext
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """A user with a permissive umask."""
    before = os.umask(0)
    yield
    os.umask(before)


def permission_bits(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("store", ["sqlite", "faiss", "duckdb", "qdrant", "chroma", "lancedb"])
def test_other_users_cannot_access_a_knowledge_base(tmp_path: Path, store: str) -> None:
    (tmp_path / "a.txt").write_text("words of mine")
    pipeline = Pipeline.from_yaml(f"embed: {{name: hashing, dimension: 64}}\nstore: {{name: {store}}}\n")
    with KnowledgeBase.open(tmp_path / "kb", pipeline) as kb:
        kb.index(tmp_path / "a.txt")
        kb.search("words")
    assert permission_bits(tmp_path / "kb") == 0o700  # other files are below these directories


def test_conversations_and_audit_logs_are_private(tmp_path: Path) -> None:
    FileConversationStore(tmp_path / "talk.json").save("{}")
    SQLiteConversationStore(tmp_path / "talks.db", "me").save("{}")
    AuditLog(tmp_path / "audit.jsonl")
    assert {path.name: oct(permission_bits(path)) for path in tmp_path.iterdir()} == {
        "audit.jsonl": "0o600",
        "talk.json": "0o600",
        "talks.db": "0o600",
    }


@pytest.mark.parametrize(("mode", "notes"), [(0o600, 0), (0o400, 0), (0o640, 1), (0o604, 1)])
def test_a_token_file_readable_by_others_gives_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mode: int, notes: int
) -> None:
    monkeypatch.delenv("RAGKIT_SERVER_TOKEN", raising=False)
    file = tmp_path / "tokens.txt"
    file.write_text("first-of-two-tokens\nsecond-of-two-tokens\n")
    file.chmod(mode)
    shell = CliContext(tmp_path, None, quiet=False, verbose=False, json=False)
    assert load_tokens(shell, file) == ("first-of-two-tokens", "second-of-two-tokens")
    result = capsys.readouterr().err
    assert result.count(f"note: {file} is readable by other users: chmod 600 {file}\n") == notes
    assert "first-of" not in result

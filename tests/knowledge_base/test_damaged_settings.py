"""Settings of a damaged knowledge base: a repair uses those that it was built with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragkit import KnowledgeBase
from ragkit.errors import KnowledgeBaseDamaged, SettingsMismatch
from ragkit.index.access.rules import AccessSettings
from ragkit.index.catalog.checksums import CHECKSUM_FILE
from ragkit.index.catalog.directory import CATALOG_FILE, MARKER_FILE
from ragkit.index.catalog.write_session import WriteSession
from ragkit.index.rebuild import RecoveredState
from ragkit.knowledge_base.index_options import IndexOptions
from tests import reads

PIPELINE = "split: {name: recursive, chunk_size: 300}\nembed: {name: hashing}\n"
OTHER = PIPELINE.replace("300", "400")
TEXT = "The tide gauge stands on the north pier. It is read at noon and its log is kept in the mill. " * 20
DAMAGE = {  # how the value stands in the catalog -> after a bit was flipped
    "the embedder in the fingerprint": (b'"name": "hashing"}', b'"name": "hashine"}'),
    "the splitter in the fingerprint": (b'"chunk_size": 300', b'"chunk_size": 301'),
    "the pipeline": (b"chunk_size: 300", b"chunk_size: 308"),
    "the patterns": (b'"exclude": ["draft*"]', b'"exclude": ["dragt*"]'),
}


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A knowledge base with settings of its own and a pattern; `docs` has a file that is excluded."""
    monkeypatch.chdir(tmp_path)
    for name in ("one.txt", "two.txt", "draft.txt"):
        (tmp_path / "docs").mkdir(exist_ok=True)
        (tmp_path / "docs" / name).write_text(f"{name}. {TEXT}")
    for name, text in (("kb.yaml", PIPELINE), ("other.yaml", OTHER)):
        (tmp_path / name).write_text(text)
    with KnowledgeBase.open("kb", Path("kb.yaml")) as kb:
        kb.index("docs", options=IndexOptions(exclude=("draft*",)))
    yield tmp_path / "kb"


def contents(kb: Path) -> tuple[list[tuple[str, str]], str]:
    """Sources and texts of all chunks, and the pipeline."""
    with KnowledgeBase.open(kb) as opened:
        chunks = sorted((chunk.source, chunk.text) for chunk in reads.chunks(opened))
        return chunks, opened.pipeline.to_yaml()


def damage(kb: Path, what: str) -> None:
    before, after = DAMAGE[what]
    path = kb / CATALOG_FILE
    data = path.read_bytes()
    assert data.count(before) == 1, what
    path.write_bytes(data.replace(before, after))


def damage_marker(kb: Path) -> None:
    marker = kb / MARKER_FILE
    marker.write_text(marker.read_text().replace("chunk_size: 300", "chunk_size: 301"))


@pytest.mark.rotating
@pytest.mark.parametrize("named", [None, Path("kb.yaml")])
@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("what", DAMAGE)
def test_a_run_repairs_damaged_settings(base: Path, what: str, sealed: bool, named: Path | None) -> None:
    before = contents(base)
    damage(base, what)
    if not sealed:  # as an interrupted run leaves it
        (base / CHECKSUM_FILE).unlink()
    with KnowledgeBase.open(base, named, check=False) as kb:
        problems = [problem.message for problem in kb.verify().problems]
        assert any("checksum mismatch" in message for message in problems)
    with KnowledgeBase.open(base, named) as kb:
        report = kb.index(options=IndexOptions(keep_patterns=True))
        assert report.notes and "rebuilt" in report.notes[0]
        assert kb.verify().is_sound
    assert contents(base) == before


@pytest.mark.parametrize("lost", [CATALOG_FILE, MARKER_FILE, "settings"])
def test_a_repair_without_a_pipeline_file_keeps_settings_and_patterns(base: Path, lost: str) -> None:
    before = contents(base)
    if lost == "settings":
        damage(base, "the pipeline")
    else:
        (base / lost).unlink()
    with KnowledgeBase.open(base) as kb:
        assert kb.verify(repair=True).is_sound
    assert contents(base) == before
    assert all("draft" not in source for source, _ in before[0])


def test_a_directory_without_a_knowledge_base_has_no_settings_to_recover(tmp_path: Path) -> None:
    """As a copy of a database that was dropped, before it is fetched again."""
    assert RecoveredState(tmp_path, "").settings == {}


def test_a_repair_says_that_all_copies_of_the_settings_were_lost(base: Path) -> None:
    (base / CATALOG_FILE).unlink()
    damage_marker(base)
    with KnowledgeBase.open(base, Path("kb.yaml")) as kb:
        repaired = kb.verify(repair=True).repaired
    assert "settings and file patterns of the knowledge base were lost" in repaired[-1]


def test_a_marker_of_another_knowledge_base_is_not_used(base: Path) -> None:
    before = contents(base)
    with KnowledgeBase.open("foreign", Path("other.yaml")) as kb:
        kb.index("docs")
    (base / MARKER_FILE).write_bytes(Path("foreign", MARKER_FILE).read_bytes())
    with KnowledgeBase.open(base) as kb:
        assert kb.verify(repair=True).is_sound
    assert contents(base) == before


def test_other_settings_are_still_refused_on_a_damaged_knowledge_base(base: Path) -> None:
    damage(base, "the pipeline")
    with pytest.raises(SettingsMismatch, match=r"split\.chunk_size"):
        KnowledgeBase.open(base, Path("other.yaml"))


def test_a_knowledge_base_without_checksum_of_its_settings_opens_and_gets_one(base: Path) -> None:
    """As earlier versions wrote it."""
    before = contents(base)
    with WriteSession(base) as session, session.catalog.transaction():
        session.catalog.connection.execute("DELETE FROM meta WHERE key = 'settings_checksum'")
    marker = json.loads((base / MARKER_FILE).read_text())
    (base / MARKER_FILE).write_text(json.dumps({key: marker[key] for key in ("what", "format", "id", "roots")}))
    (base / CHECKSUM_FILE).unlink()
    assert contents(base) == before
    with KnowledgeBase.open(base) as kb:
        assert kb.verify().is_sound
        kb.index(options=IndexOptions(keep_patterns=True))
    damage(base, "the pipeline")
    with KnowledgeBase.open(base) as kb:
        assert kb.verify(repair=True).is_sound
    assert contents(base) == before


@pytest.mark.parametrize("what", [CATALOG_FILE, "the pipeline", "both copies"])
def test_after_a_repair_a_lost_file_of_users_still_opens_nothing(base: Path, what: str) -> None:
    with KnowledgeBase.open(base) as kb:
        kb.location.access.update(lambda settings: settings.with_rule("**", add=["group:readers"]))
    if what == "the pipeline":
        damage(base, what)
    else:
        (base / CATALOG_FILE).unlink()
    if what == "both copies":
        damage_marker(base)
    with KnowledgeBase.open(base, Path("kb.yaml")) as kb:
        assert kb.verify(repair=True).is_sound
        assert kb.location.access.read() != AccessSettings()
    (base / "access.json").unlink()
    with KnowledgeBase.open(base) as kb, pytest.raises(KnowledgeBaseDamaged):
        kb.location.access.read()

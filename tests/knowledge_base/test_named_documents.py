"""A search uses what a document says beside its text: its name, its period, its version."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ragkit.embed.minilm import MiniLM
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from tests import reads

TEXT = "# Report\n\nThe board approves the budget. Travel costs are paid within {days} days.\n"


@pytest.fixture
def base(tmp_path: Path) -> KnowledgeBase:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, days in (("ACME_2021_report.md", 10), ("ACME_2022_report.md", 20), ("ZENITH_2022_report.md", 30)):
        (folder / name).write_text(TEXT.format(days=days), "utf-8")
    kb = KnowledgeBase.open(tmp_path / "kb")
    kb.index(folder)
    return kb


def first_file(kb: KnowledgeBase, question: str) -> str:
    return Path(kb.search(question)[0].source).name


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("When did Acme pay travel costs in FY2021?", "ACME_2021_report.md"),
        ("When did Acme pay travel costs in 2022?", "ACME_2022_report.md"),
        ("When did Zenith pay travel costs?", "ZENITH_2022_report.md"),
        ("When does Acme pay travel costs?", "ACME_2022_report.md"),
    ],
)
def test_the_company_and_year_of_a_question_select_the_document_and_else_the_newest(
    base: KnowledgeBase, question: str, name: str
) -> None:
    assert first_file(base, question) == name


def test_explain_shows_what_the_document_contributes(base: KnowledgeBase) -> None:
    first = reads.explain(base, "When did Acme pay travel costs in FY2021?")[0]
    assert first.hit.scores["document"] > 0 and first.contributions["document"] > 0
    assert sum(first.contributions.values()) == pytest.approx(first.hit.score)
    older = next(e for e in reads.explain(base, "When does Acme pay travel costs?") if "2021" in e.hit.source)
    assert older.contributions["older version"] < 0


def test_a_catalog_of_an_older_version_gets_the_fields_at_the_next_run_without_embedding(
    base: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.close()
    connection = sqlite3.connect(tmp_path / "kb" / "index.sqlite")
    for table in ("document_lexicon_postings", "document_lexicon", "document_lexicon_documents"):
        connection.execute(f"DROP TABLE {table}")
    connection.commit()
    connection.close()
    (tmp_path / "kb" / "seal.json").unlink()
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert "document" not in kb.search("When did Acme pay travel costs in FY2021?")[0].scores
    with monkeypatch.context() as patch, KnowledgeBase.open(tmp_path / "kb") as kb:
        patch.setattr(MiniLM, "embed_texts", lambda *_: pytest.fail("nothing has to be embedded"))
        kb.index(tmp_path / "docs")
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert first_file(kb, "When did Acme pay travel costs in FY2021?") == "ACME_2021_report.md"


def test_a_removed_document_is_no_longer_named(base: KnowledgeBase, tmp_path: Path) -> None:
    (tmp_path / "docs" / "ZENITH_2022_report.md").unlink()
    base.index(tmp_path / "docs")
    assert "document" not in base.search("What about Zenith?")[0].scores
    connection = sqlite3.connect(tmp_path / "kb" / "index.sqlite")
    assert connection.execute("SELECT count(*) FROM document_lexicon_documents").fetchone() == (2,)
    connection.close()

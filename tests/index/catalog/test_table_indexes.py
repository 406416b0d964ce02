"""Catalog queries use indexes; catalogs of earlier versions work without the newer ones."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from ragkit.index.catalog.directory import CATALOG_FILE
from ragkit.index.catalog.write_session import WriteSession
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests import reads

LOOKUPS = {
    "SELECT * FROM documents WHERE live = 1 AND id = ? ORDER BY source LIMIT 1": "documents_by_id (id=?)",
    "SELECT * FROM documents WHERE live = 1 AND source = ? ORDER BY source LIMIT 1": "documents_by_source (source=?)",
    "SELECT * FROM chunks WHERE live = 1 AND id = ?": "chunks_by_id (id=?)",
    "SELECT count(*) FROM chunks WHERE document = ?": "chunks_by_document (document=?)",
}


def create_knowledge_base(folder: Path) -> KnowledgeBase:
    (folder / "a.md").write_text("The hedge is cut in August.\n")
    kb = KnowledgeBase.open(folder / "kb", Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n"))
    kb.index(folder / "a.md")
    return kb


def test_lookups_of_documents_and_chunks_use_an_index(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for number in range(60):  # with fewer rows SQLite scans the table
        (tmp_path / f"docs/{number}.md").write_text(f"Door {number} is green.\n")
    with create_knowledge_base(tmp_path) as kb:
        kb.index(tmp_path / "docs")
    with closing(sqlite3.connect(tmp_path / "kb" / CATALOG_FILE)) as connection:
        for query, index in LOOKUPS.items():
            plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", ("x",)).fetchall()
            assert plan[0][3].endswith(f"USING INDEX {index}") or plan[0][3].endswith(f"USING COVERING INDEX {index}")


def test_a_missing_index_is_created_by_the_next_run(tmp_path: Path) -> None:
    with create_knowledge_base(tmp_path) as kb:
        [row] = reads.list_documents(kb)
    with WriteSession(tmp_path / "kb") as session:
        session.catalog.connection.execute("DROP INDEX documents_by_id")
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        document = reads.find_document(kb, row.id)
        assert document is not None
        assert document.text == "The hedge is cut in August.\n"
        assert kb.verify().is_sound
        assert index_names(tmp_path) & {"documents_by_id"} == set()
        kb.index(tmp_path / "a.md")
        assert index_names(tmp_path) >= {"documents_by_id", "documents_by_source"}
        assert kb.verify().is_sound


def index_names(folder: Path) -> set[str]:
    with closing(sqlite3.connect(folder / "kb" / CATALOG_FILE)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}

"""A report is one line in a program that prints it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from ragkit import KnowledgeBase


def test_a_printed_report_says_what_became_of_files_and_chunks(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "owl.md").write_text("# Owl\n\nThe owl sleeps in the dome.\n")
    (docs / "broken.bin").write_bytes(bytes(range(256)))
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        first, second = kb.index(docs), kb.index(docs)
    assert re.fullmatch(
        r"files: 1 added \(1 skipped\); chunks: 1 added, 0 removed, 1 embedded, \d+\.\d s", str(first)
    ), str(first)
    assert str(second).startswith("files: nothing changed (1 unchanged, 1 skipped); chunks: 0 added, 0 removed, ")
    half = replace(first, files={}, embedded=0, unembedded=1200)
    assert str(half).startswith("files: no files found; chunks: 1 added, 0 removed, 0 embedded (1,200 have no vector ")

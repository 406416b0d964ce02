"""Who removes a document finds none of its words in the files of the knowledge base."""

from __future__ import annotations

import random
from pathlib import Path

from ragkit import KnowledgeBase


def unusual_word(number: int) -> str:
    """A word that shares no beginning with others."""
    rng = random.Random(number)
    return "".join(rng.choice("bcdfghklmnprstvz") + rng.choice("aeiou") for _ in range(6))


def words_in(folder: Path, numbers: range) -> set[int]:
    """Those whose word is in a file; the first letters may stand once for several terms."""
    contents = [path.read_bytes().lower() for path in folder.rglob("*") if path.is_file()]
    return {n for n in numbers if any(unusual_word(n)[1:].encode() in content for content in contents)}


def test_words_of_removed_documents_are_in_no_file(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(200):
        (docs / f"n{number}.md").write_text(f"# Note {number}\n\nThe pass of the locker is {unusual_word(number)}.\n")
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        kb.index(docs)
        assert words_in(tmp_path / "kb", range(20)) == set(range(20))
        assert kb.remove(*(str(docs / f"n{number}.md") for number in range(10))) == 10
        assert kb.search(unusual_word(15), 1)[0].chunk.source.endswith("n15.md")
    assert words_in(tmp_path / "kb", range(20)) == set(range(10, 20))

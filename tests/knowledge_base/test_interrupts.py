"""Ctrl-C at every statement of an index run: it is reported as such, and nothing is lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ragkit import KnowledgeBase, Pipeline
from ragkit.index.catalog.directory import knowledge_base_exists
from ragkit.store import sqlite_files
from ragkit.store.native.vector_file import VectorFile
from tests import reads

HASHING = Pipeline.from_yaml("embed: {name: hashing, dimension: 16}\n")


class Interrupter:
    """Raises KeyboardInterrupt once, after the statement of this number that starts with `start`.

    That is where Python raises it when the key is pressed while SQLite works.
    """

    def __init__(self, number: int, start: str) -> None:
        self.left = number
        self.start = start

    def statement_done(self, statement: str, cursor: sqlite3.Cursor) -> sqlite3.Cursor:
        """Count a statement with this result."""
        self.left -= statement.startswith(self.start)
        if self.left == 0:
            self.left = -1
            cursor.close()  # as nobody gets it
            raise KeyboardInterrupt
        return cursor

    def connection_class(self) -> type[sqlite3.Connection]:
        """A class of connections that are counted."""
        done = self.statement_done

        class Counted(sqlite_files._CountedConnection):
            def execute(self, statement: str, parameters: Any = (), /) -> sqlite3.Cursor:
                return done(statement, super().execute(statement, parameters))

            def executemany(self, statement: str, parameters: Any, /) -> sqlite3.Cursor:
                return done(statement, super().executemany(statement, parameters))

        return Counted


def index(kb: Path, docs: Path) -> None:
    with KnowledgeBase.open(kb, HASHING) as base:
        base.index(docs)


def contents(kb: Path) -> list[tuple[str, str]]:
    """Name and text of every chunk, of an index that is sound."""
    with KnowledgeBase.open(kb) as base:
        assert base.verify().is_sound
        return sorted((Path(chunk.source).name, chunk.text) for chunk in reads.chunks(base))


def interrupted(work: Callable[[], None]) -> bool:
    """Whether it ended with KeyboardInterrupt."""
    try:
        work()
    except KeyboardInterrupt:
        return True
    return False


@pytest.mark.parametrize("known", [False, True], ids=["first run", "next run"])
@pytest.mark.parametrize(("start", "at_least"), [("BEGIN", 6), pytest.param("", 60, marks=pytest.mark.slow)])
def test_an_interrupt_at_any_statement_is_reported_as_such_and_loses_nothing(
    known: bool, start: str, at_least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "hedge.txt").write_text("The hedge is cut in August.\n")
    boiler = docs / "boiler.txt"
    old, new = "The boiler was swept in April.", "The boiler is swept in May."
    for number in count(1):
        kb = tmp_path / f"kb{number}"
        if known:
            boiler.write_text(old)
            index(kb, docs)
        boiler.write_text(new)
        interrupter = Interrupter(number, start)
        with monkeypatch.context() as patch:
            patch.setattr(sqlite_files, "_CountedConnection", interrupter.connection_class())
            if not interrupted(partial(index, kb, docs)):
                break
        assert knowledge_base_exists(kb) or not known
        if knowledge_base_exists(kb):
            assert {text for _, text in contents(kb)} <= {old, new, "The hedge is cut in August."}
        index(kb, docs)
        assert contents(kb) == [("boiler.txt", new), ("hedge.txt", "The hedge is cut in August.")]
    assert interrupter.left > 0, "the interrupt was swallowed"
    assert number > at_least


def test_an_interrupt_while_a_knowledge_base_is_closed_leaves_nothing_half_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(file: VectorFile) -> None:
        close_file(file)
        monkeypatch.undo()
        raise KeyboardInterrupt

    close_file = VectorFile.close
    (tmp_path / "boiler.txt").write_text("The boiler was swept in April.")
    index(tmp_path / "kb", tmp_path / "boiler.txt")
    base = KnowledgeBase.open(tmp_path / "kb")
    expected = base.search("boiler")
    monkeypatch.setattr(VectorFile, "close", close)
    with pytest.raises(KeyboardInterrupt):
        base.close()
    assert base.search("boiler") == expected
    base.close()


def test_a_run_after_an_interrupted_first_run_works_while_its_traceback_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a notebook keeps the last one."""
    (tmp_path / "boiler.txt").write_text("The boiler was swept in April.")
    kept: list[BaseException] = []
    open_before = set(sqlite_files._uses_by_inode)  # of other tests
    for number in range(1, 4):
        interrupter = Interrupter(number, "BEGIN")
        with monkeypatch.context() as patch:
            patch.setattr(sqlite_files, "_CountedConnection", interrupter.connection_class())
            with pytest.raises(KeyboardInterrupt) as caught:
                index(tmp_path / "kb", tmp_path / "boiler.txt")
        kept.append(caught.value)
        assert set(sqlite_files._uses_by_inode) <= open_before
    index(tmp_path / "kb", tmp_path / "boiler.txt")
    assert [name for name, _ in contents(tmp_path / "kb")] == ["boiler.txt"]

"""Conversion between paths and source ids."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragkit.index.sources.added_documents import ADDED_ROOT
from ragkit.index.sources.ids import display_name, is_within, source_id, source_path
from ragkit.index.sources.resolver import SourceResolver


@pytest.mark.parametrize(
    "name", ["a.txt", "with space", "new\nline", "é", "e\u0301", "🐙", "-rf", "back\\slash", "quo'te"]
)
def test_a_source_id_converts_back_to_its_path(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("x")
    assert source_path(source_id(path)).read_text() == "x"


def test_bytes_that_are_not_utf8_are_escaped_and_restored(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.txt"))
    path.write_text("x")
    assert source_id(path) == f"{tmp_path}/bad\\xff.txt"
    assert source_path(source_id(path)) == path


def test_a_file_name_that_looks_like_an_escape_stays_unchanged(tmp_path: Path) -> None:
    (tmp_path / "bad\\xff.txt").write_text("x")
    assert source_path(f"{tmp_path}/bad\\xff.txt") == tmp_path / "bad\\xff.txt"


def test_a_source_is_within_itself_and_its_parent_folders_only() -> None:
    assert is_within("/docs/a", "/docs")
    assert is_within("/docs", "/docs")
    assert is_within("/docs", "/")
    assert not is_within("/docs2/a", "/docs")


def test_names_below_the_working_directory_are_displayed_relative_to_it() -> None:
    assert display_name("/work/docs/a.md", Path("/work")) == "docs/a.md"
    assert display_name("/else/a.md", Path("/work")) == "/else/a.md"
    assert display_name("/work", Path("/work")) == "/work"


def test_only_files_below_the_folders_of_copies_are_copies(tmp_path: Path) -> None:
    resolver = SourceResolver(tmp_path / "pages", tmp_path / "documents", tmp_path / "sources")
    copy = resolver.added.copy_path("notes about pages")
    assert resolver.source_id(copy) == "notes about pages"
    assert resolver.source_id(tmp_path / "documents") == ADDED_ROOT
    for path in (tmp_path / "documents2" / copy.name, tmp_path / "a.txt", Path("documents") / copy.name):
        assert resolver.source_id(path) == str(path)

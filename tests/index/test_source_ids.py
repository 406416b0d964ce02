"""Paths as names of sources, and back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragkit.index.source_ids import display_name, is_within, source_id, source_path


@pytest.mark.parametrize(
    "name", ["a.txt", "with space", "new\nline", "é", "e\u0301", "🐙", "-rf", "back\\slash", "quo'te"]
)
def test_a_name_leads_back_to_its_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("x")
    assert source_path(source_id(path)).read_text() == "x"


def test_bytes_that_are_not_text_are_written_out_and_found_again(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.txt"))
    path.write_text("x")
    assert source_id(path) == f"{tmp_path}/bad\\xff.txt"
    assert source_path(source_id(path)) == path


def test_a_file_whose_name_looks_like_an_escape_is_itself(tmp_path: Path) -> None:
    (tmp_path / "bad\\xff.txt").write_text("x")
    assert source_path(f"{tmp_path}/bad\\xff.txt") == tmp_path / "bad\\xff.txt"


def test_a_source_is_within_itself_and_its_folders_only() -> None:
    assert is_within("/docs/a", "/docs")
    assert is_within("/docs", "/docs")
    assert is_within("/docs", "/")
    assert not is_within("/docs2/a", "/docs")


def test_names_are_shown_relative_to_the_working_directory_when_they_lie_in_it() -> None:
    assert display_name("/work/docs/a.md", Path("/work")) == "docs/a.md"
    assert display_name("/else/a.md", Path("/work")) == "/else/a.md"
    assert display_name("/work", Path("/work")) == "/work"

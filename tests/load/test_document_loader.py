"""`DocumentLoader`."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from ragkit.errors import InvalidOption, LoadError
from ragkit.load.document_loader import DocumentLoader
from tests.load import sample_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.md").write_text("# A")
    (tmp_path / "b.txt").write_text("b")
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / ".env").write_text("KEY=secret")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.md").write_text("# C")
    return tmp_path


def test_text_becomes_a_document_with_its_metadata() -> None:
    [document] = DocumentLoader.from_text("hel\0lo", metadata={"lang": "en"})
    assert (document.text, document.metadata, document.source) == ("hel\ufffdlo", {"lang": "en"}, "")
    assert DocumentLoader.from_text("x")[0].metadata == {}


def test_the_format_of_a_file_is_detected(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(sample_files.word())
    [document] = DocumentLoader.from_file(tmp_path / "a.bin")
    assert (document.format, document.title, document.source) == ("docx", "The Handbook", str(tmp_path / "a.bin"))


def test_a_path_may_be_relative_or_a_link(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "link.md").symlink_to("a.md")
    assert DocumentLoader.from_file("a.md")[0].source == str(folder / "a.md")
    assert DocumentLoader.from_file("link.md")[0].text == "# A"


def test_a_format_can_be_forced(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(sample_files.pdf([["words"]]))
    assert DocumentLoader.from_pdf(path)[0].text == "words"
    path.write_text("a;b\n1;2\n")
    assert DocumentLoader.from_csv(str(path))[0].text == "a: 1; b: 2"
    path.write_text('{"a": 1}')
    assert DocumentLoader.from_json(path)[0].text == "a: 1"
    path.write_text("<p>words")
    assert DocumentLoader.from_html(path)[0].text == "words"


def test_a_file_that_cannot_be_read_is_an_error(folder: Path) -> None:
    with pytest.raises(LoadError, match=r"gone\.md: does not exist"):
        DocumentLoader.from_file(folder / "gone.md")
    with pytest.raises(LoadError, match="damaged, or an image of an unknown format"):
        DocumentLoader.from_file(folder / "image.png")
    with pytest.raises(LoadError, match="damaged, or not a PDF"):
        DocumentLoader.from_pdf(folder / "b.txt")


@pytest.mark.parametrize("jobs", [0, 2])
def test_every_file_of_a_folder_with_text_is_loaded(folder: Path, jobs: int) -> None:
    documents = DocumentLoader.from_directory(folder, jobs=jobs)
    assert [document.source for document in documents] == [str(folder / name) for name in ("a.md", "b.txt", "sub/c.md")]


def test_glob_and_recursive_select_files(folder: Path) -> None:
    def names(**options: object) -> list[str]:
        return [Path(d.source).name for d in DocumentLoader.from_directory(str(folder), **options)]  # type: ignore[arg-type]

    assert names(glob="*.md") == ["a.md", "c.md"]
    assert names(glob=["*.txt", "sub/"]) == ["b.txt", "c.md"]
    assert names(recursive=False) == ["a.md", "b.txt"]


def test_a_damaged_file_is_logged_and_the_rest_is_loaded(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "bad.pdf").write_bytes(b"%PDF-1.7 junk")
    with caplog.at_level(logging.WARNING, "ragkit.load"):
        assert len(DocumentLoader.from_directory(folder)) == 3
    assert [re.sub(".*/", "", record.getMessage()) for record in caplog.records] == [
        "bad.pdf: damaged, or not a PDF: open it in a PDF viewer and save it again",
        "image.png: damaged, or an image of an unknown format: save it as PNG or PDF",
    ]


def test_a_damaged_file_can_raise_but_an_image_never_does(folder: Path) -> None:
    assert len(DocumentLoader.from_directory(folder, errors="raise")) == 3
    (folder / "bad.pdf").write_bytes(b"%PDF-1.7 junk")
    with pytest.raises(LoadError, match=r"bad\.pdf: damaged"):
        DocumentLoader.from_directory(folder, errors="raise")


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="nowhere: does not exist: check the path"):
        DocumentLoader.from_directory(tmp_path / "nowhere")
    with pytest.raises(InvalidOption, match=r"errors must be 'log' or 'raise' \(got 'ignore'\)"):
        DocumentLoader.from_directory(tmp_path, errors="ignore")  # type: ignore[arg-type]


def test_metadata_of_the_caller_is_added_and_overrides_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("---\nteam: blue\nyear: 2020\n---\nText.\n")
    for [document] in (
        DocumentLoader.from_file(path, {"year": 2024}),
        DocumentLoader.from_directory(tmp_path, metadata={"year": 2024}),
    ):
        assert (document.metadata["team"], document.metadata["year"]) == ("blue", 2024)

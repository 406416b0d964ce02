"""ZIP and TAR files, read in place where a pipeline asks for it."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ragkit import KnowledgeBase, Pipeline
from ragkit.errors import LoadError, LoadLimitExceeded, UnsupportedFormat
from ragkit.load.archive import ArchiveLoader
from ragkit.load.options import ZipOptions
from ragkit.load.router import LoaderRoute, Router
from ragkit.records import Document

FILES = {
    "manual/pump.md": b"# Pump\n\nThe pump leaks.\n",
    "manual/deep/door.txt": b"The door is red.",
    "../../outside.txt": b"The key is outside.",
    "/etc/root.txt": b"The root is deep.",
    "manual/.hidden.txt": b"hidden",
    "__MACOSX/manual/._pump.md": b"fork",
    "noise.bin": bytes(range(256)) * 4,
    "empty.txt": b"",
}


def zip_file(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def tar_file(files: dict[str, bytes], mode: Any = "w:gz") -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
            entry = tarfile.TarInfo(f"link-{kind.decode()}")
            entry.type, entry.linkname = kind, "/etc/passwd"
            archive.addfile(entry)
    return data.getvalue()


ARCHIVES = {
    "a.zip": zip_file(FILES),
    "a.tar": tar_file(FILES, "w"),
    "a.tar.gz": tar_file(FILES),
    "a.tar.bz2": tar_file(FILES, "w:bz2"),
    "a.txz": tar_file(FILES, "w:xz"),
}
ROUTER = Router([LoaderRoute("archive")])


def load(data: bytes, name: str = "a.zip") -> Document:
    loader, document = ROUTER.load(data, f"/x/{name}")
    assert loader == "archive"
    return document


@pytest.mark.parametrize("name", ARCHIVES)
def test_each_file_is_a_document_of_its_own(name: str) -> None:
    document = load(ARCHIVES[name], name)
    assert "manual/pump.md\nmanual/deep/door.txt\n" in document.text
    parts = {part.source.removeprefix(f"/x/{name}/"): part for part in document.parts}
    assert sorted(parts) == ["etc/root.txt", "manual/deep/door.txt", "manual/pump.md", "outside.txt"]
    assert parts["manual/pump.md"].text == "# Pump\n\nThe pump leaks.\n"
    assert parts["manual/pump.md"].format == "markdown"
    assert {part.metadata["parent"] for part in parts.values()} == {f"/x/{name}"}


@pytest.mark.parametrize("name", ARCHIVES)
def test_without_the_loader_an_archive_is_skipped(name: str) -> None:
    with pytest.raises(UnsupportedFormat, match="archive"):
        Router().load(ARCHIVES[name], f"/x/{name}")


def test_names_that_occur_twice_are_kept_apart() -> None:
    document = load(tar_file({"a/b.txt": b"one", "a//b.txt": b"two", "a/./b.txt": b"three"}))
    assert [(part.source, part.text) for part in document.parts] == [
        ("/x/a.zip/a/b.txt", "one"),
        ("/x/a.zip/a/2-b.txt", "two"),
        ("/x/a.zip/a/3-b.txt", "three"),
    ]


def test_archives_in_archives_and_office_files_keep_their_loaders() -> None:
    document = load(zip_file({"inner.zip": ARCHIVES["a.zip"], "inner.tgz": ARCHIVES["a.tar.gz"], "b.txt": b"words"}))
    assert [part.source for part in document.parts] == ["/x/a.zip/b.txt"]
    book = zip_file({"mimetype": b"application/epub+zip", "META-INF/container.xml": b"<x/>"})
    with pytest.raises(LoadError):
        ROUTER.load(book, "/x/book.zip")
    assert ROUTER.select_route(book, "/x/book.zip").name == "epub"


BOMB = b"\0" * 40_000_000


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (zip_file({"a.txt": BOMB}), ZipOptions(), "unpacks to 1025 times its size, the limit is 200"),
        (tar_file({"a.txt": BOMB}), ZipOptions(), "unpacks to .* times its size, the limit is 200"),
        (tar_file({"a.txt": BOMB}, "w"), ZipOptions(max_expanded_mb=10), "unpacks to .* MB, the limit is 10 MB"),
        (tar_file({str(n): b"x" for n in range(30)}), ZipOptions(max_entries=20), "has more than 20 entries"),
        (zip_file({str(n): b"x" for n in range(30)}), ZipOptions(max_entries=20), "has 30 zip entries"),
    ],
)
def test_bombs_are_errors(data: bytes, options: ZipOptions, message: str) -> None:
    with pytest.raises(LoadLimitExceeded, match=message):
        ArchiveLoader(options).load(data, "/x/a.zip")


@pytest.mark.parametrize(
    "data", [ARCHIVES["a.zip"][:-30], ARCHIVES["a.tar.gz"][:60], b"\x1f\x8b\x08nothing", b"BZhno", b"PK\x03\x04no"]
)
def test_damaged_archives_are_errors(data: bytes) -> None:
    with pytest.raises(LoadError):
        ROUTER.load(data, "/x/a.zip")


def test_a_pipeline_reads_archives_in_place(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    path = tmp_path / "docs" / "manuals.zip"
    path.write_bytes(ARCHIVES["a.zip"])
    embed = "embed: {name: hashing, dimension: 64}\n"
    with KnowledgeBase.open(tmp_path / "without", Pipeline.from_yaml(embed)) as kb:
        report = kb.index(tmp_path / "docs")
        assert report.skipped == ((str(path), "zip archives are not supported"),)
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(embed + "load: {name: archive}\n")) as kb:
        assert kb.index(tmp_path / "docs").files["added"] == 1
        assert kb.search("pump leaks")[0].chunk.source == f"{path}/manual/pump.md"
        assert "pump leaks" in kb.ask("What about the pump?").text
        path.write_bytes(zip_file({"manual/pump.md": b"# Pump\n\nIt was replaced by a siphon.\n"}))
        kb.index(tmp_path / "docs")
        assert "siphon" in kb.search("siphon")[0].text
        assert kb.search("red door")[0].chunk.source.endswith((".zip", "pump.md"))

"""Selection of loaders, and their fingerprint."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path

import pytest

from ragkit.errors import LoadError, MissingExtra, UnknownName, UnsupportedFormat
from ragkit.load import LOADERS
from ragkit.load.files.walk import FolderOptions
from ragkit.load.folder import FolderLoader
from ragkit.load.options import LOADER_VERSIONS, CsvOptions, HtmlOptions
from ragkit.load.process.ipc import encode_request, read_request
from ragkit.load.router import LoaderRoute, Router
from tests.load import odf_files, ole_files, sample_files, scan_files
from tests.load.record_files import database, table_data

ODS_ROW = "<table:table-row><table:table-cell><text:p>x</text:p></table:table-cell></table:table-row>"
PDF = sample_files.pdf([["words"]])


def test_a_file_goes_to_the_loader_of_its_format() -> None:
    name, document = Router().load(b"# Title", "/x/a.md")
    assert (name, document.title, document.source) == ("markdown", "Title", "/x/a.md")


def test_the_options_of_a_route_apply_when_its_loader_is_detected() -> None:
    router = Router([LoaderRoute("html", HtmlOptions(navigation=True))])
    page = b"<!doctype html><nav>menu</nav><p>words"
    assert router.load(page, "/x/a.html")[1].text == "menu\n\nwords"
    assert router.load(page, "/x/a.pdf")[1].text == "menu\n\nwords"


def test_a_route_by_suffix_applies_when_the_content_matches() -> None:
    router = Router(
        [LoaderRoute("pypdf", suffixes=(".PDF",)), LoaderRoute("csv", CsvOptions(delimiter=":"), (".dat",))]
    )
    assert router.load(PDF, "/x/a.pdf")[0] == "pypdf"
    assert router.load(PDF, "/x/a.bin")[0] == "pdf"
    assert router.load(b"a:b\n1:2", "/x/a.dat")[1].text == "a: 1; b: 2"
    assert router.load(b"<!doctype html><p>x", "/x/a.pdf")[0] == "html"


def test_a_route_by_suffix_applies_to_unsupported_formats() -> None:
    data = b"%!PS-Adobe-3.0 hello"
    with pytest.raises(UnsupportedFormat, match="PostScript is not supported"):
        Router().load(data, "/x/a.ps")
    assert Router([LoaderRoute("text", suffixes=(".ps",))]).load(data, "/x/a.ps")[0] == "text"


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "PGP "])
def test_a_private_key_is_rejected_regardless_of_name_and_route(kind: str) -> None:
    block = " BLOCK" if kind == "PGP " else ""
    data = f"\n-----BEGIN {kind}PRIVATE KEY{block}-----\nMIIE".encode()
    for router in (Router(), Router([LoaderRoute("text", suffixes=(".txt",))])):
        with pytest.raises(UnsupportedFormat, match=r"looks like a secret \(private key\)"):
            router.load(data, "/x/notes.txt")


@pytest.mark.parametrize("text", ["-----BEGIN PUBLIC KEY-----", "A key begins with -----BEGIN PRIVATE KEY-----"])
def test_a_text_about_keys_is_a_document(text: str) -> None:
    assert Router().load(text.encode(), "/x/notes.txt")[1].text == text


def test_a_loader_can_be_selected_by_name() -> None:
    assert Router().load(b"a,b\n1,2\n", "/x/a.txt", "csv")[1].text == "a: 1; b: 2"


def test_a_route_to_an_unknown_loader_is_rejected() -> None:
    with pytest.raises(UnknownName, match=r"unknown loader 'cvs' \(did you mean 'csv'\?\)"):
        Router([LoaderRoute("cvs")])


def test_the_folder_loader_accepts_every_format() -> None:
    loader = FolderLoader(FolderOptions(include=("*.md",)))
    assert loader.load(PDF, "/x/a.pdf").format == "pdf"
    assert loader.load(b"# x", "/x/a.md").format == "markdown"
    with pytest.raises(UnsupportedFormat, match="image of an unknown format"):
        loader.load(b"\x89PNG\r\n\x1a\n", "/x/a.png")


def test_a_missing_package_is_named_with_its_install_command() -> None:
    with pytest.raises(MissingExtra, match=r"the loader 'unstructured' needs .*'ragkit-kb\[unstructured\]'"):
        Router([LoaderRoute("unstructured", suffixes=(".odt",))]).load(b"x", "/x/a.odt")


@pytest.mark.parametrize("name", sorted(set(LOADERS.specs) - {"doc", "rtf", "xml"}))  # these have none
def test_the_options_of_every_loader_have_defaults_and_can_be_sent(name: str) -> None:
    options_class = LOADERS.options_class(name)
    assert options_class is not None
    assert is_dataclass(options_class)
    route = LoaderRoute(name, options_class(), (".x",))
    assert read_request(io.BytesIO(encode_request(route))) == route
    assert all(field.default is not MISSING or field.default_factory is not MISSING for field in fields(options_class))


@pytest.mark.parametrize("name", sorted(set(LOADERS.specs) - {"unstructured"}))
def test_every_loader_keeps_the_protocol(name: str) -> None:
    loader = LOADERS.find(name)()
    assert loader.version == LOADER_VERSIONS[name]
    try:
        assert loader.load(b"", "/x/a").text == ""
    except LoadError as error:
        assert (error.source, error.reason, error.hint) == ("/x/a", error.reason, error.hint)
        assert error.reason
        assert error.hint


@pytest.mark.rotating
@pytest.mark.parametrize("name", sorted(set(LOADERS.specs) - {"unstructured"}))
def test_every_loader_gives_the_same_document_for_the_same_bytes(name: str) -> None:
    examples = {"pdf": PDF, "pypdf": PDF, "docx": sample_files.word(), "epub": sample_files.book({"a": "<h1>x</h1>"})}
    examples |= {
        "pptx": sample_files.slides([("a", "b", "")]),
        "xlsx": sample_files.workbook({"a": [["x", 1], ["y", 2]]}),
        "odt": odf_files.text("<text:p>x</text:p>"),
        "odp": odf_files.show([("a", "b", "")]),
        "ods": odf_files.sheets(
            {"a": "<table:table-row><table:table-cell><text:p>x</text:p></table:table-cell></table:table-row>"}
        ),
        "doc": ole_files.word_file([("words", True)]),
        "ppt": ole_files.show_file([("a", "b", "")]),
        "xls": ole_files.sheet_file([["x", 1.0], ["y", 2.0]]),
        "msg": ole_files.message_file({"1000": "words"}),
        "rtf": b"{\\rtf1 words}",
        "parquet": table_data(),
        "sqlite": database(),
        "archive": sample_files.book({"a": "<h1>x</h1>"}),
        "image": scan_files.save(scan_files.draw(sample_files.pdf([["Several words of a page"]])), "PNG"),
        "data": b"<rows><row><a>x</a></row></rows>",
        "notebook": b'{"cells": [{"cell_type": "markdown", "source": "words"}]}',
    }
    data = examples.get(name, b'\n{"a": "x"}\n')
    first, second = LOADERS.find(name)(), LOADERS.find(name)()
    assert first.load(data, "/x/a") == first.load(data, "/x/a") == second.load(data, "/x/a")
    loaded = first.load(data, "/x/a")
    assert loaded.text or loaded.parts  # records are documents of their own


VENDORS = ["charset_normalizer", "docx", "lxml", "markdown_it", "numpy", "openpyxl", "pptx", "pypdf", "pypdfium2"]


def test_walk_and_options_import_no_vendor_package() -> None:
    code = (
        "import sys, ragkit.load, ragkit.load.files.walk, ragkit.load.options, ragkit.load.file_types\n"
        f"print([name for name in {VENDORS} if name in sys.modules])"
    )
    root = Path(__file__).parents[2]
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert result.stdout == "[]\n"

"""Scanned pages and images of pages, read with Tesseract."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ragkit.errors import InvalidOption, LoadError, LoadLimitExceeded, UnsupportedFormat
from ragkit.load.detect import detect_loader
from ragkit.load.ocr_options import OcrOptions
from ragkit.load.options import ImageOptions, PdfOptions
from ragkit.load.pages.layout import lay_out
from ragkit.load.pages.ocr.engine import OcrEngine
from ragkit.load.pages.ocr.image import ImageLoader
from ragkit.load.pages.ocr.page import build_page
from ragkit.load.pages.ocr.words import OcrWord, PageImage
from ragkit.load.pages.pdf import PdfLoader
from ragkit.places import describe_place
from tests.load import sample_files, scan_files

LINES = ["The heron stands in shallow water", "and waits for fish until the evening.", "It flies home after sunset."]
TEXT = " ".join(LINES)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of pages of this test only."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ragkit" / "ocr"


def words(text: str) -> str:
    return " ".join(text.split())


def read(data: bytes, **options: object) -> str:
    return words(PdfLoader(PdfOptions(**options)).load(data, "/x/a.pdf").text)  # type: ignore[arg-type]


def test_a_scanned_page_is_read_and_says_so() -> None:
    document = PdfLoader().load(scan_files.scan(sample_files.pdf([LINES])), "/x/a.pdf")
    assert words(document.text) == TEXT
    assert document.metadata["ocr_pages"] == [1]
    confidence = document.metadata["ocr_confidence"]
    assert isinstance(confidence, float)
    assert 0.8 < confidence <= 1


def test_only_pages_without_text_are_read_as_images() -> None:
    data = scan_files.scan(sample_files.pdf([LINES, LINES, ["good text " * 8]]), only=[1])
    document = PdfLoader().load(data, "/x/a.pdf")
    assert document.metadata["ocr_pages"] == [2]
    first, second, third = document.text.split("\f") if "\f" in document.text else document.text.split("\n\n")
    assert (words(first), words(second), words(third)) == (TEXT, TEXT, ("good text " * 8).strip())


def test_a_citation_says_that_its_page_was_read_by_ocr() -> None:
    document = PdfLoader().load(scan_files.scan(sample_files.pdf([LINES, LINES]), only=[1]), "/x/a.pdf")
    at = document.page_starts[1]
    assert describe_place(document, 0, 10, (1, 1)) == "page 1"
    assert describe_place(document, at, at + 10, (1, 1)) == "page 2, read by OCR"
    assert describe_place(document, 0, at + 10, (1, 1)) == "pages 1-2, read by OCR"


def test_columns_of_a_scan_are_read_one_after_the_other() -> None:
    left = [f"Left column line {name} of the page" for name in ("one", "two", "three", "four", "five", "six")]
    right = [f"Right column line {name} of the page" for name in ("one", "two", "three", "four", "five", "six")]
    assert read(scan_files.scan(scan_files.two_columns(left, right))) == " ".join([*left, *right])


def test_lines_of_columns_that_are_read_in_turns_are_put_in_order() -> None:
    left = [f"These words stand in line {number} on the left side" for number in range(10)]
    right = [f"Those words stand in line {number} on the right side" for number in range(10)]
    pairs = enumerate(zip(left, right, strict=True))
    found = [
        OcrWord(text, x0, 100.0 + 40 * row, x0 + 700, 130.0 + 40 * row, 90, 2 * row + side)
        for row, pair in pairs
        for side, (text, x0) in enumerate(zip(pair, (100.0, 900.0), strict=True))
    ]
    page = build_page(found, PageImage(1700, 2200, b"\xff" * 1700 * 2200, 200))
    assert [line.text for line in lay_out(page, tables=True).lines] == [*left, *right]


@pytest.mark.parametrize("dot", [". ", "."])
def test_contents_and_indexes_with_leaders_are_lines_not_tables(dot: str) -> None:
    entries = [("Installing", 27), ("Shell variables and their values", 42), ("Reporting bugs", 133), ("Index", 140)]
    data = scan_files.scan(scan_files.contents(entries * 4, dot))
    lines = [line for line in PdfLoader().load(data, "/x/a.pdf").text.split("\n") if line]
    assert lines == [f"{title} ...... {page}" for title, page in entries] * 4


@pytest.mark.parametrize("angle", [0, 0.3, -0.6])
def test_a_ruled_table_of_a_turned_scan_keeps_cells_of_several_lines(angle: float) -> None:
    [page] = scan_files.draw(scan_files.ruled_table())
    turned = page.rotate(angle, fillcolor=255, resample=Image.Resampling.BICUBIC)
    document = ImageLoader().load(scan_files.save([turned], "PNG"), "/x/a.png")
    assert [line for line in document.text.split("\n") if line] == [
        "Package | Size | Description",
        "alpha | some | Tools that encrypt the blocks of a disk",
        "beta | many | Tools that encrypt the files of a folder",
        "gamma | both | Reads both",
    ]


def test_an_ellipsis_is_no_leader() -> None:
    line = "And so on ... until the end of the day ...."
    assert read(scan_files.scan(sample_files.pdf([[line, *LINES]]))) == f"{line} {TEXT}"


def test_specks_and_a_low_resolution_change_no_word() -> None:
    [page] = scan_files.draw(sample_files.pdf([LINES]), dpi=150)
    pixels = np.asarray(page).copy()
    pixels[np.random.default_rng(1).random(pixels.shape) < 0.001] = 0
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", dpi=(150, 150))
    assert words(ImageLoader().load(out.getvalue(), "/x/a.png").text) == TEXT


def test_a_blank_page_costs_no_reading(cache: Path) -> None:
    data = scan_files.scan(sample_files.pdf([[], LINES]))
    assert PdfLoader().load(data, "/x/a.pdf").metadata["ocr_pages"] == [2]
    assert len(list(cache.glob("*/*.json"))) == 1


def test_a_page_is_read_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = scan_files.scan(sample_files.pdf([LINES]))
    before = read(data)
    [kept] = cache.glob("*/*.json")

    def fail(self: OcrEngine, pixels: object, dpi: int, *, has_grid: bool) -> list[object]:
        raise AssertionError("read twice")

    monkeypatch.setattr(OcrEngine, "_recognize", fail)
    assert read(data) == before
    kept.write_text("{damaged")
    with pytest.raises(AssertionError, match="read twice"):
        read(data)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF"])
def test_an_image_of_a_page_is_a_document(kind: str) -> None:
    data = scan_files.save(scan_files.draw(sample_files.pdf([LINES])), kind)
    assert detect_loader(data, f"/x/a.{kind.lower()}") == "image"
    document = ImageLoader().load(data, f"/x/a.{kind.lower()}")
    assert words(document.text) == TEXT
    assert (document.format, document.metadata["pages"]) == ("image", 1)


def test_a_tiff_has_the_pages_of_its_frames() -> None:
    data = scan_files.save(scan_files.draw(sample_files.pdf([LINES, ["Another page about otters and rivers"]])), "TIFF")
    document = ImageLoader().load(data, "/x/fax.tiff")
    assert document.metadata["pages"] == 2
    assert words(document.text[: document.page_starts[1]]) == TEXT
    assert words(document.text[document.page_starts[1] :]) == "Another page about otters and rivers"


def test_a_transparent_image_is_read_on_white() -> None:
    [page] = scan_files.draw(sample_files.pdf([LINES]))
    clear = Image.new("LA", page.size)
    clear.putalpha(page.point(lambda shade: 255 - shade))
    assert words(ImageLoader().load(scan_files.save([clear], "PNG"), "/x/a.png").text) == TEXT


def test_a_photograph_on_its_side_is_turned_upright() -> None:
    [page] = scan_files.draw(sample_files.pdf([LINES]))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned by 90 degrees clockwise
    out = io.BytesIO()
    page.rotate(90, expand=True).save(out, "JPEG", exif=exif, dpi=(200, 200))
    assert words(ImageLoader().load(out.getvalue(), "/x/a.jpg").text) == TEXT


def test_icons_and_pictures_are_no_documents() -> None:
    with pytest.raises(UnsupportedFormat, match="image of 64 x 64 pixels, too small for text"):
        ImageLoader().load(scan_files.save([Image.new("L", (64, 64), 255)], "PNG"), "/x/icon.png")
    with pytest.raises(UnsupportedFormat, match="image without text"):
        ImageLoader().load(scan_files.save([Image.linear_gradient("L").resize((600, 600))], "PNG"), "/x/sky.png")


def test_a_damaged_image_fails_with_one_line() -> None:
    data = scan_files.save(scan_files.draw(sample_files.pdf([LINES])), "PNG")
    with pytest.raises(LoadError, match="damaged image"):
        ImageLoader().load(data[: len(data) // 3], "/x/a.png")


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    data = bytearray(scan_files.save([Image.new("1", (400, 400), 1)], "PNG"))
    data[16:24] = (30_000).to_bytes(4, "big") * 2  # the size in its header
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    with pytest.raises(LoadLimitExceeded, match="has a page of 30000 x 30000 pixels, the limit is 100 million"):
        ImageLoader().load(bytes(data), "/x/a.png")
    pages = scan_files.save([Image.new("1", (300, 300), 1)] * 4, "TIFF")
    with pytest.raises(LoadLimitExceeded, match="more than 3 pages"):
        ImageLoader(ImageOptions(max_pages=3)).load(pages, "/x/a.tiff")


def test_a_language_without_data_names_those_that_have_it() -> None:
    with pytest.raises(InvalidOption, match=r"languages must be one of .*eng.* \(got 'xyz'\)"):
        read(scan_files.scan(sample_files.pdf([LINES])), ocr=OcrOptions(languages=("eng", "xyz")))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"languages": ()}, "at least one language"),
        ({"languages": ("../eng",)}, "names of Tesseract"),
        ({"dpi": 20}, r"in \[72, 600\]"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        OcrOptions(**options)  # type: ignore[arg-type]


def run_index(folder: Path, *arguments: str, without: str = "") -> subprocess.CompletedProcess[str]:
    """`ragkit index docs --json` in `folder`; `without` is a package that cannot be imported."""
    code = f"import sys; sys.modules[{without!r}] = None; " if without else "import sys; "
    code += "from ragkit.cli import main; sys.exit(main())"
    root = str(Path(__file__).parents[3])
    if without:  # in the parse workers too
        site = folder / "site"
        site.mkdir(exist_ok=True)
        (site / "sitecustomize.py").write_text(f"import sys\nsys.modules[{without!r}] = None\n")
        root = os.pathsep.join([str(site), root])
    env = {**os.environ, "PYTHONPATH": root, "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-c", code, "index", "docs", "--json", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=900)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a scan, a file with a scanned page, and a pipeline without a model."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "scan.pdf").write_bytes(scan_files.scan(sample_files.pdf([LINES])))
    (docs / "mixed.pdf").write_bytes(scan_files.scan(sample_files.pdf([LINES, LINES, LINES]), only=[1, 2]))
    (tmp_path / "ragkit.yaml").write_text("embed: {name: hashing, dimension: 64}\n")
    return tmp_path


def test_without_the_extra_the_pages_and_the_command_are_named(folder: Path) -> None:
    report = json.loads(run_index(folder, without="tesserocr").stdout)
    [failure] = report["failures"]
    assert failure["source"].endswith("scan.pdf")
    assert failure["error"].startswith("no text layer")
    assert "[ocr]" in failure["hint"]
    [note] = [note for note in report["notes"] if "scanned" in note]
    assert "2 scanned pages of 1 file left out" in note
    assert "mixed.pdf: 2-3" in note
    assert "[ocr]" in note


def test_a_dry_run_says_how_long_scans_take_and_reads_none(folder: Path) -> None:
    report = json.loads(run_index(folder, "--dry-run").stdout)
    assert any("3 scanned pages of 2 files to read: about 6 s of CPU time" in note for note in report["notes"])
    assert not (folder / "cache" / "ragkit" / "ocr").exists()


@pytest.mark.parametrize(("count", "first"), [(12, 3), pytest.param(100, 40, marks=pytest.mark.slow)])
def test_a_killed_run_reads_no_page_twice(folder: Path, count: int, first: int) -> None:
    (folder / "docs" / "mixed.pdf").unlink()
    pages = [[f"Page number {number} of the book", *LINES] for number in range(count)]
    (folder / "docs" / "scan.pdf").write_bytes(scan_files.scan(sample_files.pdf(pages)))
    cache = folder / "cache" / "ragkit" / "ocr"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-c", "import sys; from ragkit.cli import main; sys.exit(main())", "index", "docs"]
    process = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20 + 5 * count
    while len(list(cache.glob("*/*.json"))) < first:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.5)  # its workers end by themselves
    written = {path: path.stat().st_ino for path in cache.glob("*/*.json")}
    assert first <= len(written) < count
    report = json.loads(run_index(folder).stdout)
    assert report["files"]["added"] == 1
    kept = {path: path.stat().st_ino for path in cache.glob("*/*.json")}
    assert len(kept) == count
    assert {path: kept[path] for path in written} == written

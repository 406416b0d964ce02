"""Pictures of text on pages with text, scans that stand on their head, and letters on coloured grounds."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen import canvas

from ragkit.load.options import PdfOptions
from ragkit.load.pages.ocr.image import ImageLoader
from ragkit.load.pages.ocr.preprocess import whiten_grounds
from ragkit.load.pages.pdf import PdfLoader
from ragkit.load.process.parser_state import set_reads_scans
from ragkit.records import Document
from tests.load import sample_files, scan_files
from tests.load.pages.test_layout import draw

RATES = ["Rate from June: 41 marks", "Rate from July: 43 marks"]
LINES = ["The heron stands in shallow water", "and waits for fish until the evening.", "It flies home after sunset."]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of pages of this test only."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def picture(lines: list[str], ink: int = 0, paper: int = 255, width: int = 700) -> Image.Image:
    """Lines of print, at 200 dpi."""
    height = 30 + 44 * len(lines)
    [page] = scan_files.draw(sample_files.pdf([lines]))
    top = page.height - round(720 * 200 / 72) - 50
    shades = np.asarray(page.crop((180, top, 180 + width, top + height)), np.float32)
    return Image.fromarray((ink + shades * (paper - ink) / 255).astype(np.uint8))


def with_picture(image: Image.Image, left: float = 72, top: float = 700) -> Document:
    """A page with a line above and below a picture."""

    def page(sheet: canvas.Canvas) -> None:
        sheet.drawString(72, 740, "The rates of the year are shown here.")
        width, height = image.width * 72 / 200, image.height * 72 / 200
        sheet.drawImage(ImageReader(image), left, top - height, width, height)
        sheet.drawString(72, 560, "They hold for all halls of the works.")

    return PdfLoader().load(draw(page), "/x/a.pdf")


@pytest.mark.parametrize(("ink", "paper", "left"), [(0, 255, 72), (0, 255, 200), (255, 0, 72), (60, 240, 100)])
def test_a_picture_of_text_is_read_where_it_stands(ink: int, paper: int, left: float) -> None:
    document = with_picture(picture(RATES, ink, paper), left)
    first, *read, last = document.text.split("\n\n")
    assert (first, last) == ("The rates of the year are shown here.", "They hold for all halls of the works.")
    assert " ".join(read) == " ".join(RATES)
    assert document.metadata["ocr_pages"] == [1]


@pytest.mark.parametrize(
    "image",
    [
        Image.linear_gradient("L").resize((700, 300)),
        Image.fromarray(np.random.default_rng(1).integers(0, 255, (300, 700), np.uint8)),
        Image.new("L", (700, 300), 255),
        picture(["Pump"]),
    ],
)
def test_photographs_and_drawings_add_nothing(image: Image.Image) -> None:
    document = with_picture(image)
    text = "The rates of the year are shown here.\nThey hold for all halls of the works."
    assert document.text.replace("\n\n", "\n") == text
    assert "ocr_pages" not in document.metadata


def test_pictures_that_may_not_be_read_are_named() -> None:
    try:
        set_reads_scans(False)
        document = with_picture(picture(RATES))
    finally:
        set_reads_scans(True)
    assert document.metadata["pages_with_pictures"] == [1]
    assert "41" not in document.text


def test_a_picture_below_its_text_layer_is_read_once() -> None:
    image = picture(RATES)

    def page(sheet: canvas.Canvas) -> None:
        sheet.drawImage(ImageReader(image), 72, 600, image.width * 72 / 200, image.height * 72 / 200)
        for number, line in enumerate(RATES):
            sheet.drawString(80, 618 - 14 * number, line)

    assert PdfLoader().load(draw(page), "/x/a.pdf").text.split("\n") == RATES


@pytest.mark.parametrize("angle", [90, 180, 270])
@pytest.mark.parametrize("is_pdf", [True, False])
def test_a_scan_in_any_direction_is_read(angle: int, is_pdf: bool) -> None:
    [page] = scan_files.draw(sample_files.pdf([LINES * 3]))
    turned = page.rotate(angle, expand=True)
    if is_pdf:
        out = io.BytesIO()
        sheet = canvas.Canvas(out, pagesize=(turned.width * 0.36, turned.height * 0.36))
        sheet.drawImage(ImageReader(turned), 0, 0, turned.width * 0.36, turned.height * 0.36)
        sheet.save()
        document = PdfLoader().load(out.getvalue(), "/x/a.pdf")
    else:
        document = ImageLoader().load(scan_files.save([turned], "PNG"), "/x/a.png")
    assert " ".join(document.text.split()) == " ".join(LINES * 3)


def test_a_table_on_its_head_has_its_rows() -> None:
    [page] = scan_files.draw(scan_files.ruled_table())
    read = [ImageLoader().load(scan_files.save([page.rotate(angle)], "PNG"), "/x/a.png").text for angle in (0, 180)]
    assert read[0] == read[1]
    assert "alpha | some | Tools that encrypt the blocks of a disk" in read[1]


def grid(
    fill: tuple[int, int, int], ink: tuple[int, int, int], rows: Callable[[int], bool], *, says_dpi: bool = True
) -> str:
    """The text of a table of four rows of which some have a coloured ground."""
    lines = ["Category People Done Accuracy", "Blind 5 1 34.5%", "Dexterity 5 4 98.3%", "Mobility 3 3 95.4%"]
    image = Image.new("RGB", (1400, 460), "white")
    pen = ImageDraw.Draw(image)
    for row, line in enumerate(lines):
        top = 30 + 100 * row
        if rows(row):
            pen.rectangle((30, top, 1310, top + 100), fill=fill)
        for column, word in enumerate(line.split()):
            [shades] = scan_files.draw(sample_files.pdf([[word]]), dpi=200)
            y = shades.height - 2000 - 45
            mask = shades.crop((190, y, 190 + 280, y + 60)).point(lambda shade: 255 - shade)
            pen.bitmap((50 + 320 * column, top + 25), mask, fill=ink if rows(row) else (0, 0, 0))
    for at in range(5):
        pen.line((30, 30 + 100 * at, 1310, 30 + 100 * at), fill="black", width=3)
        pen.line((30 + 320 * at, 30, 30 + 320 * at, 430), fill="black", width=3)
    out = io.BytesIO()
    image.save(out, "PNG", **({"dpi": (200, 200)} if says_dpi else {}))
    return ImageLoader().load(out.getvalue(), "/x/a.png").text


@pytest.mark.parametrize(
    ("fill", "ink", "rows"),
    [
        ((143, 180, 227), (0, 0, 0), lambda row: row == 0),
        ((200, 200, 200), (0, 0, 0), lambda row: row % 2 == 1),
        ((31, 73, 125), (255, 255, 255), lambda row: row == 0),
        ((112, 173, 71), (255, 255, 255), lambda row: row in (0, 3)),
    ],
)
def test_rows_on_a_coloured_ground_are_rows(
    fill: tuple[int, int, int], ink: tuple[int, int, int], rows: Callable[[int], bool]
) -> None:
    for says_dpi in (True, False):
        assert grid(fill, ink, rows, says_dpi=says_dpi).split("\n") == [
        "Category | People | Done | Accuracy", "Blind | 5 | 1 | 34.5%", "Dexterity | 5 | 4 | 98.3%",
        "Mobility | 3 | 3 | 95.4%",
    ]  # fmt: skip


def test_a_page_without_coloured_grounds_stays_as_it_is() -> None:
    [page] = scan_files.draw(sample_files.pdf([LINES]))
    pixels = np.asarray(page)
    assert (whiten_grounds(pixels, 200) == pixels).all()


def test_pictures_can_be_left_out() -> None:
    image = picture(RATES)

    def page(sheet: canvas.Canvas) -> None:
        sheet.drawString(72, 740, "The rates of the year are shown here.")
        sheet.drawImage(ImageReader(image), 72, 600, image.width * 72 / 200, image.height * 72 / 200)

    assert "41" not in PdfLoader(PdfOptions(ocr=None)).load(draw(page), "/x/a.pdf").text

"""Pictures of PDF pages, and where marks stand in them."""

from __future__ import annotations

import pytest

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.pages import picture as pdf_picture
from ragkit.load.pages.picture import MAX_PIXELS, MAX_SIDE, draw_page, fit_size
from ragkit.load.pages.rectangles import Rectangle, _mark
from tests.load import sample_files


def test_a_page_that_cannot_be_drawn_is_one_clear_line() -> None:
    with pytest.raises(LoadError, match=r"page 1 cannot be drawn"):
        draw_page(b"%PDF-1.7 nothing", 1, 500)
    with pytest.raises(LoadError, match=r"page 3 cannot be drawn"):
        draw_page(sample_files.pdf([["One page."]]), 3, 500)


def test_a_page_that_takes_too_long_ends_with_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_picture, "TIMEOUT_S", 0.001)
    with pytest.raises(LoadLimitExceeded, match=r"took more than 0\.001 seconds"):
        draw_page(sample_files.pdf([["One page."]]), 1, 500)


@pytest.mark.parametrize("size", [(612, 792), (1, 1), (14_400, 14_400), (14_400, 1), (0, 0), (3, 14_400)])
def test_the_size_of_a_picture_is_bounded(size: tuple[float, float]) -> None:
    width, height = fit_size(*size, 2400)
    assert 0 < width * height <= MAX_PIXELS
    assert max(width, height) <= MAX_SIDE


@pytest.mark.parametrize(
    ("rotation", "expected"),
    [(0, (0.1, 0.0, 0.2, 0.5)), (90, (0.5, 0.1, 0.5, 0.2)), (180, (0.7, 0.5, 0.2, 0.5)), (270, (0.0, 0.7, 0.5, 0.2))],
)
def test_a_mark_turns_with_its_page(rotation: int, expected: tuple[float, ...]) -> None:
    mark = _mark(Rectangle(1, 20, 50, 40, 100), (10, 0, 110, 100), rotation)
    assert (mark.left, mark.top, mark.width, mark.height) == pytest.approx(expected)

"""Parts of whole documents."""

from __future__ import annotations

import pytest

from ragkit.answer.extractive.whole.parts import main_sections, outline
from ragkit.records import Document, Heading

CHART = [(3, "Preface"), (4, "01. Summary"), (2, "$2 Billion"), (2, "85% of mills"), (4, "02. Pumps"), (6, "2.1 Care")]


@pytest.mark.parametrize(
    ("last", "is_page", "sections"),
    [
        ("3. Repair", True, ["01. Summary", "02. Pumps", "3. Repair"]),
        ("2. Repair", True, ["$2 Billion", "85% of mills"]),  # numbers of lists begin anew
        ("3. Repair", False, ["$2 Billion", "85% of mills"]),  # levels are written, not read from sizes
    ],
)
def test_chapters_numbered_through_are_the_main_sections_of_pages(
    last: str, is_page: bool, sections: list[str]
) -> None:
    titles = [*CHART, (5, last)]
    text = "\n".join(title for _, title in titles)
    headings = tuple(Heading(text.index(title), level, title) for level, title in titles)
    document = Document(text, {"source": "a.pdf"}, headings=headings, page_starts=(0,) if is_page else ())
    assert [section.title for section in main_sections(document)] == sections


def test_a_bookmark_that_only_counts_pages_is_no_section() -> None:
    text = "Slide 1\nFrost\nFolie 2\nSlide show"
    headings = tuple(Heading(text.index(title), 1, title) for title in text.split("\n"))
    document = Document(text, {"source": "a.pdf"}, headings=headings, page_starts=(0,))
    assert [section.title for section in outline(document)] == ["Frost", "Slide show"]

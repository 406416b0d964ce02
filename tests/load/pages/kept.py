"""What PDFium says of the pages of a file, against the document that was made of it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pypdfium2 as pdfium

from ragkit.load.shared.noise import LEFT_OUT
from ragkit.records import TABLE_LEVEL, Document


def letters(text: str) -> Counter[str]:
    """The letters and digits of a text."""
    return Counter(filter(str.isalnum, text))


def check_kept(data: bytes, document: Document) -> None:
    """Assert that all letters of PDFium are in the document but those that its metadata account for, and that no page
    with letters is empty. Pages that were read as images are left out."""
    metadata = document.metadata
    assert metadata.get("letters_lost", 0) == 0, metadata["pages_with_loss"]
    as_images = metadata.get("ocr_pages", []), metadata.get("pages_garbled", [])
    left_out = {page for pages in as_images if isinstance(pages, list) for page in pages}
    no_text = metadata.get(LEFT_OUT, 0)
    names = letters(" ".join(heading.text for heading in document.headings if heading.level == TABLE_LEVEL))
    missing = 0
    pdf = pdfium.PdfDocument(data)
    try:
        for number, (start, end) in enumerate(pairwise([*document.page_starts, len(document.text)]), start=1):
            page = pdf[number - 1]
            shown = page.get_textpage().get_text_bounded(*page.get_bbox())
            if number not in left_out:
                text = document.text[start:end]
                assert text.strip() or no_text or not letters(shown), f"page {number} is empty"
                missing += (letters(shown) - letters(text) - names).total()
    finally:
        pdf.close()
    heads = metadata.get("letters_in_running_heads", 0)
    assert isinstance(heads, int) and isinstance(no_text, int)
    assert missing <= heads + no_text, f"{missing} letters are missing, {heads + no_text} accounted for"

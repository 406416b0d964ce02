"""Every PDF that a test of this folder loads is checked: no letter is lost, no page is emptied."""

from __future__ import annotations

import pytest

from ragkit.load.pages.pdf import PdfLoader
from ragkit.records import Document
from tests.load.pages.kept import check_kept


@pytest.fixture(autouse=True)
def _check_kept_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    load = PdfLoader.load

    def load_and_check(self: PdfLoader, data: bytes, source: str) -> Document:
        document = load(self, data, source)
        check_kept(data, document)
        return document

    monkeypatch.setattr(PdfLoader, "load", load_and_check)

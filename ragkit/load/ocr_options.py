"""Options of reading scanned pages, importable without any vendor package."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ragkit.errors import InvalidOption

MIN_DPI, MAX_DPI = 72, 600


@dataclass(frozen=True)
class OcrOptions:
    """How pages without usable text are read, with Tesseract."""

    languages: tuple[str, ...] = ("eng",)
    """Languages of the text by Tesseract's names: `[eng, deu]`. The data of English comes with the extra; that of
    others with the package `tessdata.NAME` (`deu`, `jpn`), or with your system's `tesseract-ocr-NAME`."""
    dpi: int = 200
    """Resolution at which pages are drawn, in [72, 600]; more is slower, and helps with small print."""
    data: str = ""
    """A folder with `.traineddata` files; empty: those of the extra or of the system."""

    def __post_init__(self) -> None:
        if not self.languages:
            raise InvalidOption("languages", self.languages, "at least one language, such as eng")
        for language in self.languages:
            if not re.fullmatch(r"[A-Za-z][A-Za-z_]{1,30}(?:/[A-Za-z_]{1,30})?", language):
                raise InvalidOption("languages", language, "names of Tesseract, such as eng or chi_sim")
        if not MIN_DPI <= self.dpi <= MAX_DPI:
            raise InvalidOption("dpi", self.dpi, f"in [{MIN_DPI}, {MAX_DPI}]")

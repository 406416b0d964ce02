"""Read images of pages with Tesseract: words with their boxes, in pixels.

Pages are kept in a cache by a hash of the image and of the settings, so that a page is read once: an interrupted run
goes on where it stopped.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from secrets import randbelow
from tempfile import NamedTemporaryFile

import numpy as np

from ragkit.errors import InvalidOption, MissingExtra
from ragkit.load.ocr_options import OcrOptions
from ragkit.load.pages.ocr.leaders import remove_dot_leaders
from ragkit.load.pages.ocr.rules import take_grid
from ragkit.load.pages.ocr.words import OcrWord, PageImage, insert_leaders
from ragkit.load.process.parser_state import restart_time_limit

try:
    import tesserocr

    from ragkit.load.pages.ocr.preprocess import Pixels, enlarge, remove_specks, whiten_grounds
except ImportError as error:
    raise MissingExtra("reading scanned pages", extra="ocr") from error

CACHE_DAYS = 180
"""Cached pages that were not read for so long are deleted."""
MIN_CONFIDENCE = 20
"""Words with a lower confidence, in percent, are noise: specks, rules, parts of pictures."""
UPRIGHT = 0.7
"""Confidence below which a page is read upside down too: upright pages have .80 and more, turned ones .61 and less."""
READING = 4
"""Its number is raised when the same image gives other words: cached pages are read again."""
_CLEAN_EVERY = 500  # writes
_SYSTEM_FOLDERS = (
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tessdata",
    "/opt/homebrew/share/tessdata",
)


class OcrEngine:
    """Reads pages, one at a time.

    Raises:
        InvalidOption: no data for a language.
    """

    def __init__(self, options: OcrOptions) -> None:
        self._options = options
        self._folder = _find_data(options)
        self._api: tesserocr.PyTessBaseAPI | None = None

    @classmethod
    @lru_cache(maxsize=4)  # the data of a language takes 0.1 s to load
    def shared(cls, options: OcrOptions) -> OcrEngine:
        """The engine of this process for some options."""
        return cls(options)

    def read(self, image: PageImage) -> tuple[list[OcrWord], PageImage]:
        """The words of a page, in reading order as the engine sees it, without those of low confidence; and the page as
        it was read: upright, black on white."""
        restart_time_limit()
        path = self._cache_path(image)
        pixels = whiten_grounds(np.frombuffer(image.pixels, np.uint8).reshape(image.height, image.width), image.dpi)
        cached = _read_cached(path)
        is_turned, words = self._read_upright(pixels, image.dpi) if cached is None else cached
        if cached is None:
            self._write_cached(path, words, is_turned=is_turned)
        shown = pixels[::-1, ::-1] if is_turned else pixels
        words = [word for word in words if word.confidence >= MIN_CONFIDENCE]
        return words, replace(image, pixels=shown.tobytes())

    def _read_upright(self, pixels: Pixels, dpi: int) -> tuple[bool, list[OcrWord]]:
        """Whether the page stands on its head, and its words."""
        words = self._read_pixels(pixels, dpi)
        if words and mean_confidence(words) < UPRIGHT:
            turned = self._read_pixels(np.ascontiguousarray(pixels[::-1, ::-1]), dpi)
            if sum(word.confidence * len(word.text) for word in turned) > sum(
                word.confidence * len(word.text) for word in words
            ):
                return True, turned
        return False, words

    def _read_pixels(self, pixels: Pixels, dpi: int) -> list[OcrWord]:
        cleaned, leaders = remove_dot_leaders(remove_specks(pixels), dpi)
        cleaned, has_grid = take_grid(cleaned, dpi)
        return insert_leaders(list(self._recognize(cleaned, dpi, has_grid=has_grid)), leaders)

    def _recognize(self, pixels: Pixels, dpi: int, *, has_grid: bool) -> Iterator[OcrWord]:
        if self._api is None:
            languages = "+".join(self._options.languages)
            self._api = tesserocr.PyTessBaseAPI(path=f"{self._folder}/", lang=languages, oem=tesserocr.OEM.LSTM_ONLY)
        api = self._api
        # with tables, rows across the page: the layout step cuts them at the lines of the table
        api.SetPageSegMode(tesserocr.PSM.SINGLE_COLUMN if has_grid else tesserocr.PSM.AUTO)
        large, scale = enlarge(pixels, dpi)
        height, width = large.shape
        api.SetImageBytes(large.tobytes(), width, height, 1, width)
        api.SetSourceResolution(round(dpi * scale))
        api.Recognize()
        results = api.GetIterator()
        line = -1
        for word in tesserocr.iterate_level(results, tesserocr.RIL.WORD) if results is not None else ():
            if word.IsAtBeginningOf(tesserocr.RIL.TEXTLINE):
                line += 1
            with suppress(RuntimeError):  # a picture has no text
                text, box = word.GetUTF8Text(tesserocr.RIL.WORD).strip(), word.BoundingBox(tesserocr.RIL.WORD)
                if text and box:
                    x0, top, x1, bottom = (edge / scale for edge in box)
                    yield OcrWord(text, x0, top, x1, bottom, word.Confidence(tesserocr.RIL.WORD), max(line, 0))
        api.Clear()

    def _cache_path(self, image: PageImage) -> Path:
        size = image.width, image.height, image.dpi
        settings = [READING, tesserocr.tesseract_version(), self._options.languages, *size]
        digest = blake2b(json.dumps(settings).encode(), digest_size=20)
        digest.update(image.pixels)
        name = digest.hexdigest()
        return _cache_folder() / name[:2] / f"{name}.json"

    def _write_cached(self, path: Path, words: list[OcrWord], *, is_turned: bool) -> None:
        with suppress(OSError):  # a full or read-only disk: the page is read again next time
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
                rows = [list(asdict(word).values()) for word in words]
                json.dump({"is_turned": is_turned, "words": rows}, file, ensure_ascii=False)
            os.replace(file.name, path)  # noqa: PTH105
            if randbelow(_CLEAN_EVERY) == 0:
                _delete_old_pages()


def read_data_languages(options: OcrOptions) -> frozenset[str]:
    """The languages with data: `eng`, `deu`."""
    return frozenset(path.stem for folder in _data_folders(options) for path in folder.glob("*.traineddata"))


def _find_data(options: OcrOptions) -> Path:
    """The folder with the data of all languages."""
    for folder in _data_folders(options):
        if all((folder / f"{language}.traineddata").is_file() for language in options.languages):
            return folder
    known = sorted(read_data_languages(options) - {"osd"})
    missing = [language for language in options.languages if language not in known]
    allowed = f"one of {', '.join(known)}" if known else "a language whose data is installed"
    raise InvalidOption(
        "languages", ", ".join(missing or options.languages), f"{allowed}; set `data` to a folder with its .traineddata"
    )


def _data_folders(options: OcrOptions) -> list[Path]:
    import sysconfig  # noqa: PLC0415

    own = Path(sysconfig.get_path("data")) / "share" / "tessdata"
    names = [options.data] if options.data else [os.environ.get("TESSDATA_PREFIX", ""), str(own), *_SYSTEM_FOLDERS]
    return [Path(name) for name in names if name and Path(name).is_dir()]


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "ragkit" / "ocr"


def _read_cached(path: Path) -> tuple[bool, list[OcrWord]] | None:
    """Whether a cached page stands on its head, and its words; None if there is none, or it is damaged."""
    try:
        page = json.loads(path.read_text("utf-8"))
        is_turned, rows = bool(page["is_turned"]), page["words"]
        words = [
            OcrWord(str(text), float(x0), float(top), float(x1), float(bottom), float(confidence), int(line))
            for text, x0, top, x1, bottom, confidence, line in rows
        ]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    with suppress(OSError):
        os.utime(path)
    return is_turned, words


def _delete_old_pages() -> None:
    limit = time.time() - CACHE_DAYS * 86_400
    for path in _cache_folder().glob("*/*.json"):
        with suppress(OSError):
            if path.stat().st_mtime < limit:
                path.unlink()


def mean_confidence(words: list[OcrWord]) -> float:
    """The confidence of a page, in [0, 1], weighted by the lengths of its words; 0 without words."""
    weight = sum(len(word.text) for word in words)
    return sum(word.confidence * len(word.text) for word in words) / (100 * weight) if weight else 0.0


def summarize_confidence(pages: Mapping[int, float]) -> float:
    """The least confidence of the pages, rounded: the metadata `ocr_confidence`."""
    return round(min(pages.values()), 2)

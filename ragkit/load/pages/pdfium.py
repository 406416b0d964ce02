"""PDF files through PDFium: the only module that calls it.

Functions that are called for many characters are called by address: a call takes half the time then.
"""

from __future__ import annotations

import ctypes
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice, repeat
from typing import Any, Self, TypeAlias

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from ragkit.errors import LoadError
from ragkit.load.pages.text import DECRYPT_HINT, MAX_OUTLINE_ENTRIES, SAVE_PDF_AGAIN_HINT, OutlineEntry

Floats: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"
Box: TypeAlias = tuple[float, float, float, float]
"""Left, bottom, right, top."""

MAX_RULES = 4_000
"""Ruled lines that are read per page."""
MAX_OBJECTS = 20_000
"""Objects that are searched for ruled lines per page."""
MAX_SEGMENTS = 4_000
"""Segments of a path; one with more is a drawing."""
ON_EDGE = 1.0
"""Points outside of a clip path at which the middle of a line on its edge may be."""
MAX_ANNOTATIONS = 5_000
"""Annotations that are read per page."""
MAX_CHARS = 20_000
"""Characters of a form value, comment or link; longer ones are cut."""

_FONT_NAME_BYTES = 64
_PATH, _IMAGE, _FORM = 2, 3, 5
_NO_VALUE = (pdfium_c.FPDF_FORMFIELD_PUSHBUTTON, pdfium_c.FPDF_FORMFIELD_SIGNATURE)
_BOXES = (pdfium_c.FPDF_FORMFIELD_CHECKBOX, pdfium_c.FPDF_FORMFIELD_RADIOBUTTON)
_COMMENTS = (
    pdfium_c.FPDF_ANNOT_TEXT,
    pdfium_c.FPDF_ANNOT_HIGHLIGHT,
    pdfium_c.FPDF_ANNOT_UNDERLINE,
    pdfium_c.FPDF_ANNOT_SQUIGGLY,
    pdfium_c.FPDF_ANNOT_STRIKEOUT,
    pdfium_c.FPDF_ANNOT_CARET,
    pdfium_c.FPDF_ANNOT_SQUARE,
    pdfium_c.FPDF_ANNOT_CIRCLE,
    pdfium_c.FPDF_ANNOT_LINE,
    pdfium_c.FPDF_ANNOT_INK,
    pdfium_c.FPDF_ANNOT_STAMP,
    pdfium_c.FPDF_ANNOT_FILEATTACHMENT,
)


def _by_address(function: Any, *arguments: Any, returns: Any = ctypes.c_int) -> Callable[..., Any]:
    """A function of PDFium on (text page, character, *arguments); pointers are addresses."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    return ctypes.PYFUNCTYPE(returns, ctypes.c_void_p, ctypes.c_int, *arguments)(address or 0)


_char_box = _by_address(pdfium_c.FPDFText_GetLooseCharBox, ctypes.c_void_p, returns=None)
_char_matrix = _by_address(pdfium_c.FPDFText_GetMatrix, ctypes.c_void_p, returns=None)
_char_angle = _by_address(pdfium_c.FPDFText_GetCharAngle, returns=ctypes.c_float)
_font_size = _by_address(pdfium_c.FPDFText_GetFontSize, returns=ctypes.c_double)
_char_code = _by_address(pdfium_c.FPDFText_GetUnicode)
_has_map_error = _by_address(pdfium_c.FPDFText_HasUnicodeMapError)
_font_info = _by_address(pdfium_c.FPDFText_GetFontInfo, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, returns=None)


class PdfiumFile:
    """An open PDF file; close it with `with`."""

    def __init__(self, data: bytes, source: str) -> None:
        """Raises LoadError: not a PDF, damaged, or password-protected."""
        self._pdf = _open(data, source)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._pdf.close()

    def __len__(self) -> int:
        """The number of pages."""
        return len(self._pdf)

    def entry(self, key: str) -> str:
        """An entry of the metadata, such as `Title`; '' for none."""
        value: str = self._pdf.get_metadata_value(key)
        return value

    def outline(self) -> Iterator[OutlineEntry]:
        """The entries of the outline that lead to a page of the file."""
        for number, mark in enumerate(self._pdf.get_toc(max_depth=10)):
            if number >= MAX_OUTLINE_ENTRIES:
                return
            target = mark.get_dest()
            page = target.get_index() if target else None
            if page is not None:
                yield OutlineEntry(mark.get_title(), mark.level + 1, page)

    def read_forms(self) -> None:
        """Read the values of form fields too."""
        if self._pdf.get_formtype() != pdfium_c.FORMTYPE_NONE and self._pdf.formenv is None:
            self._pdf.init_forms()

    def page(self, number: int) -> PdfiumPage | None:
        """A page, from 0; None when it cannot be read."""
        try:
            return PdfiumPage(self._pdf[number], self._pdf)
        except pdfium.PdfiumError:
            return None


class PdfiumPage:
    """The characters of an open page; close it with `with`."""

    def __init__(self, page: pdfium.PdfPage, document: pdfium.PdfDocument) -> None:
        self._page, self._document, self._form = page, document, document.formenv
        try:
            self._text_page = page.get_textpage()
        except pdfium.PdfiumError:
            page.close()
            raise
        self._raw = ctypes.cast(self._text_page.raw, ctypes.c_void_p).value
        self.bounds: tuple[float, float, float, float] = page.get_bbox()
        """Of the visible page: left, bottom, right, top in PDF points."""
        self.rotation: int = page.get_rotation()
        """How far the page is turned when it is shown: 0, 90, 180 or 270."""
        self.text = self._read_text()
        """One character per character of PDFium."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._page.close()  # closes its text page too

    def boxes(self, characters: Sequence[int]) -> Floats:
        """Left, top, right, bottom of each character, in PDF points from the bottom left corner."""
        boxes = np.zeros((len(characters), 4), np.float32)
        base = boxes.ctypes.data
        calls = map(_char_box, repeat(self._raw), characters, range(base, base + 16 * len(characters), 16))
        deque(calls, maxlen=0)
        return boxes

    def sizes(self, characters: Sequence[int]) -> list[float]:
        """The font size of each character, in points as it is shown."""
        count = len(characters)
        matrices = np.zeros((count, 6), np.float32)
        base = matrices.ctypes.data
        deque(map(_char_matrix, repeat(self._raw), characters, range(base, base + 24 * count, 24)), maxlen=0)
        sizes = np.fromiter(map(_font_size, repeat(self._raw), characters), np.float64, count)
        shown: list[float] = (sizes * np.hypot(matrices[:, 2], matrices[:, 3])).tolist()
        return shown

    def turns(self, characters: Sequence[int]) -> Floats:
        """How far each character is turned against the page, counterclockwise in degrees from 0 to 360."""
        angles = np.fromiter(map(_char_angle, repeat(self._raw), characters), np.float32, len(characters))
        turns: Floats = np.degrees(angles) % 360
        return turns

    def fonts(self, characters: Sequence[int]) -> list[str]:
        """The name of the font of each character; '' when unknown."""
        size = _FONT_NAME_BYTES
        buffer = ctypes.create_string_buffer(size * len(characters))
        base = ctypes.addressof(buffer)
        places = range(base, base + size * len(characters), size)
        deque(map(_font_info, repeat(self._raw), characters, places, repeat(size), repeat(None)), maxlen=0)
        raw = buffer.raw
        return [_font_name(raw[start : start + size]) for start in range(0, size * len(characters), size)]

    def share_without_map(self, characters: Sequence[int]) -> float:
        """How many of the characters have a font that does not say which character it shows, as a share."""
        errors = sum(1 for code in map(_has_map_error, repeat(self._raw), characters) if code == 1)
        return errors / max(1, len(characters))

    def rules(self) -> Floats:
        """Left, top, right, bottom of each ruled line: thin paths and edges of rectangles, cut by their clip paths."""
        return np.array(list(self._rule_boxes()), np.float32).reshape(-1, 4)

    def _read_text(self) -> str:
        count = self._text_page.count_chars()
        buffer = (ctypes.c_ushort * (count + 1))()
        written = pdfium_c.FPDFText_GetText(self._text_page, 0, count, buffer) - 1
        text = bytes(buffer)[: 2 * max(0, written)].decode("utf-16-le", "surrogatepass")
        if len(text) == count:
            return text
        codes = map(_char_code, repeat(self._raw), range(count))  # characters without a code are left out above
        return "".join(chr(code) if 0 < code <= 0x10FFFF else "\ufffd" for code in codes)

    def _rule_boxes(self) -> Iterator[Box]:
        """Shaded rectangles, without a line around, have no edges: those of rows and lines of text are no cells."""
        fill, stroke = ctypes.c_int(), ctypes.c_int()
        boxes = ((item, matrix, box) for item, matrix in self._paths() for box in _path_boxes(item, matrix))
        for item, matrix, (x0, y0, x1, y1) in islice(boxes, MAX_RULES):
            edges: list[Box] = []
            if x1 - x0 < 4 or y1 - y0 < 4:
                edges = [(x0, y0, x1, y1)]
            elif pdfium_c.FPDFPath_GetDrawMode(item, fill, stroke) and stroke.value:
                edges = [(x0, y1, x1, y1), (x0, y0, x1, y0), (x0, y0, x0, y1), (x1, y0, x1, y1)]
            shown = _clip_box(item, matrix) if edges else (0, 0, 0, 0)
            for edge in edges:
                left, bottom, right, top = (*map(max, edge[:2], shown[:2]), *map(min, edge[2:], shown[2:]))
                if min(right - left, top - bottom) >= 0 and max(right - left, top - bottom) > 6:
                    yield left, top, right, bottom

    def _paths(self) -> Iterator[tuple[Any, pdfium_c.FS_MATRIX]]:
        """The paths of the page, each with the matrix of its form; a page may be nothing but one form."""
        page, matrix = self._page.raw, pdfium_c.FS_MATRIX(1, 0, 0, 1, 0, 0)
        count = pdfium_c.FPDFPage_CountObjects(page)
        items = (pdfium_c.FPDFPage_GetObject(page, number) for number in range(min(count, MAX_OBJECTS)))
        first = pdfium_c.FPDFPage_GetObject(page, 0) if count == 1 else None
        if first is not None and pdfium_c.FPDFPageObj_GetType(first) == _FORM:
            pdfium_c.FPDFPageObj_GetMatrix(first, matrix)
            count = min(pdfium_c.FPDFFormObj_CountObjects(first), MAX_OBJECTS)
            items = (pdfium_c.FPDFFormObj_GetObject(first, number) for number in range(count))
        yield from ((item, matrix) for item in items if pdfium_c.FPDFPageObj_GetType(item) == _PATH)

    def pictures(self) -> Floats:
        """Left, top, right, bottom of each picture, in PDF points from the bottom left corner."""
        page = self._page.raw
        left, bottom, right, top = (ctypes.c_float() for _ in range(4))
        boxes: list[tuple[float, float, float, float]] = []
        for number in range(min(pdfium_c.FPDFPage_CountObjects(page), MAX_OBJECTS)):
            item = pdfium_c.FPDFPage_GetObject(page, number)
            if pdfium_c.FPDFPageObj_GetType(item) == _IMAGE and pdfium_c.FPDFPageObj_GetBounds(
                item, left, bottom, right, top
            ):
                boxes.append((left.value, top.value, right.value, bottom.value))
        return np.array(boxes, np.float32).reshape(-1, 4)

    def draw(self, dpi: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]] | None:
        """The page as it is shown: (height, width) shades of grey, 0 is black; None if it cannot be drawn."""
        try:
            image = self._page.render(scale=dpi / 72, grayscale=True).to_numpy()
        except pdfium.PdfiumError:
            return None
        return np.ascontiguousarray(image.reshape(image.shape[0], image.shape[1]))

    def notes(self) -> Iterator[str]:
        """A line for each annotation: `Name: value` of a form field, the text of a box, `Comment by Ann: ...`."""
        for number in range(min(pdfium_c.FPDFPage_GetAnnotCount(self._page), MAX_ANNOTATIONS)):
            annotation = pdfium_c.FPDFPage_GetAnnot(self._page, number)
            if not annotation:
                continue
            try:
                text = _annotation_text(annotation, self._form)
            finally:
                pdfium_c.FPDFPage_CloseAnnot(annotation)
            if text:
                yield text

    def links(self) -> Iterator[str]:
        """The addresses of the links that lead out of the file, as they stand in it."""
        position, link = ctypes.c_int(0), pdfium_c.FPDF_LINK()
        for _ in range(MAX_ANNOTATIONS):
            if not pdfium_c.FPDFLink_Enumerate(self._page, position, link):
                return
            action = pdfium_c.FPDFLink_GetAction(link)
            if action and pdfium_c.FPDFAction_GetType(action) == pdfium_c.PDFACTION_URI:
                size = min(pdfium_c.FPDFAction_GetURIPath(self._document, action, None, 0), MAX_CHARS)
                buffer = ctypes.create_string_buffer(size + 1)
                pdfium_c.FPDFAction_GetURIPath(self._document, action, buffer, size)
                yield buffer.value.decode("utf-8", "replace").strip()


def _path_boxes(path: Any, matrix: pdfium_c.FS_MATRIX) -> Iterator[Box]:
    """The box of a path; of each of its parts if it is a grid: a path may be all lines of a table."""
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    count = pdfium_c.FPDFPath_CountSegments(path)
    if count > MAX_SEGMENTS or not pdfium_c.FPDFPageObj_GetBounds(path, left, bottom, right, top):
        return
    box = left.value, bottom.value, right.value, top.value
    is_thin = box[2] - box[0] < 4 or box[3] - box[1] < 4
    parts = [] if is_thin or count < 6 else [_box_around(part, matrix) for part in _straight_parts(path, count)]
    if len({round(x0) for x0, y0, x1, y1 in parts if x1 - x0 < 4 < y1 - y0}) > 1:
        yield from parts
    elif count <= 64:
        yield _box_around([box[:2], box[2:]], matrix)


def _clip_box(item: Any, matrix: pdfium_c.FS_MATRIX) -> Box:
    """The box in which all clip paths of an object let it show, and a line on their edges."""
    shown, x, y = [(-math.inf, -math.inf, math.inf, math.inf)], ctypes.c_float(), ctypes.c_float()
    clip = pdfium_c.FPDFPageObj_GetClipPath(item)
    for path in range(pdfium_c.FPDFClipPath_CountPaths(clip)):
        points = []
        for number in range(pdfium_c.FPDFClipPath_CountPathSegments(clip, path)):
            pdfium_c.FPDFPathSegment_GetPoint(pdfium_c.FPDFClipPath_GetPathSegment(clip, path, number), x, y)
            points.append((x.value, y.value))
        left, bottom, right, top = _box_around(points or [(0, 0)], matrix)
        shown.append((left - ON_EDGE, bottom - ON_EDGE, right + ON_EDGE, top + ON_EDGE))
    lefts, bottoms, rights, tops = zip(*shown, strict=True)
    return max(lefts), max(bottoms), min(rights), min(tops)


def _straight_parts(path: Any, count: int) -> list[list[tuple[float, float]]]:
    """The points of each part of a path; [] for one with curves."""
    matrix, x, y = pdfium_c.FS_MATRIX(), ctypes.c_float(), ctypes.c_float()
    pdfium_c.FPDFPageObj_GetMatrix(path, matrix)
    parts: list[list[tuple[float, float]]] = []
    for number in range(count):
        segment = pdfium_c.FPDFPath_GetPathSegment(path, number)
        kind = pdfium_c.FPDFPathSegment_GetType(segment)
        if kind == pdfium_c.FPDF_SEGMENT_BEZIERTO:
            return []
        if kind == pdfium_c.FPDF_SEGMENT_MOVETO or not parts:
            parts.append([])
        pdfium_c.FPDFPathSegment_GetPoint(segment, x, y)
        parts[-1].append(_move((x.value, y.value), matrix))
    return parts


def _move(point: tuple[float, float], matrix: pdfium_c.FS_MATRIX) -> tuple[float, float]:
    x, y = point
    return matrix.a * x + matrix.c * y + matrix.e, matrix.b * x + matrix.d * y + matrix.f


def _box_around(points: Sequence[tuple[float, float]], matrix: pdfium_c.FS_MATRIX) -> Box:
    moved = [_move(point, matrix) for point in points]
    return min(x for x, _ in moved), min(y for _, y in moved), max(x for x, _ in moved), max(y for _, y in moved)


def _open(data: bytes, source: str) -> pdfium.PdfDocument:
    with suppress(pdfium.PdfiumError):
        return pdfium.PdfDocument(data)
    # some files fail without a reason: then PDFium reports that of an earlier file, here of one that is no PDF
    with suppress(pdfium.PdfiumError):
        pdfium.PdfDocument(b"not a PDF").close()
    try:
        return pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if error.err_code == pdfium_c.FPDF_ERR_PASSWORD:
            raise LoadError(source, "password-protected", DECRYPT_HINT) from error
        if error.err_code == pdfium_c.FPDF_ERR_SECURITY:
            raise LoadError(source, "unsupported encryption", "save it without encryption") from error
        raise LoadError(source, "damaged, or not a PDF", SAVE_PDF_AGAIN_HINT) from error


@lru_cache(maxsize=4096)
def _font_name(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("latin-1")


def _annotation_text(annotation: Any, form: pdfium.PdfFormEnv | None) -> str:
    if pdfium_c.FPDFAnnot_GetFlags(annotation) & pdfium_c.FPDF_ANNOT_FLAG_HIDDEN:
        return ""
    kind = pdfium_c.FPDFAnnot_GetSubtype(annotation)
    if kind == pdfium_c.FPDF_ANNOT_WIDGET:
        return _field_text(annotation, form) if form is not None else ""
    if kind == pdfium_c.FPDF_ANNOT_FREETEXT:
        return _entry(annotation, b"Contents")
    if kind not in _COMMENTS:
        return ""
    text, author = _entry(annotation, b"Contents"), _entry(annotation, b"T")
    return f"Comment{f' by {author}' if author else ''}: {text}" if text else ""


def _field_text(annotation: Any, form: pdfium.PdfFormEnv) -> str:
    kind = pdfium_c.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in _NO_VALUE:
        return ""
    if kind in _BOXES:
        if not pdfium_c.FPDFAnnot_IsChecked(form, annotation):
            return ""
        value = _read(lambda buffer, size: pdfium_c.FPDFAnnot_GetFormFieldExportValue(form, annotation, buffer, size))
        value = "yes" if value in ("", "On", "1", "Yes", "true") else value
    else:
        value = _read(lambda buffer, size: pdfium_c.FPDFAnnot_GetFormFieldValue(form, annotation, buffer, size))
    name = _read(lambda buffer, size: pdfium_c.FPDFAnnot_GetFormFieldAlternateName(form, annotation, buffer, size))
    name = name or _read(lambda buffer, size: pdfium_c.FPDFAnnot_GetFormFieldName(form, annotation, buffer, size))
    return f"{name}: {value}" if value else ""


def _entry(annotation: Any, key: bytes) -> str:
    return _read(lambda buffer, size: pdfium_c.FPDFAnnot_GetStringValue(annotation, key, buffer, size))


def _read(call: Callable[[Any, int], int]) -> str:
    """A text that PDFium writes to a buffer, on one line; it returns the bytes that it needs."""
    needed = min(call(None, 0), 2 * MAX_CHARS)
    if needed <= 2:
        return ""
    buffer = (ctypes.c_ushort * (needed // 2 + 1))()
    call(buffer, needed)
    return " ".join(bytes(buffer)[: needed - 2].decode("utf-16-le", "replace").split())

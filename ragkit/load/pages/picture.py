"""Draws a page of a PDF file as a PNG image, in a process of its own: what a file makes PDFium do ends with it.

`draw_page` starts the process: this module, which reads the file from standard input and writes the image.
"""

from __future__ import annotations

import os
import resource
import struct
import subprocess
import sys
import zlib

import pypdfium2 as pdfium

from ragkit.errors import LoadError, LoadLimitExceeded

MAX_PIXELS = 4_000_000
"""Pixels of an image, at most."""
MAX_SIDE = 6_000
"""Pixels of its longer side, at most."""
TIMEOUT_S = 20.0
"""Seconds for one page."""
MAX_MEMORY_BYTES = 1_500_000_000
"""Address space of the process."""
_FAILED = 3
"""Exit status when PDFium cannot draw the page."""


def draw_page(data: bytes, page: int, width: int) -> bytes:
    """A page as a PNG image.

    Args:
        data: the file.
        page: from 1.
        width: pixels from left to right; fewer when the image would be larger than `MAX_PIXELS` or `MAX_SIDE`.

    Raises:
        LoadError: it cannot be drawn, or not in time.
    """
    command = [sys.executable, "-P", "-m", "ragkit.load.pages.picture", str(page), str(width)]
    environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and module
            command, input=data, capture_output=True, timeout=TIMEOUT_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired as error:
        reason = f"page {page} took more than {TIMEOUT_S:g} seconds to draw"
        raise LoadLimitExceeded("", reason, "download the file") from error
    if done.returncode or not done.stdout:
        raise LoadError("", f"page {page} cannot be drawn", "download the file")
    return done.stdout


def fit_size(width: float, height: float, wanted: int) -> tuple[int, int]:
    """Pixels of an image of a page of this size: `wanted` from left to right, or as many as the limits allow."""
    width, height = max(width, 1.0), max(height, 1.0)
    scale = min(wanted / width, (MAX_PIXELS / (width * height)) ** 0.5, MAX_SIDE / max(width, height))
    return max(1, int(width * scale)), max(1, int(height * scale))


def encode_png(rows: list[bytes], width: int) -> bytes:
    """Rows of red, green and blue bytes as a PNG image."""

    def block(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    header = struct.pack(">IIBBBBB", width, len(rows), 8, 2, 0, 0, 0)
    content = zlib.compress(b"".join(b"\0" + row for row in rows), 6)
    return b"\x89PNG\r\n\x1a\n" + block(b"IHDR", header) + block(b"IDAT", content) + block(b"IEND", b"")


def _main(page: int, width: int) -> int:
    """Draw a page of the file in standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (int(TIMEOUT_S), int(TIMEOUT_S) + 1))  # also without a parent
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    try:
        opened = pdfium.PdfDocument(sys.stdin.buffer.read())
        if opened.get_formtype():
            opened.init_forms()  # the values of form fields are drawn
        drawn = opened[page - 1]
        columns, rows = fit_size(drawn.get_width(), drawn.get_height(), width)
        scale = min(columns / max(drawn.get_width(), 1.0), rows / max(drawn.get_height(), 1.0))
        bitmap = drawn.render(scale=scale, rev_byteorder=True, draw_annots=True, no_smoothtext=False)
        image = bytes(bitmap.buffer)
    except (pdfium.PdfiumError, MemoryError, IndexError, ValueError):
        return _FAILED
    channels = bitmap.n_channels
    pixels = [image[start : start + channels * bitmap.width] for start in range(0, len(image), bitmap.stride)]
    sys.stdout.buffer.write(encode_png([_to_rgb(row, channels) for row in pixels[: bitmap.height]], bitmap.width))
    return 0


def _to_rgb(row: bytes, channels: int) -> bytes:
    """A row of pixels with three bytes each."""
    if channels == 3:
        return row
    result = bytearray(len(row) // channels * 3)
    for channel in range(3):
        result[channel::3] = row[min(channel, channels - 1) :: channels]
    return bytes(result)


if __name__ == "__main__":
    sys.exit(_main(int(sys.argv[1]), int(sys.argv[2])))

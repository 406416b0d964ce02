"""Scanned pages as Tesseract reads them best: without specks, and large enough."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from PIL import Image

Pixels: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"

SPECK = 50
"""How much darker than all its neighbours a pixel is that is dirt, in shades."""
LOW_DPI = 180
"""A page of a lower resolution is enlarged: letters of 10 points have too few pixels."""
ENLARGE = 1.5


def remove_specks(pixels: Pixels) -> Pixels:
    """The page, (height, width) shades of grey, without single dark pixels: a stroke has dark neighbours."""
    height, width = pixels.shape
    padded = np.pad(pixels, 1, mode="edge")
    darkest = np.full_like(pixels, 255)
    for down in range(3):
        for right in range(3):
            if (down, right) != (1, 1):
                np.minimum(darkest, padded[down : down + height, right : right + width], out=darkest)
    is_speck = (darkest >= SPECK) & (pixels < darkest - np.uint8(SPECK))
    return np.where(is_speck, darkest, pixels)


def enlarge(pixels: Pixels, dpi: int) -> tuple[Pixels, float]:
    """The page in a resolution that suffices, and how many times larger it is."""
    if dpi >= LOW_DPI:
        return pixels, 1.0
    height, width = pixels.shape
    size = round(width * ENLARGE), round(height * ENLARGE)
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)), ENLARGE

"""Scanned pages as Tesseract reads them best: black on white, without specks, and large enough."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from PIL import Image

Pixels: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"
Mask: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"

SPECK = 50
"""How much darker than all its neighbours a pixel is that is dirt, in shades."""
LOW_DPI = 180
"""A page of a lower resolution is enlarged: letters of 10 points have too few pixels."""
ENLARGE = 1.5
GROUND = range(70, 236)
"""Shades of a coloured ground; a darker one is ink, a lighter one reads as white."""
NEAR_SHADE = 6
"""How much the shade of a ground differs from pixel to pixel."""
MIN_GROUND = 0.01
"""Share of a page that a ground covers: letters of one shade cover less."""
MAX_GROUNDS = 6
"""Shades that are looked at, with those of white paper and of ink."""
MAX_LETTER = 0.35
"""How far the ground on both sides of a pixel on it is away, in inches."""


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


def whiten_grounds(pixels: Pixels, dpi: int) -> Pixels:
    """The page, (height, width) shades of grey, with coloured grounds made white and the letters on them black: rows of
    names above a table, boxes, yellowed paper."""
    counts = np.bincount(pixels.ravel(), minlength=256)
    near = np.convolve(counts, np.ones(2 * NEAR_SHADE + 1, np.int64), "same")
    for _ in range(MAX_GROUNDS):
        shade = int(near.argmax())
        if near[shade] < MIN_GROUND * pixels.size:
            break
        if shade in GROUND:
            pixels = _whiten_ground(pixels, shade, round(MAX_LETTER * dpi))
        near[max(0, shade - 3 * NEAR_SHADE) : shade + 3 * NEAR_SHADE + 1] = 0
    return pixels


def _whiten_ground(pixels: Pixels, shade: int, reach: int) -> Pixels:
    ground = (pixels >= shade - NEAR_SHADE) & (pixels <= shade + NEAR_SHADE)
    ground &= _has_neighbour(ground) & _has_neighbour(ground.T).T  # edges of letters on white have this shade too
    between = _is_between(ground, reach) & _is_between(ground.T, reach).T & ~ground
    values = pixels[between].astype(np.float32)
    dark = values * (255 / shade)
    above = np.maximum(values - shade - 2 * NEAR_SHADE, 0)
    light = 255 - above * (255 / max(255 - shade - 2 * NEAR_SHADE, 1))  # white letters
    whitened = pixels.copy()
    whitened[between] = np.where(values < shade, dark, light).clip(0, 255).astype(np.uint8)
    whitened[ground] = 255
    return whitened


def _has_neighbour(ground: Mask) -> Mask:
    """Whether the pixel on the left or on the right of each pixel is on the ground."""
    found = np.zeros_like(ground)
    found[:, 1:] = ground[:, :-1]
    found[:, :-1] |= ground[:, 1:]
    return found


def _is_between(ground: Mask, reach: int) -> Mask:
    """Whether a pixel of the ground is near on the left and one on the right of each pixel, in its row."""
    width = ground.shape[1]
    places = np.broadcast_to(np.arange(width, dtype=np.int32), ground.shape)
    left = np.maximum.accumulate(np.where(ground, places, np.int32(-reach - 1)), axis=1)
    right = np.minimum.accumulate(np.where(ground, places, np.int32(2 * width + reach))[:, ::-1], axis=1)[:, ::-1]
    between: Mask = (places - left <= reach) & (right - places <= reach)
    return between

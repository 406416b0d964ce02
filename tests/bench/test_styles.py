"""Colours and markers: fixed for each store, distinct, and legible."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from ragkit.bench.numpy_reference import REFERENCE_NAME
from ragkit.bench.settings import BenchEntry
from ragkit.bench.settings_file import read_settings
from ragkit.bench.styles import PLUGIN_COLOURS, STORE_COLOURS, SearchKind, search_kind, store_colour, store_styles
from ragkit.store import STORES

COLOURS = [*STORE_COLOURS.values(), *PLUGIN_COLOURS, store_colour(REFERENCE_NAME)]


def linear(colour: str) -> NDArray[np.float64]:
    """Linear red, green and blue from 0 to 1."""
    values = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(colour: str) -> NDArray[np.float64]:
    """CIELAB, white point D65."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = to_xyz @ linear(colour) / np.array([0.9505, 1.0, 1.089])
    fx, fy, fz = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


def test_every_store_has_a_colour() -> None:
    assert set(STORE_COLOURS) == set(STORES.specs)


@pytest.mark.parametrize("colour", COLOURS)
def test_a_colour_is_legible_on_white_and_on_black(colour: str) -> None:
    luminance = float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour))
    # 3:1, the least contrast of WCAG 2.2 for large text and graphics
    assert 1.05 / (luminance + 0.05) >= 3
    assert (luminance + 0.05) / 0.05 >= 3


def test_no_two_colours_look_alike() -> None:
    distances = {(a, b): float(np.linalg.norm(lab(a) - lab(b))) for a, b in combinations(COLOURS, 2)}
    assert min(distances.values()) > 12, min(distances.items(), key=lambda item: item[1])


def test_a_colour_does_not_depend_on_the_other_stores() -> None:
    entries = read_settings("full").stores
    styles = store_styles(entries)
    assert store_styles([entries[-1], entries[2]])[entries[2].label] == styles[entries[2].label]
    assert {styles[entry.label].colour == store_colour(entry.name) for entry in entries} == {True}
    assert store_colour("plugin") == store_colour("plugin")
    assert store_colour("plugin") in PLUGIN_COLOURS


def test_entries_of_one_store_differ_by_their_marker() -> None:
    styles = store_styles(read_settings("full").stores)
    assert len({*styles.values()}) == len(styles)
    twice = store_styles([BenchEntry("faiss", "a", {"m": 8}), BenchEntry("faiss", "b", {"m": 16})])
    assert (twice["a"].colour, twice["a"].marker) == (twice["b"].colour, "^")
    assert twice["b"].marker != "^"


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        (BenchEntry("sqlite"), "exact"),
        (BenchEntry("faiss"), "graph"),  # its default
        (BenchEntry("faiss", options={"method": "flat"}), "exact"),
        (BenchEntry("faiss", options={"method": "ivfpq"}), "quantized"),
        (BenchEntry("lancedb"), "exact"),
        (BenchEntry("lancedb", options={"method": "ivf_pq"}), "quantized"),
        (BenchEntry("chroma"), "graph"),
        (BenchEntry(REFERENCE_NAME), "exact"),
        (BenchEntry("plugin"), "unknown"),
    ],
)
def test_the_marker_says_how_a_store_searches(entry: BenchEntry, kind: SearchKind) -> None:
    assert search_kind(entry) == kind

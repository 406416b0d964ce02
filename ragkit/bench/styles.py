"""The colour and the marker of each store, the same in every chart, report and comparison.

The colour says which store, the marker how it searches. The colours start from the colour-blind safe palette of Okabe
and Ito; each is legible as text on white and on black. Every store also has its label beside its marks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Literal, TypeAlias
from zlib import crc32

from ragkit.bench.numpy_reference import REFERENCE_NAME
from ragkit.bench.settings import BenchEntry
from ragkit.errors import MissingExtra, UnknownName
from ragkit.store import STORES

SearchKind: TypeAlias = Literal["exact", "graph", "quantized", "unknown"]
"""How a store searches: all vectors, a graph of neighbours, or compressed vectors."""

REFERENCE_COLOUR = "#7F7F7F"
STORE_COLOURS: Mapping[str, str] = {
    "sqlite": "#D55E00",
    "memory": "#1F7FC4",
    "faiss": "#009E73",
    "pgvector": "#9467BD",
    "chroma": "#B8860B",
    "qdrant": "#C2185B",
    "milvus": "#0097A7",
    "lancedb": "#8C6D31",
    "duckdb": "#6B8E23",
    "pinecone": "#5C6BC0",
}
PLUGIN_COLOURS = ("#E64A4A", "#607D8B", "#A0522D", "#BA55D3")
"""Colours of stores that are registered by plugins, chosen by their name."""
MARKERS: Mapping[SearchKind, str] = {"exact": "o", "graph": "^", "quantized": "s", "unknown": "D"}
FURTHER_MARKERS = ("v", "P", "X", "p", "h", "<", ">")
"""For further entries with the same colour and marker."""
KINDS: Mapping[str, SearchKind] = {
    "exact": "exact", "flat": "exact", "hnsw": "graph", "ivfpq": "quantized", "ivf_pq": "quantized",
}  # fmt: skip
"""The kind of each value of the option `method`."""
FIXED_KINDS: Mapping[str, SearchKind] = {
    REFERENCE_NAME: "exact", "sqlite": "exact", "memory": "exact", "duckdb": "exact", "chroma": "graph",
    "pinecone": "graph",
}  # fmt: skip
"""The kind of stores without that option."""


@dataclass(frozen=True)
class StoreStyle:
    """How a store is drawn."""

    colour: str
    """`#RRGGBB`."""
    marker: str
    """A marker of matplotlib."""


def store_colour(name: str) -> str:
    """The colour of a store by its registered name, `#RRGGBB`."""
    if name == REFERENCE_NAME:
        return REFERENCE_COLOUR
    return STORE_COLOURS.get(name) or PLUGIN_COLOURS[crc32(name.encode()) % len(PLUGIN_COLOURS)]


def search_kind(entry: BenchEntry) -> SearchKind:
    """How the store of an entry searches, by its options."""
    if entry.name in FIXED_KINDS:
        return FIXED_KINDS[entry.name]
    return KINDS.get(str(entry.options.get("method") or _default_method(entry.name)), "unknown")


def store_styles(entries: Sequence[BenchEntry]) -> dict[str, StoreStyle]:
    """The style of each entry by its label. Entries that would look the same get further markers, in their order."""
    styles: dict[str, StoreStyle] = {}
    for entry in entries:
        colour = store_colour(entry.name)
        choices = [StoreStyle(colour, marker) for marker in (MARKERS[search_kind(entry)], *FURTHER_MARKERS)]
        styles[entry.label] = next((style for style in choices if style not in styles.values()), choices[0])
    return styles


def _default_method(name: str) -> str:
    try:
        options_class = STORES.options_class(name)
    except (UnknownName, MissingExtra, ImportError, AttributeError):
        return ""
    defaults = {field.name: field.default for field in fields(options_class)} if options_class else {}
    method = defaults.get("method", MISSING)
    return method if isinstance(method, str) else ""

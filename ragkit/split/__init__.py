"""Station 2, split: a Document in, its chunks out."""

from __future__ import annotations

from ragkit.registry import Place, Registry
from ragkit.split.base import Splitter

_SIZES = "ragkit.split.options:SplitOptions"

SPLITTERS: Registry[Splitter] = Registry(
    kind="splitter",
    group="splitters",
    places={
        "code": Place("ragkit.split.code:CodeSplitter", options=_SIZES),
        "fixed": Place("ragkit.split.fixed:FixedSplitter", options=_SIZES),
        "markdown": Place("ragkit.split.markdown:MarkdownSplitter", options=_SIZES),
        "recursive": Place(
            "ragkit.split.recursive:RecursiveSplitter", options="ragkit.split.recursive:RecursiveOptions"
        ),
        "sentence": Place("ragkit.split.sentence:SentenceSplitter", options=_SIZES),
    },
)
"""Splitters by name; each is made from one argument, its options."""

"""Splitters: a Document to chunks. Holds the registry."""

from __future__ import annotations

from ragkit.registry import PartSpec, Registry
from ragkit.split.base import Splitter

_OPTIONS = "ragkit.split.options"

SPLITTERS: Registry[Splitter] = Registry(
    kind="splitter",
    group="splitters",
    specs={
        "code": PartSpec("ragkit.split.code:CodeSplitter", options=f"{_OPTIONS}:SplitOptions"),
        "fixed": PartSpec("ragkit.split.fixed:FixedSplitter", options=f"{_OPTIONS}:SplitOptions"),
        "markdown": PartSpec("ragkit.split.markdown:MarkdownSplitter", options=f"{_OPTIONS}:SplitOptions"),
        "recursive": PartSpec("ragkit.split.recursive:RecursiveSplitter", options=f"{_OPTIONS}:RecursiveOptions"),
        "sentence": PartSpec("ragkit.split.sentence:SentenceSplitter", options=f"{_OPTIONS}:SplitOptions"),
    },
)
"""Splitters by name; the only constructor argument is the options."""

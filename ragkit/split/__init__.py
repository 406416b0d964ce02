"""Splitters: a Document to chunks. Holds the registry."""

from __future__ import annotations

from ragkit.registry import ComponentSpec, Registry
from ragkit.split.base import Splitter

_OPTIONS = "ragkit.split.options"

SPLITTERS: Registry[Splitter] = Registry(
    kind="splitter",
    group="splitters",
    specs={
        "code": ComponentSpec("ragkit.split.code:CodeSplitter", options=f"{_OPTIONS}:SplitOptions"),
        "fixed": ComponentSpec("ragkit.split.fixed:FixedSplitter", options=f"{_OPTIONS}:SplitOptions"),
        "markdown": ComponentSpec("ragkit.split.markdown:MarkdownSplitter", options=f"{_OPTIONS}:SplitOptions"),
        "recursive": ComponentSpec("ragkit.split.recursive:RecursiveSplitter", options=f"{_OPTIONS}:RecursiveOptions"),
        "semantic": ComponentSpec("ragkit.split.semantic:SemanticSplitter", options=f"{_OPTIONS}:SemanticOptions"),
        "sentence": ComponentSpec("ragkit.split.sentence:SentenceSplitter", options=f"{_OPTIONS}:SplitOptions"),
    },
)
"""Splitters by name; the only constructor argument is the options."""

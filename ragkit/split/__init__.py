"""Splitters: a Document to chunks. Holds the registry."""

from __future__ import annotations

from ragkit.registry import PartSpec, Registry
from ragkit.split.base import Splitter

_SPLIT_OPTIONS = "ragkit.split.options:SplitOptions"

SPLITTERS: Registry[Splitter] = Registry(
    kind="splitter",
    group="splitters",
    specs={
        "code": PartSpec("ragkit.split.code:CodeSplitter", options=_SPLIT_OPTIONS),
        "fixed": PartSpec("ragkit.split.fixed:FixedSplitter", options=_SPLIT_OPTIONS),
        "markdown": PartSpec("ragkit.split.markdown:MarkdownSplitter", options=_SPLIT_OPTIONS),
        "recursive": PartSpec(
            "ragkit.split.recursive:RecursiveSplitter", options="ragkit.split.options:RecursiveOptions"
        ),
        "sentence": PartSpec("ragkit.split.sentence:SentenceSplitter", options=_SPLIT_OPTIONS),
    },
)
"""Splitters by name; the only constructor argument is the options."""

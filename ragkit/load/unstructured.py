"""Any format that the `unstructured` package knows, for suffixes that a pipeline routes here.

The package would fetch and install a language model from the network while it reads; here it may not.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from importlib.util import find_spec

from ragkit.errors import LoadError, MissingExtra
from ragkit.load.encoding import replace_invalid_chars
from ragkit.load.file_types import file_name, file_suffix
from ragkit.load.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.loader_utils import build_metadata, collapse_whitespace
from ragkit.load.options import LOADER_VERSIONS, UnstructuredOptions
from ragkit.records import Document

for _name in ("DO_NOT_TRACK", "SCARF_NO_ANALYTICS", "UNSTRUCTURED_DISABLE_NOTICE"):
    os.environ.setdefault(_name, "1")  # before its import: it reports its use otherwise

try:
    from unstructured.documents.elements import Element
    from unstructured.errors import UnprocessableEntityError
    from unstructured.partition.auto import partition
except ImportError as error:
    raise MissingExtra("the loader 'unstructured'", extra="unstructured") from error

SPACY_MODEL = "en_core_web_sm"
"""The spaCy model that the package tells titles from sentences with."""

SUFFIXES_WITHOUT_MODEL = frozenset({".csv", ".tsv"})
"""Suffixes that it reads without the model."""

PARSE_ERRORS = (UnprocessableEntityError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, OSError)
"""What the package and its many parsers raise for files that are not as they expect."""


class UnstructuredLoader:
    """Titles become headings, list items and tables keep their form."""

    version = LOADER_VERSIONS["unstructured"]

    def __init__(self, options: UnstructuredOptions | None = None) -> None:
        self.options = options or UnstructuredOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError, also when a package or the model for its format is missing."""
        if file_suffix(source) not in SUFFIXES_WITHOUT_MODEL and find_spec(SPACY_MODEL) is None:
            reason = f"the package unstructured needs the spaCy model {SPACY_MODEL}"
            raise LoadError(source, reason, f"python -m spacy download {SPACY_MODEL}")
        try:
            elements = partition(
                file=io.BytesIO(data), metadata_filename=file_name(source), strategy=self.options.strategy
            )
        except ImportError as error:
            raise LoadError(source, "the package unstructured lacks a part for this format", str(error)) from error
        except PARSE_ERRORS as error:
            reason = f"unstructured cannot read it ({collapse_whitespace(str(error))[:200]})"
            raise LoadError(source, reason, "open it in the program it came from and save it again") from error
        text, headings = join_blocks(_layout_blocks(elements))
        return Document(
            text=text,
            metadata=build_metadata("unstructured", source),
            source=source,
            title=headings[0].text if headings else "",
            headings=headings,
            format="unstructured",
        )


def _layout_blocks(elements: list[Element]) -> Iterator[LayoutBlock]:
    for element in elements:
        text = replace_invalid_chars(element.text or "").strip()
        kind = str(element.category)
        if kind == "Title":
            yield LayoutBlock("h", collapse_whitespace(text), (element.metadata.category_depth or 0) + 1)
        elif kind == "ListItem":
            yield LayoutBlock("li", "- " + collapse_whitespace(text))
        elif kind not in ("Header", "Footer", "PageNumber", "PageBreak"):
            yield LayoutBlock("p", text)

"""Any format that the `unstructured` package knows, for suffixes that a pipeline routes here.

The package would fetch and install a language model from the network while it reads; here it may not.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from importlib.util import find_spec

from ragkit.errors import LoadError, MissingExtra
from ragkit.load.blocks import Block, joined
from ragkit.load.encoding import clean
from ragkit.load.formats import file_name, suffix_of
from ragkit.load.meta import metadata, one_line
from ragkit.load.options import VERSIONS, UnstructuredOptions
from ragkit.records import Document

for _name in ("DO_NOT_TRACK", "SCARF_NO_ANALYTICS", "UNSTRUCTURED_DISABLE_NOTICE"):
    os.environ.setdefault(_name, "1")  # before its import: it reports its use otherwise

try:
    from unstructured.documents.elements import Element
    from unstructured.errors import UnprocessableEntityError
    from unstructured.partition.auto import partition
except ImportError as error:
    raise MissingExtra("the loader 'unstructured'", extra="unstructured") from error

MODEL = "en_core_web_sm"
"""The spaCy model that the package tells titles from sentences with."""

WITHOUT_MODEL = frozenset({".csv", ".tsv"})
"""Suffixes that it reads without the model."""

BROKEN = (UnprocessableEntityError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, OSError)
"""What the package and its many parsers raise for files that are not as they expect."""


class UnstructuredLoader:
    """Titles become headings, list items and tables keep their form."""

    version = VERSIONS["unstructured"]

    def __init__(self, options: UnstructuredOptions | None = None) -> None:
        self.options = options or UnstructuredOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError, also when a package or the model for its format is missing."""
        if suffix_of(source) not in WITHOUT_MODEL and find_spec(MODEL) is None:
            reason = f"the package unstructured needs the spaCy model {MODEL}"
            raise LoadError(source, reason, f"python -m spacy download {MODEL}")
        try:
            elements = partition(
                file=io.BytesIO(data), metadata_filename=file_name(source), strategy=self.options.strategy
            )
        except ImportError as error:
            raise LoadError(source, "the package unstructured lacks a part for this format", str(error)) from error
        except BROKEN as error:
            reason = f"unstructured cannot read it ({one_line(str(error))[:200]})"
            raise LoadError(source, reason, "open it in the program it came from and save it again") from error
        text, headings = joined(_blocks(elements))
        return Document(
            text=text,
            metadata=metadata("unstructured", source),
            source=source,
            title=headings[0].text if headings else "",
            headings=headings,
            format="unstructured",
        )


def _blocks(elements: list[Element]) -> Iterator[Block]:
    for element in elements:
        text = clean(element.text or "").strip()
        kind = str(element.category)
        if kind == "Title":
            yield Block("h", one_line(text), (element.metadata.category_depth or 0) + 1)
        elif kind == "ListItem":
            yield Block("li", "- " + one_line(text))
        elif kind not in ("Header", "Footer", "PageNumber", "PageBreak"):
            yield Block("p", text)

"""Any format that the `unstructured` package supports, for suffixes that a pipeline routes to it.

Where the spaCy model of the package is not installed, a small pipeline without a model takes its place, and nothing is
downloaded. It finds sentences, but no verbs, by which the package tells titles from short paragraphs: without the
model, titles are the headings that the format itself marks.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from importlib.util import find_spec

from ragkit.errors import LoadError, MissingExtra
from ragkit.load.file_types import file_name
from ragkit.load.options import LOADER_VERSIONS, UnstructuredOptions
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.load.shared.zip_archive import SAVE_AGAIN_HINT
from ragkit.records import Document

for _name in ("DO_NOT_TRACK", "SCARF_NO_ANALYTICS", "UNSTRUCTURED_DISABLE_NOTICE"):
    os.environ.setdefault(_name, "1")  # disables telemetry; must be set before the import

try:
    import spacy
    from unstructured.documents.elements import Element
    from unstructured.errors import UnprocessableEntityError
    from unstructured.nlp import tokenize
    from unstructured.partition.auto import partition
except ImportError as error:
    raise MissingExtra("the loader 'unstructured'", extra="unstructured") from error

HAS_MODEL = find_spec("en_core_web_sm") is not None
"""Whether the spaCy model is there, by which the package tells titles from sentences."""


def _create_pipeline() -> spacy.language.Language:
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    return pipeline


if not HAS_MODEL:
    tokenize._load_spacy_model = _create_pipeline  # it would download the model while it parses

PARSE_ERRORS = (UnprocessableEntityError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, OSError)
"""Errors of the package and its parsers for damaged files."""


class UnstructuredLoader:
    """Converts titles to headings; keeps list items."""

    version = LOADER_VERSIONS["unstructured"]

    def __init__(self, options: UnstructuredOptions | None = None) -> None:
        self.options = options or UnstructuredOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError, also when a package is missing."""
        try:
            name, strategy = file_name(source), self.options.strategy
            elements = partition(file=io.BytesIO(data), metadata_filename=name, strategy=strategy)
        except ImportError as error:
            reason = "the package unstructured misses a dependency for this format"
            raise LoadError(source, reason, str(error)) from error
        except PARSE_ERRORS as error:
            reason = f"unstructured cannot parse it ({collapse_whitespace(str(error))[:200]})"
            raise LoadError(source, reason, SAVE_AGAIN_HINT) from error
        layout = join_blocks(_layout_blocks(elements))
        return build_document("unstructured", source, layout, {}, layout.headings[0].text if layout.headings else "")


def _layout_blocks(elements: list[Element]) -> Iterator[LayoutBlock]:
    for element in elements:
        text = replace_invalid_chars(element.text or "").strip()
        kind = str(element.category)
        depth = element.metadata.category_depth
        if kind == "Title" and (HAS_MODEL or depth is not None):
            yield LayoutBlock("h", collapse_whitespace(text), (depth or 0) + 1)
        elif kind == "ListItem":
            yield LayoutBlock("li", "- " + collapse_whitespace(text))
        elif kind not in ("Header", "Footer", "PageNumber", "PageBreak"):
            yield LayoutBlock("p", text)

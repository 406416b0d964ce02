"""Public text splitters that need no embedder: texts in, texts out.

Indexing uses `chunks` instead, with the tokenizer of the embedder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ragkit.argument_types import check_types
from ragkit.records import Document, content_id
from ragkit.split.base import Splitter
from ragkit.split.lines import LineNumbers
from ragkit.split.options import RecursiveOptions, SemanticOptions, Unit
from ragkit.split.places import extract_document, resolve_place
from ragkit.split.recursive import RecursiveSplitter
from ragkit.split.semantic import SemanticSplitter
from ragkit.split.token_index import estimate_token_starts


class TextEmbedder(Protocol):
    """The part of an embedder that a splitter needs."""

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors: (len(texts), dimension)."""


@check_types()
class RecursiveTextSplitter:
    """Splits texts by structure: headings, blocks, paragraphs, lines, sentences, words, characters.

    Args:
        chunk_size: maximum length of a chunk; at least 1.
        chunk_overlap: maximum length of the whole sentences or lines that a chunk repeats from the previous one; a
            single sentence may have twice this length, up to half a chunk. Less than `chunk_size`.
        separators: split after these instead, in order of preference; then at words and characters.
        unit: `characters`, or `tokens` as estimated by `estimate_token_starts`, without a model.

    Raises:
        InvalidOption: a value is out of range.
    """

    def __init__(
        self,
        chunk_size: int = 1000,
        chunk_overlap: int = 200,
        separators: str | Sequence[str] | None = None,
        unit: Unit = "characters",
    ) -> None:
        separator_list = (separators,) if isinstance(separators, str) else tuple(separators or ())
        self._splitter: Splitter = RecursiveSplitter(RecursiveOptions(chunk_size, chunk_overlap, unit, separator_list))

    def split_text(self, text: str) -> list[str]:
        """The chunks of a text, in order."""
        return [chunk.text for chunk in self.split_documents([Document(text)])]

    def split_documents(self, documents: Iterable[Document]) -> list[Document]:
        """The chunks of the documents, in order, as documents.

        A chunk has the source, title, format, language, pages, headings and metadata of its document, plus the
        metadata `start` and `end` (`document.text[start:end] == chunk.text`), `start_line`, `end_line`, and where known
        `page` and `heading`. Ids are derived from the content, and unique.
        """
        seen: Counter[tuple[str, str]] = Counter()
        return [chunk for document in documents for chunk in self._split_document(resolve_place(document), seen)]

    def _split_document(self, document: Document, seen: Counter[tuple[str, str]]) -> Iterable[Document]:
        lines = LineNumbers(document.text)
        for start, end in self._splitter.spans(document, estimate_token_starts):
            text = document.text[start:end]
            key = document.source or document.id, text
            yield extract_document(document, start, end, lines, content_id(*key, str(seen[key])))
            seen[key] += 1


@check_types()
class TextSplitter(RecursiveTextSplitter):
    """Splits texts after one separator; text that is too long is split at words, then at characters.

    Args:
        chunk_size: maximum length of a chunk; at least 1.
        chunk_overlap: maximum length of the whole sentences or lines that a chunk repeats from the previous one; a
            single sentence may have twice this length, up to half a chunk. Less than `chunk_size`.
        separator: where to split.
        unit: `characters`, or `tokens` as estimated by `estimate_token_starts`, without a model.

    Raises:
        InvalidOption: a value is out of range.
    """

    def __init__(
        self, chunk_size: int = 1000, chunk_overlap: int = 200, separator: str = "\n\n", unit: Unit = "characters"
    ) -> None:
        super().__init__(chunk_size, chunk_overlap, (separator,), unit)


@check_types()
class SemanticTextSplitter(RecursiveTextSplitter):
    """Splits texts between the neighbouring sentences that differ most, by the vectors of an embedder.

    Args:
        embedder: compares the sentences.
        chunk_size: maximum length of a chunk; at least 1.
        min_size: minimum length of a chunk before a break; at most `chunk_size`.
        percentile: break at the distances from this percentile of a text on, between 0 and 100.
        unit: `characters`, or `tokens` as estimated by `estimate_token_starts`.

    Raises:
        InvalidOption: a value is out of range.
    """

    def __init__(
        self,
        embedder: TextEmbedder,
        chunk_size: int = 1000,
        min_size: int = 200,
        percentile: float = 80.0,
        unit: Unit = "characters",
    ) -> None:
        options = SemanticOptions(chunk_size, 0, unit, min_tokens=min_size, percentile=percentile)
        self._splitter = SemanticSplitter(options, embedder.embed_texts)

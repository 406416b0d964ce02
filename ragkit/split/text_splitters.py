"""Splitters for callers who hold documents and no embedder: texts in, texts out.

Indexing does not go through here: it measures with the embedder in use and keeps places (`chunks`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ragkit.records import Document, content_id
from ragkit.split.options import Unit
from ragkit.split.recursive import RecursiveOptions, RecursiveSplitter
from ragkit.split.token_index import estimate_token_starts


class RecursiveTextSplitter:
    """Cuts texts along their structure: headings, blocks, paragraphs, lines, sentences, words, characters.

    Args:
        chunk_size: most units of a piece; at least 1.
        chunk_overlap: most units that a piece repeats from the one before; less than `chunk_size`.
        separators: where to cut instead, the first by preference; words and characters follow of themselves.
        unit: `characters`, or `tokens` as `estimate_token_starts` counts them, which needs no model.

    Raises:
        InvalidOption: a value is out of range.
    """

    def __init__(
        self,
        chunk_size: int = 1000,
        chunk_overlap: int = 200,
        separators: Sequence[str] | None = None,
        unit: Unit = "characters",
    ) -> None:
        given = (separators,) if isinstance(separators, str) else tuple(separators or ())
        self._splitter = RecursiveSplitter(RecursiveOptions(chunk_size, chunk_overlap, unit, given))

    def split_text(self, text: str) -> list[str]:
        """The pieces of a text, in order."""
        return [piece.text for piece in self.split_documents([Document(text)])]

    def split_documents(self, documents: Iterable[Document]) -> list[Document]:
        """The pieces of the documents, in order, each a document of its own.

        A piece keeps source, title, format and language; its metadata is that of its document with `start`
        and `end`: character offsets, `document.text[start:end] == piece.text`. Ids are derived from content,
        and differ within a document.
        """
        return [piece for document in documents for piece in self._split_document(document)]

    def _split_document(self, document: Document) -> Iterable[Document]:
        seen: Counter[str] = Counter()
        for start, end in self._splitter.spans(document, estimate_token_starts):
            text = document.text[start:end]
            yield Document(
                text,
                {**document.metadata, "start": start, "end": end},
                document.source,
                document.title,
                format=document.format,
                language=document.language,
                id=content_id(document.source or document.id, text, str(seen[text])),
            )
            seen[text] += 1


class TextSplitter(RecursiveTextSplitter):
    """Cuts texts behind one separator; at words, then characters, where a piece between two is too long.

    Args:
        chunk_size: most units of a piece; at least 1.
        chunk_overlap: most units that a piece repeats from the one before; less than `chunk_size`.
        separator: where to cut.
        unit: `characters`, or `tokens` as `estimate_token_starts` counts them, which needs no model.

    Raises:
        InvalidOption: a value is out of range.
    """

    def __init__(
        self, chunk_size: int = 1000, chunk_overlap: int = 200, separator: str = "\n\n", unit: Unit = "characters"
    ) -> None:
        super().__init__(chunk_size, chunk_overlap, (separator,), unit)

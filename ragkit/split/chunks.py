"""Chunk records from a document and a splitter: ids, lines, pages, headings; and the text that is embedded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from ragkit.records import Chunk, Document, Heading, content_id
from ragkit.split.base import Splitter, TokenStartsFunction
from ragkit.split.lines import LineNumbers, skip_whitespace
from ragkit.split.text_boundaries import last_word_end
from ragkit.split.token_index import MAX_TOKEN_CHARS, estimate_token_starts

MAX_HEADER_TOKENS = 40
"""Most tokens that a chunk's header takes of what an embedder reads."""
SPECIAL_TOKENS = 2
"""What an embedder puts around a text, [CLS] and [SEP] for one. 200 + 40 + 2 stays below the usual 256."""

_MAX_HEADER_CHARS = MAX_HEADER_TOKENS * MAX_TOKEN_CHARS  # characters


def build_chunks(
    document: Document,
    splitter: Splitter,
    token_starts: TokenStartsFunction,
    recipe: str,
    header_tokens: bool = True,
    max_tokens: int | None = None,
) -> list[Chunk]:
    """The chunks of a document, in order of start.

    A chunk's id is made of the document's source (its id where it has none), the chunk's text and header, the
    recipe, and its number among equal ones of the document: text that only moved keeps its id.

    Args:
        document: what is cut; its metadata becomes that of every chunk.
        splitter: where it is cut. Its chunk size bounds the text of a chunk, the header comes on top.
        token_starts: the measure of the embedder that will read the chunks.
        recipe: the fingerprint of everything that the chunks depend on beside the document.
        header_tokens: the embedder will read the header too (`embedding_text`).
        max_tokens: all that the embedder reads of one text, where it has such a bound: chunks are then made
            shorter where text, header and special tokens would not fit. None: chunk size alone decides.
    """
    spans = splitter.spans(document, token_starts, _reserved_tokens(splitter, header_tokens, max_tokens))
    line_numbers, headings = LineNumbers(document.text), _HeadingPaths(document)
    chunks: list[Chunk] = []
    covered = 0
    for start, end in spans:
        if not document.text[start:end].strip():
            continue  # an indentation that is longer than a chunk: nothing to find in it
        fresh = skip_whitespace(document.text, max(start, covered), end)
        chunk = Chunk(
            id="",
            document_id=document.id,
            source=document.source,
            text=document.text[start:end],
            start=start,
            end=end,
            start_line=line_numbers.line_at(start),
            end_line=line_numbers.line_at(end - 1),
            page=document.page_at(fresh),
            heading=headings.path_at(fresh),
            title=document.title,
            metadata=document.metadata,
        )
        chunks.append(chunk)
        covered = end
    return assign_chunk_ids(chunks, recipe)


def assign_chunk_ids(chunks: Iterable[Chunk], recipe: str) -> list[Chunk]:
    """The chunks of one document, in their order, with the ids that they have by a recipe."""
    seen: Counter[tuple[str, str]] = Counter()
    found: list[Chunk] = []
    for chunk in chunks:
        number = seen[chunk.text, chunk.header]
        seen[chunk.text, chunk.header] += 1
        parts = (chunk.source or chunk.document_id, chunk.text, chunk.header, recipe, str(number))
        found.append(replace(chunk, id=content_id(*parts)))
    return found


def embedding_text(chunk: Chunk, token_starts: TokenStartsFunction = estimate_token_starts) -> str:
    """What an embedder and a lexical index read of a chunk: its header on a line of its own, then its text.

    A header of more than HEADER_TOKENS tokens by `token_starts` loses headings from the middle of its path,
    then words from its end. Without a header it is the text alone.
    """
    header = _build_header(chunk, token_starts)
    return f"{header}\n{chunk.text}" if header else chunk.text


def _build_header(chunk: Chunk, token_starts: TokenStartsFunction) -> str:
    path = [chunk.title, *(heading for heading in chunk.heading if heading != chunk.title)]
    parts = [" ".join(part[:_MAX_HEADER_CHARS].split()) for part in path if part.strip()]
    header = " > ".join(parts)
    while len(parts) > 2 and len(token_starts(header)) > MAX_HEADER_TOKENS:
        del parts[1]
        header = " > ".join(parts)
    header = header[:_MAX_HEADER_CHARS]
    starts = token_starts(header)
    if len(starts) <= MAX_HEADER_TOKENS:
        return header
    cut = int(starts[MAX_HEADER_TOKENS])
    return header[: last_word_end(header, cut)]


class _HeadingPaths:
    """`Document.heading_path_at` for offsets that rise: one pass over the headings, however many chunks ask."""

    def __init__(self, document: Document) -> None:
        self._headings = document.headings
        self._next = 0
        self._path: list[Heading] = []

    def path_at(self, offset: int) -> tuple[str, ...]:
        """The headings above the character at `offset`, highest first; `offset` is not below the last one."""
        while self._next < len(self._headings) and self._headings[self._next].start <= offset:
            heading = self._headings[self._next]
            while self._path and self._path[-1].level >= heading.level:
                self._path.pop()
            self._path.append(heading)
            self._next += 1
        return tuple(heading.text for heading in self._path)


def _reserved_tokens(splitter: Splitter, header_tokens: bool, max_tokens: int | None) -> int:
    """Tokens of each chunk that its header and the special tokens need, beyond what the embedder has to spare."""
    if max_tokens is None or splitter.max_chunk_tokens is None:
        return 0
    around = SPECIAL_TOKENS + (MAX_HEADER_TOKENS if header_tokens else 0)
    return max(0, splitter.max_chunk_tokens + around - max_tokens)

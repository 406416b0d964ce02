"""Build the Chunk records of a document (ids, lines, pages, headings), and the text that is embedded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ragkit.places import describe_place
from ragkit.records import Chunk, Document, Heading, content_id, extend_heading_path, heading_texts, join_header
from ragkit.split.base import Splitter, TokenStartsFunction
from ragkit.split.contents import find_contents, without_contents
from ragkit.split.lines import LineNumbers, skip_whitespace
from ragkit.split.text_boundaries import last_word_end
from ragkit.split.token_index import MAX_TOKEN_CHARS, estimate_token_starts

MAX_HEADER_TOKENS = 40
"""Maximum number of tokens of a chunk's header."""
SPECIAL_TOKENS = 2
"""Tokens that an embedder adds, such as [CLS] and [SEP]. 200 + 40 + 2 is below the usual limit of 256."""

_MAX_HEADER_CHARS = MAX_HEADER_TOKENS * MAX_TOKEN_CHARS


def build_chunks(
    document: Document,
    splitter: Splitter,
    token_starts: TokenStartsFunction,
    fingerprint: str,
    header_tokens: int = MAX_HEADER_TOKENS,
    max_tokens: int | None = None,
) -> list[Chunk]:
    """The chunks of a document, in order. Tables of contents with leaders or links are in none.

    The id of a chunk is a hash of the document's source (or its id), the chunk's text and header, the fingerprint,
    and its number among equal chunks of the document: text that moves keeps its id.

    Args:
        document: the document to split; every chunk gets its metadata.
        splitter: its chunk size limits the text of a chunk, without the header.
        token_starts: tokenizer of the embedder.
        fingerprint: identity of all settings that affect the chunks.
        header_tokens: maximum number of tokens that the embedder reads before the text (`embedding_text`).
        max_tokens: maximum input of the embedder: chunks are smaller if text, header and special tokens would not
            fit. None: no limit.
    """
    spans = splitter.spans(document, token_starts, _reserved_tokens(splitter, header_tokens, max_tokens))
    contents = find_contents(document.text) if document.format != "code" else []
    if contents:
        spans = list(without_contents(spans, contents, document.text))
    line_numbers, headings, ids = LineNumbers(document.text), _HeadingPaths(document), _ChunkIds(fingerprint)
    owner = document.source or document.id
    chunks: list[Chunk] = []
    covered = 0
    for start, end in spans:
        if document.text[start].isspace() and not document.text[start:end].strip():
            continue  # indentation that is longer than a chunk
        new_start = skip_whitespace(document.text, max(start, covered), end)
        lines = line_numbers.line_at(start), line_numbers.line_at(end - 1)
        text, heading = document.text[start:end], headings.path_at(new_start)
        chunk = Chunk(
            id=ids.create(owner, text, join_header(document.title, heading)),
            document_id=document.id,
            source=document.source,
            text=text,
            start=start,
            end=end,
            start_line=lines[0],
            end_line=lines[1],
            page=document.page_at(new_start),
            heading=heading,
            title=document.title,
            metadata=document.metadata,
            place=describe_place(document, start, end, lines),
        )
        chunks.append(chunk)
        covered = end
    return chunks


def assign_chunk_ids(chunks: Iterable[Chunk], fingerprint: str) -> list[Chunk]:
    """The chunks of one document with new ids, in order. See `build_chunks`."""
    ids = _ChunkIds(fingerprint)
    return [
        replace(chunk, id=ids.create(chunk.source or chunk.document_id, chunk.text, chunk.header)) for chunk in chunks
    ]


class _ChunkIds:
    """The ids of the chunks of one document."""

    def __init__(self, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        self._seen: Counter[tuple[str, str]] = Counter()

    def create(self, owner: str, text: str, header: str) -> str:
        """The id of the next chunk, of the source or document `owner`."""
        number = self._seen[text, header]
        self._seen[text, header] = number + 1
        return content_id(owner, text, header, self._fingerprint, str(number))


def embedding_text(
    chunk: Chunk,
    token_starts: TokenStartsFunction = estimate_token_starts,
    *,
    with_headings: bool = True,
    max_context_tokens: int = 0,
) -> str:
    """The text that is embedded and indexed: title and headings of a chunk, its context, and its text, one per line.

    Title and headings with more than MAX_HEADER_TOKENS tokens lose headings from the middle of the path, then words
    from the end. A context with more than `max_context_tokens` tokens loses words from its end.
    """
    header = cut_header(chunk.title, chunk.heading, token_starts) if with_headings else ""
    return join_embedding_text(chunk, header, token_starts, max_context_tokens)


def join_embedding_text(chunk: Chunk, header: str, token_starts: TokenStartsFunction, max_context_tokens: int) -> str:
    """`embedding_text` of a chunk with this `cut_header`."""
    context = _cut_to_tokens(chunk.context, token_starts, max_context_tokens)
    return "\n".join(line for line in (header, context, chunk.text) if line)


def cut_header(title: str, heading: Sequence[str], token_starts: TokenStartsFunction) -> str:
    """Title and headings on one line, cut to MAX_HEADER_TOKENS tokens as `embedding_text` does."""
    path = [title, *(part for part in heading if part != title)]
    parts = [" ".join(part[:_MAX_HEADER_CHARS].split()) for part in path if part.strip()]
    header = " > ".join(parts)
    while len(parts) > 2:
        if len(token_starts(header)) <= MAX_HEADER_TOKENS:
            if len(header) <= _MAX_HEADER_CHARS:
                return header
            break
        del parts[1]
        header = " > ".join(parts)
    return _cut_to_tokens(header[:_MAX_HEADER_CHARS], token_starts, MAX_HEADER_TOKENS)


def _cut_to_tokens(text: str, token_starts: TokenStartsFunction, limit: int) -> str:
    """The text, or its words within the first `limit` tokens."""
    if not text or not limit:
        return ""
    starts = token_starts(text)
    return text if len(starts) <= limit else text[: last_word_end(text, int(starts[limit]))]


class _HeadingPaths:
    """`Document.heading_path_at` for ascending offsets, in one pass over the headings."""

    def __init__(self, document: Document) -> None:
        self._headings = document.headings
        self._next = 0
        self._path: list[Heading] = []

    def path_at(self, offset: int) -> tuple[str, ...]:
        """The headings above the character at `offset`, highest first; `offset` must not decrease between calls."""
        while self._next < len(self._headings) and self._headings[self._next].start <= offset:
            extend_heading_path(self._path, self._headings[self._next])
            self._next += 1
        return heading_texts(self._path, offset)


def _reserved_tokens(splitter: Splitter, header_tokens: int, max_tokens: int | None) -> int:
    """Tokens by which the chunk size exceeds what the embedder has left for the text."""
    if max_tokens is None or splitter.max_chunk_tokens is None:
        return 0
    return max(0, splitter.max_chunk_tokens + SPECIAL_TOKENS + header_tokens - max_tokens)

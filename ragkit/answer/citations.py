"""Resolves citations to exact places in their sources, and verifies that the quotes are there."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from ragkit.answer.base import Searcher
from ragkit.lexical.analyzer import extract_terms
from ragkit.places import describe_place
from ragkit.records import Chunk, Citation, Hit
from ragkit.split.sentence_segmentation import sentence_spans

CITATION_MARK = re.compile(r"\[(\d{1,4}(?:\s*,\s*\d{1,4})*)\]")
"""`[1]` or `[1, 2]`; the group has the numbers."""

_WORD = re.compile(r"\w+")


def ends_with_words(streamed: str, text: str) -> bool:
    """Whether a streamed text ends with the words of a text, whatever their citation numbers."""
    shown, words = (_WORD.findall(CITATION_MARK.sub("", one)) for one in (streamed, text))
    return shown[len(shown) - len(words) :] == words if len(words) <= len(shown) else False


def cite(n: int, hit: Hit, start: int, end: int, searcher: Searcher) -> Citation:
    """The citation of characters [start:end] of the hit's document, verified against the indexed text."""
    chunk = hit.chunk
    document = searcher.find_document(chunk.document_id)
    text = document.text if document is not None else None
    inside = chunk.start <= start and end <= chunk.end
    quote = chunk.text[start - chunk.start : end - chunk.start] if inside or text is None else text[start:end]
    if inside or text is None:
        first = chunk.start_line + chunk.text.count("\n", 0, max(0, start - chunk.start))
    elif start < chunk.start:
        first = chunk.start_line - text.count("\n", start, chunk.start)
    else:
        first = chunk.start_line + text.count("\n", chunk.start, start)
    lines = first, first + quote.count("\n")
    return Citation(
        n=n,
        source=chunk.source,
        quote=quote,
        start=start,
        end=end,
        start_line=lines[0],
        end_line=lines[1],
        page=document.page_at(start) if document is not None else chunk.page,
        heading=document.heading_path_at(start) if document is not None else chunk.heading,
        chunk_id=chunk.id,
        score=hit.score,
        verified=bool(quote) and text is not None and text[start:end] == quote,
        stale=searcher.is_stale(chunk.source),
        place=describe_place(document, start, end, lines) if document is not None else chunk.place,
        also_in=hit.also_in,
    )


def parse_citation_numbers(text: str) -> list[int]:
    """The distinct citation numbers of an answer, written as [n] or [n, m], in order of appearance."""
    numbers = (int(number) for match in CITATION_MARK.finditer(text) for number in match[1].split(","))
    return list(dict.fromkeys(numbers))


def cited_statement(text: str, n: int) -> str:
    """The sentence before the first mark [n] of an answer, without citation marks; '' without such a mark."""
    for match in CITATION_MARK.finditer(text):
        if n in (int(number) for number in match[1].split(",")):
            before = text[: match.start()]
            spans = sentence_spans(before)
            return CITATION_MARK.sub("", before[spans[-1][0] :]) if spans else ""
    return ""


def find_best_quote(chunk: Chunk, statement: str) -> tuple[int, int]:
    """The sentence of a chunk that shares the most terms with a statement, as offsets into its document.

    Without a shared term, the whole chunk.
    """
    terms = set(extract_terms(statement))
    spans = sentence_spans(chunk.text)
    shared = [len(terms & set(extract_terms(chunk.text[a:b]))) for a, b in spans]
    if not shared or max(shared) == 0:
        return chunk.start, chunk.end
    start, end = spans[shared.index(max(shared))]
    return chunk.start + start, chunk.start + end


def resolve_citations(
    text: str, shown: Mapping[int, Hit], searcher: Searcher, added: Collection[int] = ()
) -> list[Citation]:
    """The citations of an answer written by a model: [n] refers to the hit `shown[n]`; unknown numbers are dropped.

    `added`: the numbers that are not the model's own.
    """
    found = [
        cite(n, shown[n], *find_best_quote(shown[n].chunk, cited_statement(text, n)), searcher)
        for n in parse_citation_numbers(text)
        if n in shown
    ]
    return [citation if citation.n in added else replace(citation, by="model") for citation in found]

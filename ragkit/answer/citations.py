"""Citations: a passage's exact place in its source, and whether it really stands there."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ragkit.answer.base import Searcher
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Chunk, Citation, Hit
from ragkit.split.sentence_segmentation import sentence_spans

_CITATION_MARK = re.compile(r"\[(\d{1,4}(?:\s*,\s*\d{1,4})*)\]")


def cite(n: int, hit: Hit, start: int, end: int, searcher: Searcher) -> Citation:
    """The citation of characters [start:end] of the document that a hit's chunk is from.

    It is verified by reading the place again in the text that was indexed.
    """
    chunk = hit.chunk
    quote = chunk.text[start - chunk.start : end - chunk.start]
    document = searcher.document(chunk.source)
    text = document.text if document is not None else None
    before = chunk.text[: start - chunk.start]
    first = chunk.start_line + before.count("\n")
    return Citation(
        n=n,
        source=chunk.source,
        quote=quote,
        start=start,
        end=end,
        start_line=first,
        end_line=first + quote.count("\n"),
        page=document.page_at(start) if document is not None else chunk.page,
        heading=document.heading_path_at(start) if document is not None else chunk.heading,
        chunk_id=chunk.id,
        score=hit.score,
        verified=bool(quote) and text is not None and text[start:end] == quote,
        stale=searcher.is_stale(chunk.source),
    )


def parse_citation_numbers(text: str) -> list[int]:
    """The citation numbers that stand in an answer, as [n] or [n, m], in order of appearance, none twice."""
    found = (int(number) for match in _CITATION_MARK.finditer(text) for number in match[1].split(","))
    return list(dict.fromkeys(found))


def cited_statement(text: str, n: int) -> str:
    """The words of an answer that the mark [n] stands behind: its sentence, without marks."""
    for match in _CITATION_MARK.finditer(text):
        if n in (int(number) for number in match[1].split(",")):
            before = text[: match.start()]
            spans = sentence_spans(before)
            return _CITATION_MARK.sub("", before[spans[-1][0] :]) if spans else ""
    return ""


def find_best_quote(chunk: Chunk, statement: str) -> tuple[int, int]:
    """The sentence of a chunk that shares most terms with a statement, as offsets into its document.

    Without a shared term it is the whole chunk.
    """
    wanted = set(extract_terms(statement))
    spans = sentence_spans(chunk.text)
    shared = [len(wanted & set(extract_terms(chunk.text[a:b]))) for a, b in spans]
    if not shared or max(shared) == 0:
        return chunk.start, chunk.end
    start, end = spans[shared.index(max(shared))]
    return chunk.start + start, chunk.start + end


def resolve_citations(text: str, shown: Mapping[int, Hit], searcher: Searcher) -> list[Citation]:
    """The citations of an answer that a model wrote: each [n] in it means the hit that was shown under n.

    A number that no hit has is left out: it cites nothing.
    """
    found = []
    for n in parse_citation_numbers(text):
        if n in shown:
            hit = shown[n]
            found.append(cite(n, hit, *find_best_quote(hit.chunk, cited_statement(text, n)), searcher))
    return found

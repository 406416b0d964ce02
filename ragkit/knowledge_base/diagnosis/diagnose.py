"""Explain why a search misses a passage: its rank at each stage, and what would bring it into the hits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragkit.errors import LoadError, RagkitError
from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.filters import Where
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.knowledge_base.session import Session
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Chunk, Hit, SearchMode
from ragkit.retrieve.base import Explanation

SEARCH_DEPTH = 10_000
"""How many ranks of each ranking are searched for the passage."""
NEAR_DEPTH = 100
"""A ranking of this depth equals that of a search; a deeper item compares more candidates and may differ."""


@dataclass(frozen=True, slots=True)
class StageRank:
    """One ranking, and the rank of the expected passage in it."""

    name: str
    rank: int | None
    """Counted from 1; None: not among the first `ranking_size`."""
    score: float | None
    ranking_size: int
    """Passages in this ranking."""
    top_score: float | None
    """The score of the first passage."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Where a passage ranked, from the file on disk to the hits."""

    question: str
    source: str
    """The file; '' if none matches the name."""
    line: int | None
    """The line that was asked for, from 1; None: a page, or the whole file."""
    chunk: Chunk | None
    """The best ranked chunk that contains the line, or None."""
    not_indexed_reason: str
    """Why it is not in the index; '' if it is."""
    stages: tuple[StageRank, ...]
    top_k: int
    rank: int | None
    """Its rank among the hits of the search; None: not a hit."""
    shared_words: tuple[str, ...] = ()
    """Words of the question that the passage contains, in any inflection."""
    missing_words: tuple[str, ...] = ()
    """Words of the question that the passage lacks."""
    advice: tuple[str, ...] = ()
    """What would make it a hit, the smallest change first."""
    contributions: Mapping[str, float] = field(default_factory=dict)
    """What its score is the sum of: `dense`, `lexical`, `document`, `older version`, `second hop`."""


@dataclass(frozen=True, slots=True)
class DiagnosisQuery:
    """The search to explain."""

    question: str
    top_k: int | None = None
    where: Where = None


@dataclass(frozen=True, slots=True)
class ExpectedLocation:
    """Where a passage is expected: anywhere in a file, or in one line or page of it."""

    file: str
    """The end of the path."""
    line: int | None = None
    """A line of the text of the file, from 1."""
    page: int | None = None
    """A page, from 1; only for formats with pages."""


def diagnose(kb: KnowledgeBase, query: DiagnosisQuery, place: ExpectedLocation) -> Diagnosis:
    """Follow a passage through the stages.

    Args:
        kb: the knowledge base to search.
        query: the search that misses it.
        place: where the passage is.

    Raises:
        RagkitError: more than item indexed file matches.
    """
    with kb.session() as session:
        hits = session.search(query.question, query.top_k, query.where)
        source = _find_source(session, place.file)
        if source is not None:
            return _diagnose_source(session, kb.pipeline.retriever.name, query, replace(place, file=source), hits)
    reason = _explain_not_indexed(kb, place.file)
    return Diagnosis(query.question, "", place.line, None, reason, (), query.top_k or len(hits), None)


def _diagnose_source(
    session: Session, retriever: str, query: DiagnosisQuery, place: ExpectedLocation, hits: Sequence[Hit]
) -> Diagnosis:
    """Follow a passage of an indexed source, which `place` names."""
    source, line, top_k = place.file, place.line, query.top_k or len(hits)
    chunks = [item for item in session.chunks() if item.source == source]
    expected = {item.id: item for item in chunks if line is None or item.start_line <= line <= item.end_line}
    if place.page is not None:
        start, end = _page_span(session, source, place.page)
        expected = {item.id: item for item in chunks if item.start < end and start < item.end}
    if not expected:
        reason = _explain_no_chunk(chunks, line) if place.page is None else f"page {place.page} has no text"
        return Diagnosis(query.question, source, line, None, reason, (), top_k, None)
    deep = {mode: session.explain(query.question, SEARCH_DEPTH, query.where, mode) for mode in _search_modes(retriever)}
    near = {mode: session.explain(query.question, NEAR_DEPTH, query.where, mode) for mode in deep}
    stages = tuple(_rank_in_stage(mode or retriever, near[mode], deep[mode], expected) for mode in deep)
    best = _best_chunk(deep[None], expected)
    rank = next((hit.rank for hit in hits if _contains_expected(hit.chunk, expected)), None)
    shared, missing = _compare_words(query.question, f"{best.header}\n{best.text}")
    contributions = next((e.contributions for e in (*near[None], *deep[None]) if e.hit.chunk.id == best.id), {})
    diagnosis = Diagnosis(
        query.question, source, line, best, "", stages, top_k, rank, shared, missing, contributions=contributions
    )
    return _add_advice(session, query, diagnosis, expected)


def find_text(session: Session, query: DiagnosisQuery, text: str, file: str = "") -> tuple[str, int] | None:
    """Source and first character of a text in the index, whatever its spaces and punctuation are.

    Of several places, the one of the best hit of the search; None if no file, or not `file`, has the text.

    Raises:
        RagkitError: more than one indexed file matches `file`.
    """
    words = re.findall(r"\w+", text)
    pattern = re.compile(r"[\W_]+".join(words) if len(words) > 1 else re.escape(text.strip()), re.IGNORECASE)
    named = _find_source(session, file) if file else None
    for hit in session.search(query.question, query.top_k, query.where):
        match = pattern.search(hit.chunk.text)
        if match and (not file or hit.chunk.source == named):
            return hit.chunk.source, hit.chunk.start + match.start()
    for source in [named] if file else [source for source, _, _ in session.documents()]:
        document = session.document(source) if source else None
        if source and document is not None and (match := pattern.search(document.text)):
            return source, match.start()
    return None


def _page_span(session: Session, source: str, page: int) -> tuple[int, int]:
    """The characters [start, end) of a page; empty if there is none of this number."""
    document = session.document(source)
    starts = (*document.page_starts, len(document.text)) if document is not None and document.page_starts else ()
    return (starts[page - 1], starts[page]) if 1 <= page < len(starts) else (0, 0)


def _search_modes(retriever: str) -> list[SearchMode | None]:
    """Every ranking; None is that of the pipeline."""
    embeds = retriever != "lexical"
    return ["lexical", *(("dense",) if embeds else ()), None]


def _find_source(session: Session, file: str) -> str | None:
    known = [source for source, _, _ in session.documents()]
    named = [source for source in known if source == file or source.endswith("/" + file.lstrip("/"))]
    exact = [source for source in named if source in {file, str(Path(file).absolute())}]
    if len(named) > 1 and not exact:
        raise RagkitError(f"{file!r} is ambiguous ({', '.join(map(display_name, named[:3]))}): write more of its path")
    return next(iter(exact or named), None)


def _explain_not_indexed(kb: KnowledgeBase, file: str) -> str:
    """Why no file of this name is indexed."""

    def matches(source: str) -> bool:
        return source == file or source.endswith("/" + file.lstrip("/"))

    with kb.session() as session:
        failures, roots = session.failures(), session.status().sources
    for row in failures:
        if row.status == "failed" and matches(row.source):
            return f"it could not be parsed: {row.reason}; {row.hint}"
    try:
        plan = kb.index(*roots, options=IndexOptions(dry_run=True))
    except LoadError as error:
        return f"an indexed folder no longer exists: {error}"
    for source, reason in plan.skipped:
        if matches(source) or (Path(file).absolute().is_relative_to(source) and Path(file).exists()):
            return f"it was skipped: {reason}"
    return _explain_not_found(Path(file).absolute(), roots)


def _explain_not_found(path: Path, roots: Sequence[str]) -> str:
    """Why an index run over `roots` does not mention a file."""
    if not path.exists():
        return f"no file of this name is in {', '.join(map(display_name, roots))}"
    root = next((root for root in roots if path.is_relative_to(root)), None)
    if root is None:
        return f"it is outside of the indexed folders: ragkit index {display_name(str(path))}"
    if any(part.startswith(".") for part in path.relative_to(root).parts):
        return "it is hidden: its name or that of a parent folder begins with a dot"
    return "it is new, has no text, or is excluded by an ignore file or by include and exclude: run ragkit index -v"


def _explain_no_chunk(chunks: Sequence[Chunk], line: int | None) -> str:
    last = max((item.end_line for item in chunks), default=0)
    if line is not None and line > last:
        return f"line must be <= {last}, the last line with text (got {line})"
    return f"no chunk contains line {line}: it is empty, or the loader skipped it"


def _contains_expected(chunk: Chunk, expected: Mapping[str, Chunk]) -> bool:
    """Whether a hit is item of the expected chunks, or its expanded text contains item."""
    if chunk.id in expected:
        return True
    return any(
        chunk.source == item.source and chunk.start <= item.start and item.end <= chunk.end
        for item in expected.values()
    )


def _rank_in_stage(
    name: str, near: Sequence[Explanation], deep: Sequence[Explanation], expected: Mapping[str, Chunk]
) -> StageRank:
    """The rank in the near ranking, else in the deep item."""
    for ranking in (near, deep):
        placed = next((item.hit for item in ranking if _contains_expected(item.hit.chunk, expected)), None)
        if placed is not None:
            return StageRank(name, placed.rank, placed.score, len(deep), ranking[0].hit.score)
    return StageRank(name, None, None, len(deep), near[0].hit.score if near else None)


def _best_chunk(ranking: Sequence[Explanation], expected: Mapping[str, Chunk]) -> Chunk:
    return next(
        (expected[item.hit.chunk.id] for item in ranking if item.hit.chunk.id in expected),
        next(iter(expected.values())),
    )


def _compare_words(question: str, passage: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(words of the question that the passage contains, words that it lacks), without stop words."""
    telling, there = set(extract_terms(question)), set(extract_terms(passage))
    words = [word.strip(".,;:!?()\"'") for word in question.split()]
    terms = {word: telling.intersection(extract_terms(word)) for word in words}
    shared = tuple(word for word, own in terms.items() if own & there)
    return shared, tuple(word for word, own in terms.items() if own and not own & there)


def _add_advice(
    session: Session, query: DiagnosisQuery, diagnosis: Diagnosis, expected: Mapping[str, Chunk]
) -> Diagnosis:
    if diagnosis.rank is not None:
        return replace(diagnosis, advice=(f"none: it is hit {diagnosis.rank}",))
    advice = []
    if query.where and any(
        _contains_expected(item.chunk, expected) for item in session.search(query.question, SEARCH_DEPTH)
    ):
        if all(stage.rank is None for stage in diagnosis.stages):
            return replace(diagnosis, advice=("remove --where: the passage does not match it",))
        advice.append("remove or widen --where: fewer passages would compete")
    *parts, fused = diagnosis.stages
    if fused.rank is not None:
        advice.append(f"top_k {fused.rank} instead of {diagnosis.top_k}")
    advice += [
        f"--mode {stage.name}: its rank is {stage.rank} there"
        for stage in parts
        if stage.rank is not None and stage.rank <= diagnosis.top_k
    ]
    if diagnosis.missing_words and not diagnosis.shared_words:
        advice.append(f"other words: the passage contains none of {', '.join(diagnosis.missing_words)}")
    elif diagnosis.missing_words:
        advice.append(f"other words: the passage lacks {', '.join(diagnosis.missing_words)}")
    return replace(diagnosis, advice=tuple(advice))

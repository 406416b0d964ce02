"""Explain why a search misses a passage: its rank at each stage, and what would bring it into the hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragkit.errors import LoadError, RagkitError
from ragkit.index.source_ids import display_name
from ragkit.knowledge_base.filters import Where
from ragkit.knowledge_base.indexing import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase, SearchMode
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Chunk
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


@dataclass(frozen=True, slots=True)
class DiagnosisQuery:
    """The search to explain."""

    question: str
    top_k: int | None = None
    where: Where = None


def diagnose(kb: KnowledgeBase, query: DiagnosisQuery, file: str, line: int | None = None) -> Diagnosis:
    """Follow a passage through the stages.

    Args:
        kb: the knowledge base to search.
        query: the search that misses it.
        file: the end of the path of a file.
        line: a line of the text of the file, counted from 1; None: any passage of the file.

    Raises:
        RagkitError: more than item indexed file matches.
    """
    hits = kb.search(query.question, query.top_k, query.where)
    top_k = query.top_k or len(hits)
    source = _find_source(kb, file)
    if source is None:
        return Diagnosis(query.question, "", line, None, _explain_not_indexed(kb, file), (), top_k, None)
    chunks = [item for item in kb.chunks() if item.source == source]
    expected = {item.id: item for item in chunks if line is None or item.start_line <= line <= item.end_line}
    if not expected:
        return Diagnosis(query.question, source, line, None, _explain_no_chunk(chunks, line), (), top_k, None)
    deep = {mode: kb.explain(query.question, SEARCH_DEPTH, query.where, mode) for mode in _search_modes(kb)}
    near = {mode: kb.explain(query.question, NEAR_DEPTH, query.where, mode) for mode in deep}
    stages = tuple(
        _rank_in_stage(mode or kb.pipeline.retriever.name, near[mode], deep[mode], expected) for mode in deep
    )
    best = _best_chunk(deep[None], expected)
    rank = next((hit.rank for hit in hits if _contains_expected(hit.chunk, expected)), None)
    shared, missing = _compare_words(query.question, f"{best.header}\n{best.text}")
    diagnosis = Diagnosis(query.question, source, line, best, "", stages, top_k, rank, shared, missing)
    return _add_advice(kb, query, diagnosis, expected)


def _search_modes(kb: KnowledgeBase) -> list[SearchMode | None]:
    """Every ranking; None is that of the pipeline."""
    embeds = kb.pipeline.retriever.name != "lexical"
    return ["lexical", *(("dense",) if embeds else ()), None]


def _find_source(kb: KnowledgeBase, file: str) -> str | None:
    named = [source for source, _, _ in kb.documents() if source == file or source.endswith("/" + file.lstrip("/"))]
    exact = [source for source in named if source in {file, str(Path(file).absolute())}]
    if len(named) > 1 and not exact:
        raise RagkitError(f"{file!r} is ambiguous ({', '.join(map(display_name, named[:3]))}): write more of its path")
    return next(iter(exact or named), None)


def _explain_not_indexed(kb: KnowledgeBase, file: str) -> str:
    """Why no file of this name is indexed."""

    def matches(source: str) -> bool:
        return source == file or source.endswith("/" + file.lstrip("/"))

    for row in kb.failures():
        if matches(row.source):
            return f"it could not be parsed: {row.reason}; {row.hint}"
    roots = kb.status().sources
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
    kb: KnowledgeBase, query: DiagnosisQuery, diagnosis: Diagnosis, expected: Mapping[str, Chunk]
) -> Diagnosis:
    if diagnosis.rank is not None:
        return replace(diagnosis, advice=(f"none: it is hit {diagnosis.rank}",))
    advice = []
    if query.where and any(
        _contains_expected(item.chunk, expected) for item in kb.search(query.question, SEARCH_DEPTH)
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

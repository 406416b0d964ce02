"""Why a search does not bring what it should: where the wanted passage stood at each stage, and what would keep it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragkit.errors import LoadError, RagkitError
from ragkit.index.source_ids import display_name
from ragkit.knowledge_base.indexing import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase, SearchMode, Where
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Chunk
from ragkit.retrieve.base import Explanation

SEARCH_DEPTH = 10_000
"""How far down each ranking is looked for the passage."""
NEAR_DEPTH = 100
"""Up to here a ranking is that of a search: one that is asked for more compares more candidates, and may differ."""


@dataclass(frozen=True, slots=True)
class StageRank:
    """One ranking, and the place of the wanted passage in it."""

    name: str
    rank: int | None
    """Counted from 1; None: it is not among the first `of`."""
    score: float | None
    ranking_size: int
    """Passages in this ranking."""
    top_score: float | None
    """The score of the passage that stands first."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Where a passage stood, from the file on disk to the hits."""

    question: str
    source: str
    """The file; empty when none of this name is known."""
    line: int | None
    chunk: Chunk | None
    """The chunk that stood best of those that hold the line; None: there is none."""
    not_indexed_reason: str
    """Why it is not in the index; empty when it is."""
    stages: tuple[StageRank, ...]
    top_k: int
    rank: int | None
    """Its place among the hits that a search gives; None: it is not one of them."""
    shared_words: tuple[str, ...] = ()
    """Words of the question that the passage has, in this form or another."""
    missing_words: tuple[str, ...] = ()
    """Words of the question that the passage does not have."""
    advice: tuple[str, ...] = ()
    """What would have kept it, the least change first."""


@dataclass(frozen=True, slots=True)
class DiagnosisQuery:
    """What was searched, and how."""

    question: str
    top_k: int | None = None
    where: Where = None


def diagnose(kb: KnowledgeBase, asked: DiagnosisQuery, file: str, line: int | None = None) -> Diagnosis:
    """Follow a passage through the stages.

    Args:
        kb: what is searched.
        asked: the search that does not bring it.
        file: the end of a file's path.
        line: a line of the file's text, counted from 1; None: any passage of the file will do.

    Raises:
        RagkitError: more than one indexed file is called so.
    """
    hits = kb.search(asked.question, asked.top_k, asked.where)
    top_k = asked.top_k or len(hits)
    source = _find_source(kb, file)
    if source is None:
        return Diagnosis(asked.question, "", line, None, _explain_not_indexed(kb, file), (), top_k, None)
    chunks = [one for one in kb.chunks() if one.source == source]
    wanted = {one.id: one for one in chunks if line is None or one.start_line <= line <= one.end_line}
    if not wanted:
        return Diagnosis(asked.question, source, line, None, _explain_no_chunk(chunks, line), (), top_k, None)
    deep = {mode: kb.explain(asked.question, SEARCH_DEPTH, asked.where, mode) for mode in _search_modes(kb)}
    near = {mode: kb.explain(asked.question, NEAR_DEPTH, asked.where, mode) for mode in deep}
    stages = tuple(_rank_in_stage(mode or kb.pipeline.retriever.name, near[mode], deep[mode], wanted) for mode in deep)
    best = _best_chunk(deep[None], wanted)
    rank = next((hit.rank for hit in hits if _contains_wanted(hit.chunk, wanted)), None)
    shared, missing = _compare_words(asked.question, f"{best.header}\n{best.text}")
    found = Diagnosis(
        asked.question,
        source,
        line,
        best,
        "",
        stages,
        top_k,
        rank,
        shared,
        missing,
    )
    return _add_advice(kb, asked, found, wanted)


def _search_modes(kb: KnowledgeBase) -> list[SearchMode | None]:
    """Every ranking there is; None is that of the pipeline."""
    embeds = kb.pipeline.retriever.name != "lexical"
    return ["lexical", *(("dense",) if embeds else ()), None]


def _find_source(kb: KnowledgeBase, file: str) -> str | None:
    named = [source for source, _, _ in kb.documents() if source == file or source.endswith("/" + file.lstrip("/"))]
    exact = [source for source in named if source in {file, str(Path(file).absolute())}]
    if len(named) > 1 and not exact:
        raise RagkitError(f"{file!r} may be {', '.join(map(display_name, named[:3]))}: write more of its path")
    return next(iter(exact or named), None)


def _explain_not_indexed(kb: KnowledgeBase, file: str) -> str:
    """Why no file of this name is in the index."""

    def is_it(source: str) -> bool:
        return source == file or source.endswith("/" + file.lstrip("/"))

    for row in kb.failures():
        if is_it(row.source):
            return f"it could not be read: {row.reason}; {row.hint}"
    roots = kb.status().sources
    try:
        plan = kb.index(*roots, options=IndexOptions(dry_run=True))
    except LoadError as error:
        return f"the folder that was indexed is not there any more: {error}"
    for source, reason in plan.skipped:
        if is_it(source) or (Path(file).absolute().is_relative_to(source) and Path(file).exists()):
            return f"it was left out: {reason}"
    return _explain_not_found(Path(file).absolute(), roots)


def _explain_not_found(path: Path, roots: Sequence[str]) -> str:
    """Why the run that looked at `roots` had nothing to say of a file."""
    if not path.exists():
        return f"no file of this name is in {', '.join(map(display_name, roots))}"
    root = next((root for root in roots if path.is_relative_to(root)), None)
    if root is None:
        return f"it lies outside of what was indexed: ragkit index {display_name(str(path))}"
    if any(part.startswith(".") for part in path.relative_to(root).parts):
        return "it is hidden: its name, or that of a folder above it, begins with a dot"
    return "it is new, without text, or left out by an ignore file or by include and exclude: run ragkit index -v"


def _explain_no_chunk(chunks: Sequence[Chunk], line: int | None) -> str:
    last = max((one.end_line for one in chunks), default=0)
    if line is not None and line > last:
        return f"line {line} is behind the last one with text, {last}"
    return f"no chunk holds line {line}: it is empty, or was left out by the loader"


def _contains_wanted(chunk: Chunk, wanted: Mapping[str, Chunk]) -> bool:
    """Whether a hit is one of the wanted chunks, or its text, wider than its chunk, holds one."""
    if chunk.id in wanted:
        return True
    return any(
        chunk.source == one.source and chunk.start <= one.start and one.end <= chunk.end for one in wanted.values()
    )


def _rank_in_stage(
    name: str, near: Sequence[Explanation], deep: Sequence[Explanation], wanted: Mapping[str, Chunk]
) -> StageRank:
    """The place among the near hits where it is one of them, else among the deep ones."""
    for found in (near, deep):
        placed = next((one.hit for one in found if _contains_wanted(one.hit.chunk, wanted)), None)
        if placed is not None:
            return StageRank(name, placed.rank, placed.score, len(deep), found[0].hit.score)
    return StageRank(name, None, None, len(deep), near[0].hit.score if near else None)


def _best_chunk(found: Sequence[Explanation], wanted: Mapping[str, Chunk]) -> Chunk:
    return next((wanted[one.hit.chunk.id] for one in found if one.hit.chunk.id in wanted), next(iter(wanted.values())))


def _compare_words(question: str, passage: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The telling words of a question that a passage has in some form, and those that it has not."""
    telling, there = set(extract_terms(question)), set(extract_terms(passage))
    words = [word.strip(".,;:!?()\"'") for word in question.split()]
    found = {word: telling.intersection(extract_terms(word)) for word in words}
    shared = tuple(word for word, own in found.items() if own & there)
    return shared, tuple(word for word, own in found.items() if own and not own & there)


def _add_advice(kb: KnowledgeBase, asked: DiagnosisQuery, found: Diagnosis, wanted: Mapping[str, Chunk]) -> Diagnosis:
    if found.rank is not None:
        return replace(found, advice=(f"nothing: it is hit {found.rank}",))
    advice = []
    if asked.where and any(_contains_wanted(one.chunk, wanted) for one in kb.search(asked.question, SEARCH_DEPTH)):
        if all(stage.rank is None for stage in found.stages):
            return replace(found, advice=("drop --where: the passage does not meet it",))
        advice.append("drop --where, or widen it: fewer passages would compete")
    *parts, fused = found.stages
    if fused.rank is not None:
        advice.append(f"top_k {fused.rank} instead of {found.top_k}")
    advice += [
        f"--mode {stage.name}: it stands at {stage.rank} there"
        for stage in parts
        if stage.rank is not None and stage.rank <= found.top_k
    ]
    if found.missing_words and not found.shared_words:
        advice.append(f"other words: the passage has none of {', '.join(found.missing_words)}")
    elif found.missing_words:
        advice.append(f"other words: the passage does not have {', '.join(found.missing_words)}")
    return replace(found, advice=tuple(advice))

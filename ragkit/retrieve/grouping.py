"""Show one of the passages that say the same, and name the sources of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ragkit.lexical.document_fields import period_terms
from ragkit.lexical.near_duplicates import Passage
from ragkit.records import Where
from ragkit.retrieve.base import ChunkIndex, Explanation, Retriever
from ragkit.retrieve.options import validate_top_k

MAX_ALSO_IN = 100
"""Sources named beside a hit."""
DEPTH_FACTOR = 4
"""Hits that are looked at, relative to those that are asked for, before the search is repeated without copies."""


class GroupingRetriever(Retriever):
    """Keeps one hit of each group that the index knows; without groups, it passes the hits on.

    The best hit of a group stays, or that of the newest version of its document, unless the question names a period.
    If the copies push other passages out of the list, the search is repeated with one passage of each group.
    """

    def __init__(self, build: Callable[[ChunkIndex], Retriever], index: ChunkIndex, top_k: int) -> None:
        """`build` makes the retriever of an index; `top_k` is the default number of hits."""
        self._build, self._index, self._top_k = build, index, top_k
        self._inner = build(index)

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The best hits, one of each group, with ranks and score contributions."""
        top_k = validate_top_k(self._top_k if top_k is None else top_k)
        if not self._index.has_groups():
            return self._inner.explain(question, top_k, where)
        found = self._inner.explain(question, DEPTH_FACTOR * top_k, where)
        passages = self._find_passages(found)
        kept = keep_one_of_each(found, passages, prefers_newest=not period_terms(question))
        if len(kept) < top_k and len(found) >= DEPTH_FACTOR * top_k:
            chosen = {passages[entry.hit.chunk.id].group: entry for entry in kept if entry.hit.chunk.id in passages}
            others = self._build(self._index.without_copies()).explain(question, top_k, where)
            passages |= self._find_passages(others)
            groups = [_group_of(entry, passages) for entry in others]
            kept = [
                entry if group is None else _replace_chunk(entry, chosen.get(group))
                for entry, group in zip(others, groups, strict=True)
            ]
        return [
            replace(entry, hit=replace(entry.hit, rank=rank, also_in=self._other_sources(entry, passages, where)))
            for rank, entry in enumerate(kept[:top_k], start=1)
        ]

    def _find_passages(self, found: Sequence[Explanation]) -> dict[str, Passage]:
        passages = self._index.find_passages([entry.hit.chunk.id for entry in found])
        return {passage.chunk_id: passage for passage in passages}

    def _other_sources(self, entry: Explanation, passages: Mapping[str, Passage], where: Where) -> tuple[str, ...]:
        group = _group_of(entry, passages)
        sources = self._index.group_sources(group, MAX_ALSO_IN + 1, where) if group is not None else []
        return tuple(name for name in sources if name != entry.hit.chunk.source)[:MAX_ALSO_IN]


def keep_one_of_each(
    found: Sequence[Explanation], passages: Mapping[str, Passage], *, prefers_newest: bool
) -> list[Explanation]:
    """The hits without the copies of higher ones. A newer version of the same document takes the place of an older."""
    places: dict[int, int] = {}
    kept: list[Explanation] = []
    for entry in found:
        passage = passages.get(entry.hit.chunk.id)
        if passage is None or passage.group not in places:
            if passage is not None:
                places[passage.group] = len(kept)
            kept.append(entry)
        elif prefers_newest:
            place = places[passage.group]
            if _is_newer(passage, passages[kept[place].hit.chunk.id]):
                kept[place] = _replace_chunk(kept[place], entry)
    return kept


def _replace_chunk(entry: Explanation, chosen: Explanation | None) -> Explanation:
    """A hit with the chunk of another one that says the same."""
    if chosen is None:
        return entry
    return replace(entry, hit=replace(entry.hit, chunk=chosen.hit.chunk, scores=chosen.hit.scores))


def _group_of(entry: Explanation, passages: Mapping[str, Passage]) -> int | None:
    passage = passages.get(entry.hit.chunk.id)
    return None if passage is None else passage.group


def _is_newer(passage: Passage, other: Passage) -> bool:
    """Whether a passage is of a newer version of the same document: the same file name or title but for its period."""
    (family, version), (other_family, other_version) = passage.version, other.version
    is_same = family == other_family or (bool(passage.title) and passage.title == other.title)
    return is_same and version > other_version

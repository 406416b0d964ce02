"""The passages of a search as text for a model: number, place, date and content, whole or in extracts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from posixpath import commonpath

from ragkit.answer.base import Searcher
from ragkit.answer.extractive.named_rows import find_named_rows, holding_hit, row_names
from ragkit.answer.extractive.selection import rank_answer_units
from ragkit.answer.extractive.units import AnswerUnit, UnitKind
from ragkit.answer.passages import within_budget
from ragkit.index.sources.ids import display_name
from ragkit.lexical.analyzer import extract_terms
from ragkit.places import format_lines
from ragkit.records import Chunk, Hit
from ragkit.usage.tokens import estimate_tokens

EXTRACTS_BUDGET = 400
"""Tokens of the extracts of one search, by estimate: they hold an answer as often as the three best passages do, which
are half as long again."""
_GAP = "..."
DATE_KEYS = (
    *("date", "updated", "modified", "last_modified", "lastmod", "effective", "effective_date", "valid_from"),
    *("published", "published_at", "created"),
)
"""Metadata that tells how old a document is, the most telling first."""
VERSION_KEYS = ("version", "revision", "edition", "status")
"""Metadata that tells which version of a document it is."""
MAX_DATES = 3
"""Dates and versions that are shown of a document, and fields that a question names."""
MAX_VALUE_CHARS = 40
_OWN_FIELDS = frozenset({"title", "name", "suffix", "source", "format"})
"""Shown otherwise."""
MAX_NOTE_CHARS = 160
BEGINNING_CHARS = 800
"""Characters at the beginning of a document that are searched for a note on its validity."""
_VALIDITY = re.compile(
    r"\b(?:withdrawn|superseded?|supersedes|replaced by|replaces|obsolete|deprecated|expired"
    r"|no longer (?:valid|in force)|in force|effective (?:from|date|since)|valid (?:from|until)|amended"
    r"|last (?:updated|modified|revised|changed)"
    r"|version:? v?\d|revision:? \d|edition|as of \d|draft"
    r"|gültig|in kraft|ersetzt|aufgehoben|stand:|fassung|entwurf|en vigueur|abrogée?|remplacée?|remplace|mise? à jour)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?*])\s+(?=[A-ZÀ-Þ*_])")
_MARKUP = re.compile(r"^[\s>#*_|-]+|[*_`]+")
_RECORD = re.compile(r"[^:;\n]{1,60}: [^;\n]*; [^:;\n]{1,60}: [^;\n]*; [^:;\n]{1,60}: ")
"""A line of at least three fields: what it says on versions and dates is about itself, not about its file."""


def format_blocks(hits: Sequence[Hit], numbers: Sequence[int], searcher: Searcher, query: str = "") -> dict[int, str]:
    """The text of each hit by its number, in the order in which the model reads them.

    Hits of one document that overlap or touch stand together in the order of the document, and the text that they share
    stands in the first of them only. Each keeps its own number and its own place. Metadata that `query` names is shown.
    """
    heads = _Heads([hit.chunk for hit in hits], searcher, query)
    blocks: dict[int, str] = {}
    by_id = {hit.chunk.id: n for n, hit in zip(numbers, hits, strict=True)}
    for group in _group_neighbours(hits):
        end, before = -1, 0
        for chunk in group:
            n = by_id[chunk.id]
            text = chunk.text[max(0, end - chunk.start) :].lstrip("\n") if end > chunk.start else chunk.text
            text = text if text.strip() else f"(its text stands in [{before}])"
            blocks[n] = "\n".join([*heads.lines(n, chunk, before), text])
            end, before = max(end, chunk.end), n
    return blocks


@dataclass(frozen=True, slots=True)
class Extract:
    """What is shown of a hit."""

    hit: Hit
    text: str


def choose_extracts(
    query: str, hits: Sequence[Hit], searcher: Searcher, budget: int = EXTRACTS_BUDGET
) -> list[Extract]:
    """The sentences, rows and list items of the hits that are closest to a query.

    For models that read slowly, or use little of what they read. The hit with the closest one comes first; hits
    without any are left out. Where something between two of them is left out, a line says so. Hits without a sentence
    are whole.

    Args:
        query: what was searched for.
        hits: the passages, best first.
        searcher: knows the documents, and embeds.
        budget: tokens of the extracts, by estimate; the closest one is shown whatever its length.
    """
    ranked, units = rank_answer_units(query, hits, searcher)
    if more := find_named_rows(query, ranked, hits, searcher):
        hits = [*hits, *more]
        ranked, units = rank_answer_units(query, hits, searcher)
    if not ranked:
        return [Extract(hit, hit.chunk.text) for hit in within_budget(list(hits), budget)]
    position = {_place(unit): index for index, unit in enumerate(units)}
    chosen: dict[int, AnswerUnit] = {}
    size = 0
    for unit in ranked:
        tokens = estimate_tokens(unit.text)
        if (chosen and size + tokens > budget) or any(_overlap(unit, other) for other in chosen.values()):
            continue
        chosen[position[_place(unit)]] = unit
        size += tokens
    chosen = _without_other_rows(chosen, row_names(query))
    extracts: list[Extract] = []
    # a row is of the passage that has it; prose is read on into the next one
    holders = {i: holding_hit(u, hits, u.hit_index) if u.cells else u.hit_index for i, u in chosen.items()}
    for at in dict.fromkeys(holders.values()):
        places = sorted(index for index, holder in holders.items() if holder == at)
        gaps = ["", *(_GAP if after > before + 1 else "" for before, after in pairwise(places))]
        lines = [line for index, gap in zip(places, gaps, strict=True) for line in (gap, _read(chosen[index]))]
        extracts.append(Extract(hits[at], "\n".join(filter(None, lines))))
    return extracts


def format_extracts(
    extracts: Sequence[Extract], numbers: Sequence[int], searcher: Searcher, query: str = ""
) -> dict[int, str]:
    """The text of each extract by the citation number of its hit, in their order, with metadata that `query` names."""
    heads = _Heads([extract.hit.chunk for extract in extracts], searcher, query)
    return {
        n: "\n".join([*heads.lines(n, extract.hit.chunk), extract.text])
        for n, extract in zip(numbers, extracts, strict=True)
    }


def _place(unit: AnswerUnit) -> tuple[int, int, int, UnitKind]:
    return unit.hit_index, unit.start, unit.end, unit.kind


def _without_other_rows(chosen: Mapping[int, AnswerUnit], names: Collection[str]) -> dict[int, AnswerUnit]:
    """The units without the rows of a table that a question is not about; what they took of the budget stays free.

    A question that names what stands in some rows of a file is about these. The rows beside them are kept: they answer
    what comes before or after.
    """
    rows: dict[str, dict[int, set[str]]] = {}
    for index, unit in chosen.items():
        if unit.kind is UnitKind.ROW:
            rows.setdefault(unit.source, {})[index] = {*extract_terms(unit.body)}
    left_out: set[int] = set()
    for terms in rows.values():
        telling = {name for name in names if not all(name in held for held in terms.values())}
        named = {index for index, held in terms.items() if held & telling}
        if named:
            left_out |= {index for index in terms if not named & {index - 1, index, index + 1}}
    return {index: unit for index, unit in chosen.items() if index not in left_out}


def _overlap(unit: AnswerUnit, other: AnswerUnit) -> bool:
    """Whether two units share text: a list and its items."""
    return unit.source == other.source and unit.start < other.end and other.start < unit.end


def _read(unit: AnswerUnit) -> str:
    """A unit with what introduces it, in its lines."""
    return f"{unit.lead}\n{unit.body}" if unit.lead and "\n" in unit.body else f"{unit.lead} {unit.body}".strip()


class _Heads:
    """The lines above the text of each passage."""

    def __init__(self, chunks: Sequence[Chunk], searcher: Searcher, query: str) -> None:
        self._searcher = searcher
        self._asked = frozenset(extract_terms(query))
        self._dates = _file_dates(chunks)
        self._names = _short_names([chunk.source for chunk in chunks])
        self._noted: set[str] = set()

    def lines(self, n: int, chunk: Chunk, before: int = 0) -> list[str]:
        """Number and place, what is said on the validity of the document, and the context that a model has written.

        Args:
            n: the citation number.
            chunk: the passage.
            before: the number of the passage that it continues; 0 for none.
        """
        note = "" if chunk.document_id in self._noted else describe_validity(chunk, self._searcher)
        self._noted.add(chunk.document_id)
        continues = f", continues [{before}]" if before else ""
        place = f"{self._names[chunk.source]}, {_format_place(chunk)}{continues}{_format_heading(chunk)}"
        context = f"Context: {chunk.context}" if chunk.context else ""
        fields = "".join(f", {field}" for field in describe_fields(chunk, self._asked, self._dates))
        return [f"[{n}] ({place}{fields})", *filter(None, (note, context))]


def _short_names(sources: Sequence[str]) -> dict[str, str]:
    """The names of files below the folder that all of them have in common; of anything else, as it is displayed."""
    directory = Path.cwd()  # called once: each call releases the GIL
    names = {source: display_name(source, directory) for source in sources}
    files = [source for source in names if source.startswith("/")]
    common = commonpath([source.rpartition("/")[0] for source in files]) if files else ""
    shorter = {source: names[source][max(0, len(names[source]) - len(source) + len(common)) :] for source in files}
    return {source: shorter.get(source, name).lstrip("/") or name for source, name in names.items()}


def _group_neighbours(hits: Sequence[Hit]) -> list[list[Chunk]]:
    """The chunks in groups of neighbours in one document, in its order; the group of the best hit comes first."""
    chunks = [hit.chunk for hit in hits]
    groups: list[list[Chunk]] = []
    for chunk in sorted(chunks, key=lambda chunk: (chunk.document_id, chunk.start, chunk.end)):
        last = groups[-1] if groups else []
        if last and last[0].document_id == chunk.document_id and chunk.start <= max(c.end for c in last) + 2:
            last.append(chunk)
        else:
            groups.append([chunk])
    rank = {chunk.id: position for position, chunk in enumerate(chunks)}
    return sorted(groups, key=lambda group: min(rank[chunk.id] for chunk in group))


def _format_place(chunk: Chunk) -> str:
    return chunk.place or format_lines(chunk.start_line, chunk.end_line)


def _format_heading(chunk: Chunk) -> str:
    """The headings above the text, without the one that it begins with."""
    path = list(chunk.heading)
    if path and chunk.text.lstrip("# \n").startswith(path[-1]):
        path.pop()
    return f", under {' > '.join(path)}" if path else ""


def describe_fields(chunk: Chunk, asked: Collection[str], file_dates: Mapping[str, str]) -> list[str]:
    """Metadata of a passage for a model: `date 2024-03-01`, `version 2`, or the date of the file; then what is asked.

    Args:
        chunk: the passage.
        asked: the terms of the question. A field of one value is asked for if all words of its name are among them.
        file_dates: the day on which each file was changed, for those without a date of their own.
    """
    values = {
        key: " ".join(str(value).split())
        for key, value in chunk.metadata.items()
        if isinstance(value, str | int | float) and str(value).strip() and key not in _OWN_FIELDS
    }
    known = [key for key in (*DATE_KEYS, *VERSION_KEYS) if key in values][:MAX_DATES]
    dates = [f"{key.replace('_', ' ')} {_without_time(values[key])[:MAX_VALUE_CHARS]}" for key in known]
    if not any(key in DATE_KEYS for key in known) and chunk.source in file_dates and len(dates) < MAX_DATES:
        dates.append(f"file of {file_dates[chunk.source]}")
    words = {key: {*extract_terms(key.replace("_", " "))} for key in values if key not in known}
    named = [key for key, terms in words.items() if terms and terms <= {*asked}]
    return [*dates, *(f"{key.replace('_', ' ')} {values[key][:MAX_VALUE_CHARS]}" for key in named[:MAX_DATES])]


def _without_time(value: str) -> str:
    return value[:10] if re.match(r"\d{4}-\d\d-\d\d[T ]", value) else value


def _file_dates(chunks: Sequence[Chunk]) -> dict[str, str]:
    """The day on which each file was changed; none if that is the same day for all: it then tells nothing."""
    dates: dict[str, str] = {}
    for source in dict.fromkeys(chunk.source for chunk in chunks):
        with suppress(OSError, ValueError):  # a URL, a name, or a file that is gone
            if source.startswith("/") or Path(source).is_absolute():
                dates[source] = datetime.fromtimestamp(Path(source).stat().st_mtime, UTC).date().isoformat()
    return dates if len(set(dates.values())) > 1 else {}


def describe_validity(chunk: Chunk, searcher: Searcher) -> str:
    """What the beginning of the document says on its validity, if the passage is from another place; '' for nothing."""
    if chunk.start == 0:
        return ""
    first = searcher.first_chunk(chunk.document_id)
    if first is None or first.id == chunk.id:
        return ""
    sentences = (
        _MARKUP.sub("", sentence).strip()
        for line in first.text[:BEGINNING_CHARS].splitlines()
        if not _RECORD.match(line)
        for sentence in _SENTENCE_END.split(line)
    )
    found = " ".join(sentence for sentence in sentences if _VALIDITY.search(sentence))
    return f"The document says: {found[:MAX_NOTE_CHARS]}" if found else ""

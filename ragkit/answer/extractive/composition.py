"""Composes an answer from scored units: one coherent passage, and further ones only where they add something.

A passage is a unit with the sentences that continue it, a list with its introduction, a term with its definition, or
a command with the sentence that introduces it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragkit.answer.extractive.question_kind import QuestionKind, asked_term, compared_sides, detect_question_kinds
from ragkit.answer.extractive.selection import OPENING_CHARS, ScoredAnswerUnit, file_words
from ragkit.answer.extractive.units import KEY_VALUE_LINE, MAX_LIST_ITEMS, REGION_CHARS, AnswerUnit, UnitKind
from ragkit.lexical.analyzer import extract_terms

MAX_PASSAGES = 3
MAX_CHARS = 600
"""Characters of an answer with its citation marks; a list or steps that were asked for may be longer by half."""
MAX_LIST_WORDS = 110
"""Words of a list that was asked for."""
_MARK_CHARS = 5  # of a citation mark and the line break
_PASSAGE_WORDS = 45  # sentences are added until a passage has this many
_MAX_GAP_CHARS = 10  # between a sentence and what it introduces
_EXTRA_WORDS = 30  # of further passages
_MARGIN = 2.2  # a further passage may score this much less than the best
_DUPLICATE_OVERLAP = 0.8  # share of the terms of the shorter passage
_LISTED = (UnitKind.ITEM, UnitKind.LIST, UnitKind.CODE)
_NUMBERED = re.compile(r"\(?\w{1,3}[.)]\s")
_EACH = re.compile(
    r"\b(?:each(?: of the)?|every|per|(?:of |for )all(?: the)?|jede[mnrs]?|je|pro|chaque|par|cada|por)\s+"
    r"([^\W\d_]{2,40})",
    re.IGNORECASE,
)
"""What is asked of each thing of a kind."""


@dataclass(frozen=True)
class AnswerPassage:
    """A part of an answer: consecutive units of one document."""

    hit_index: int
    source: str
    start: int
    end: int
    text: str
    """Lines of a list begin with `- `; lines of code are indented."""
    score: float


def compose_answer(
    question: str, ranked: Sequence[ScoredAnswerUnit], units: Sequence[AnswerUnit], max_chars: int = MAX_CHARS
) -> list[AnswerPassage]:
    """The passages of the answer, best first; empty without units.

    Args:
        question: as it was searched.
        ranked: the candidates, best first.
        units: all units of the passages, in order.
        max_chars: of all passages together; half as many again if it begins with a list or steps that were asked for.
    """
    kinds = detect_question_kinds(question)
    composer = _Composer(question, kinds, units, max_chars)
    passages: list[AnswerPassage] = []
    chars, limit = 0, max_chars
    for unit in ranked:
        if passages and (unit.score < passages[0].score - _MARGIN or len(passages) == MAX_PASSAGES):
            break
        if any(overlaps(unit, passage) for passage in passages) or composer.is_beside(unit):
            continue
        passage = composer.passage(unit, _EXTRA_WORDS if passages else _PASSAGE_WORDS, passages)
        size = len(passage.text) + _MARK_CHARS
        wants_list = bool(kinds & (QuestionKind.LIST | QuestionKind.HOW_TO))
        is_long = (wants_list and unit.kind in _LISTED) or ((wants_list or unit.cells) and "\n" in passage.text)
        if not passages and is_long:
            limit = max_chars * 3 // 2
        if size > limit and unit.kind is UnitKind.LIST and not wants_list:
            continue  # what it would be cut to is its beginning, the answer is one of its items
        if passages and (chars + size > limit or any(_repeats(passage, other) for other in passages)):
            continue
        if size > limit:
            passage = replace(passage, text=_shorten(passage.text, limit - _MARK_CHARS))
        passages.append(passage)
        chars += size
    if kinds & QuestionKind.COMPARISON and passages:
        both = _with_both_sides(question, passages, ranked, composer)
        passages = _fit(both, len(both) - len(passages), max_chars)
    return passages


def _join_cells(cells: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{name}: {text}" if name else text for name, text in cells)


def _shorten(text: str, limit: int) -> str:
    """A text of at most `limit` characters: cut between its lines, cells or clauses, or else between words."""
    beginning = text[: limit - 3]
    cut = max((beginning.rfind(mark) for mark in ("\n", "; ", ", ")), default=-1)
    cut = cut if cut > limit // 2 else beginning.rfind(" ")
    return text if len(text) <= limit else f"{beginning[: cut if cut > 0 else limit - 3].rstrip(' ,;')} ..."


def _with_both_sides(
    question: str, passages: list[AnswerPassage], ranked: Sequence[ScoredAnswerUnit], composer: _Composer
) -> list[AnswerPassage]:
    """The passages of a comparison, with one about each side: for a side that has none, its best unit is added."""
    sides = compared_sides(question)
    if sides is None:
        return passages
    first, second = (_side_words(side) for side in sides)
    for own, other in ((first - second, second - first), (second - first, first - second)):
        if any(own & words and not other & words for words in (_side_words(passage.text) for passage in passages)):
            continue
        for unit in ranked:
            words = _side_words(unit.text)
            if own & words and not other & words and not any(overlaps(unit, passage) for passage in passages):
                passages = [*passages, composer.passage(unit, _EXTRA_WORDS, passages)]
                break
    return passages


def _fit(passages: Sequence[AnswerPassage], added: int, max_chars: int) -> list[AnswerPassage]:
    """The passages within `max_chars`: those between the first and the `added` last ones go first, then words."""
    kept, last = list(passages), len(passages) - added
    while sum(len(passage.text) + _MARK_CHARS for passage in kept) > max_chars and last > 1:
        last -= 1
        del kept[last]
    share = max_chars // max(1, len(kept)) - _MARK_CHARS
    is_long = sum(len(passage.text) + _MARK_CHARS for passage in kept) > max_chars
    return [replace(passage, text=_shorten(passage.text, share)) if is_long else passage for passage in kept]


def _side_words(text: str) -> frozenset[str]:
    """Words with their case, since `-x` and `-X` may be compared, and in the form of the index."""
    return frozenset(re.findall(r"-{1,2}\w[\w-]*", text)) | frozenset(extract_terms(text))


def overlaps(unit: AnswerUnit, passage: AnswerPassage) -> bool:
    """Whether a unit shares characters with a passage."""
    return unit.source == passage.source and unit.start < passage.end and passage.start < unit.end


def _repeats(passage: AnswerPassage, other: AnswerPassage) -> bool:
    if passage.source == other.source and passage.start < other.end and other.start < passage.end:
        return True
    first, second = set(extract_terms(passage.text)), set(extract_terms(other.text))
    different = first ^ second
    if passage.source == other.source and "; " in passage.text and any(term.isdecimal() for term in different):
        return False  # two rows of a table are alike but for their numbers
    if all(term.isdecimal() for term in different):
        return True  # "The default value is 20." and "The default value is 50.": of two settings, one was asked for
    return len(first & second) >= _DUPLICATE_OVERLAP * min(len(first), len(second))


class _Composer:
    """Extends units to passages."""

    def __init__(self, question: str, kinds: QuestionKind, units: Sequence[AnswerUnit], max_chars: int) -> None:
        self._max_chars = max_chars
        self._terms = frozenset(extract_terms(question))
        self._each = frozenset(term for match in _EACH.finditer(question) for term in extract_terms(match[1])[:1])
        """The first word of each "each X"."""
        self._kinds = kinds
        defined = asked_term(question) if QuestionKind.DEFINITION in kinds else ""
        self._defined = frozenset(extract_terms(defined)) if defined else frozenset()
        self._tables: dict[tuple[str, int], bool] = {}
        """Tables of which a row was taken: whether the question has its first cell, which no other row has."""
        self._held: dict[tuple[str, int], frozenset[str]] = {}
        """Their columns whose text in that row the question has."""
        self._by_group: dict[tuple[str, int], list[AnswerUnit]] = {}
        for unit in sorted(units, key=lambda unit: (unit.source, unit.start)):
            self._by_group.setdefault((unit.source, unit.group), []).append(unit)
        self._order = list(self._by_group)

    def is_beside(self, unit: AnswerUnit) -> bool:
        """Whether a unit is another row of a table of which the best one was taken.

        A list may want several, unless the question names the one that was taken.
        """
        named = self._tables.get((unit.source, unit.group)) if unit.cells else None
        if named is None or self._kinds & QuestionKind.COMPARISON:
            return False
        held = self._held.get((unit.source, unit.group), frozenset())
        differs = not held <= self._held_columns(unit)  # a row of Kiel where rows of Hamburg are asked for
        return named or differs or QuestionKind.LIST not in self._kinds

    def _held_columns(self, unit: AnswerUnit) -> frozenset[str]:
        """The columns of a row whose text the question has."""
        words = ((name, extract_terms(text)) for name, text in unit.cells)
        return frozenset(name for name, terms in words if terms and self._terms.issuperset(terms))

    def passage(self, unit: ScoredAnswerUnit, max_words: int, before: Sequence[AnswerPassage]) -> AnswerPassage:
        """The passage around a unit; what introduces its list stands once in the answer."""
        if unit.cells:
            name = extract_terms(unit.cells[0][1])
            table = unit.source, unit.group
            is_key = sum(row.cells[:1] == unit.cells[:1] for row in self._by_group[table]) == 1
            named = is_key and bool(name) and self._terms.issuperset(name)
            self._tables.setdefault(table, named)
            self._held.setdefault(table, self._held_columns(unit))
            rows = self._by_group[table]
            if not named and self._asks_each(rows):
                whole = replace(rows[0], end=rows[-1].end, kind=UnitKind.LIST, lead="", cells=())
                lines = [self._asked_cells(row).body for row in rows]
                return _to_passage(unit, [replace(whole, body="\n".join(lines))])
            return _to_passage(unit, [self._asked_cells(unit)])
        group = [other for other in self._by_group[unit.source, unit.group] if other.kind is not UnitKind.LIST]
        if unit.kind is UnitKind.ITEM:
            item = self._short_list(unit) or unit
            is_led = any(item.lead in passage.text for passage in before)
            return _to_passage(unit, [replace(item, lead="") if is_led else item])
        if unit.kind in (UnitKind.ROW, UnitKind.CODE, UnitKind.LIST):
            return _to_passage(unit, [unit])
        at = next(i for i, other in enumerate(group) if (other.start, other.end) == (unit.start, unit.end))
        chosen = self._sentences(group, at, max_words)
        steps = (
            self._steps(unit) if QuestionKind.HOW_TO in self._kinds and chosen[-1].kind is UnitKind.SENTENCE else None
        )
        return _to_passage(unit, sorted([*chosen, steps], key=lambda other: other.start) if steps else chosen)

    def _steps(self, unit: AnswerUnit) -> AnswerUnit | None:
        """The numbered list after a unit under the same heading, or before it under a heading that has the question."""
        at = self._order.index((unit.source, unit.group))
        beside = self._order[at + 1 : at + 2]
        if self._terms.issubset(extract_terms(unit.heading_context.rpartition(" > ")[2])):
            beside = [*beside, *reversed(self._order[max(0, at - 2) : at])]
        for other in (unit for key in beside for unit in self._by_group[key]):
            is_near = other.source == unit.source and other.heading_context == unit.heading_context
            is_numbered = other.kind is UnitKind.LIST and _NUMBERED.match(other.body) is not None
            if is_near and is_numbered and len(other.body.split()) <= MAX_LIST_WORDS:
                return other
        return None

    def _asks_each(self, rows: Sequence[AnswerUnit]) -> bool:
        """Whether every row of a table is asked for, by the name of its first column; a long table may be cut."""
        is_small = 1 < len(rows) <= MAX_LIST_ITEMS and rows[-1].end - rows[0].start <= REGION_CHARS
        name = frozenset(extract_terms(rows[0].cells[0][0])) if is_small and all(row.cells for row in rows) else ()
        return bool(name) and not self._each.isdisjoint(name)

    def _asked_cells(self, unit: AnswerUnit) -> AnswerUnit:
        """A row with its first cell and the cells whose name or text the question has; whole if it names no column.

        Of columns that share words of the question, as "currency name" and "currency code", those with the most of
        them, unless the question has their text. A cell with some words of the question is left out of a row that is
        too long: a summary has its name.
        """
        terms = self._terms
        named = [frozenset(terms.intersection(extract_terms(name))) for name, _ in unit.cells]
        texts = [frozenset(extract_terms(text)) for _, text in unit.cells]
        held = [not terms.isdisjoint(text) for text in texts]
        if not any(is_named and not is_held for is_named, is_held in zip(named[1:], held[1:], strict=True)):
            return unit
        open_names = [words for words, text in zip(named, texts, strict=True) if not terms.issuperset(text)]
        asked = [bool(words) and not any(words < others for others in open_names) for words in named]
        kept = [i for i in range(len(unit.cells)) if i == 0 or asked[i] or held[i]]
        row = _join_cells([unit.cells[i] for i in kept])
        if len(row) > self._max_chars:
            kept = [i for i in kept if i == 0 or asked[i] or (texts[i] and terms.issuperset(texts[i]))]
            row = _join_cells([unit.cells[i] for i in kept])
        return replace(unit, body=row)

    def _short_list(self, unit: AnswerUnit) -> AnswerUnit | None:
        """The list of an item, if it is short or was asked for, as the steps of a task are."""
        is_step = QuestionKind.HOW_TO in self._kinds and _NUMBERED.match(unit.body) is not None
        limit = MAX_LIST_WORDS if is_step or QuestionKind.LIST in self._kinds else _PASSAGE_WORDS
        for other in self._by_group[unit.source, unit.group]:
            if other.kind is UnitKind.LIST and len(other.body.split()) <= limit:
                return other
        return None

    def _sentences(self, group: list[AnswerUnit], at: int, max_words: int) -> list[AnswerUnit]:
        """A sentence with those that continue it, up to a list or code that it introduces."""
        low = high = at
        if self._begins_definition(group[0]) and sum(len(unit.text.split()) for unit in group[:at]) <= max_words:
            low = 0
        words = sum(len(unit.text.split()) for unit in group[low : high + 1])
        while high + 1 < len(group) and group[high + 1].kind is UnitKind.SENTENCE:
            words += len(group[high + 1].text.split())
            if words > max_words:
                break
            high += 1
        chosen = group[low : high + 1]
        if high == len(group) - 1 and chosen[-1].text.endswith(":"):
            chosen = [*chosen, *self._introduced(chosen[-1])]
        return chosen

    def _begins_definition(self, first: AnswerUnit) -> bool:
        """Whether a unit is the first one under the name of what is to be defined, or in the file with that name."""
        if not self._defined or not first.is_first or first.kind is not UnitKind.SENTENCE:
            return False
        heading = frozenset(extract_terms(first.heading_context.rpartition(" > ")[2]))
        is_opening = first.start < OPENING_CHARS and self._defined.issubset(extract_terms(file_words(first.source)))
        return is_opening or (bool(heading) and heading <= self._defined)

    def _introduced(self, lead: AnswerUnit) -> list[AnswerUnit]:
        """What a sentence introduces: a list, or else the beginning of the next paragraph or table."""
        i = self._order.index((lead.source, lead.group)) + 1
        if i == len(self._order) or self._order[i][0] != lead.source:
            return []
        units = self._by_group[self._order[i]]
        if units[0].cells and units[0].heading_context == lead.heading_context:
            return [_names_of_rows(units)]
        group = [unit for unit in units if unit.start - lead.end < _MAX_GAP_CHARS]
        lists = [unit for unit in group if unit.kind is UnitKind.LIST]
        return (lists or [unit for unit in group if len(unit.text.split()) <= _PASSAGE_WORDS])[:1]


def _names_of_rows(rows: Sequence[AnswerUnit]) -> AnswerUnit:
    """The rows of a table as a list: whole if they are short, else by their first cells."""
    lines = [row.body for row in rows]
    if sum(len(line.split()) for line in lines) > _PASSAGE_WORDS:
        lines = [row.cells[0][1] for row in rows if row.cells]
    return replace(rows[0], end=rows[-1].end, body="\n".join(lines), kind=UnitKind.LIST, lead="", cells=())


def _to_passage(unit: ScoredAnswerUnit, chosen: Sequence[AnswerUnit]) -> AnswerPassage:
    start = min(other.start for other in chosen)
    end = max(other.end for other in chosen)
    return AnswerPassage(unit.hit_index, unit.source, start, end, _format_units(chosen), unit.score)


def _format_units(chosen: Sequence[AnswerUnit]) -> str:
    """Sentences and `name: value` entries on one line; a list or code on lines of its own."""
    text, after = "", ""
    for unit in chosen:
        if unit.kind is UnitKind.LIST:
            lead = unit.lead if unit.lead and not text.endswith(unit.lead) else ""
            text = "\n".join([*filter(None, (f"{text} {lead}".strip(),)), *map(_format_item, unit.body.splitlines())])
        else:
            is_next = after == " " and text[-1:].isalnum() and KEY_VALUE_LINE.match(unit.body)
            text = f"{text}{'; ' if is_next else after}{_format_unit(unit)}".strip(" ")
        after = "\n" if unit.kind is UnitKind.LIST else " "
    return text


def _format_item(line: str) -> str:
    return line if _NUMBERED.match(line) else f"- {line}"


def _format_unit(unit: AnswerUnit) -> str:
    if unit.kind is not UnitKind.CODE:
        return unit.text
    lines = unit.body.splitlines()
    if len(lines) == 1:
        return f"{unit.lead} `{lines[0].strip()}`".strip() if "`" not in lines[0] else unit.text
    return "\n".join([*filter(None, (unit.lead,)), *(f"    {line}" for line in lines)])

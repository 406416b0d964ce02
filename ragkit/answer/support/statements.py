"""Splits the answer of a model into statements: sentences, list items, table rows and code, each with its citations.

A number after a full stop belongs to the sentence before it. A statement without a number takes, as a reader does, the
next number of its paragraph or list item, else the number of the line that introduces its list ("three modes [1]:"),
else a number that stands alone below the list. Whoever introduces a list takes the numbers of its items. Headings,
questions, greetings, pointers ("See [1]") and remarks on the search itself ("The documents do not say ...") claim
nothing about the documents: they are no statements.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from ragkit.answer.citations import CITATION_MARK, parse_citation_numbers
from ragkit.lexical.analyzer import extract_terms
from ragkit.lexical.stopwords import STOP_WORDS
from ragkit.split.sentence_segmentation import sentence_spans


@dataclass(frozen=True)
class ClaimedStatement:
    """A statement of an answer, before it is judged."""

    text: str
    """Without citation marks and Markdown; a table row with the names of its columns."""
    citations: tuple[int, ...]
    """Its citation numbers, in order; empty without any."""
    inherited: bool = False
    """The numbers stand elsewhere in its paragraph or list."""
    item_count: int = 0
    """Number of items of the list that it introduces."""
    is_code: bool = False


class _Kind(Enum):
    TEXT = "text"
    ITEM = "item"
    ROW = "row"
    CODE = "code"


@dataclass(frozen=True)
class _Block:
    kind: _Kind
    text: str
    """The raw lines; a row as `column: cell; column: cell`."""


_FENCE = re.compile(r"^\s*(?:`{3}|~{3})")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s|^\s*+\*\*[^*]{1,80}\*\*\s*+:?\s*+$|^\s*+(?:[-=]{3,}+|(?:\*\s*+){3,}+)\s*+$")
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_RULE_ROW = re.compile(r"^(?=[^-]*+-)[\s:|-]++$")
_MARKS = rf"(?:\s*+(?:(?:,|and|&)\s*+)?{CITATION_MARK.pattern})+"
_LEADING_MARKS = re.compile(rf"^{_MARKS}[\s.;,]*")
_MARKS_ONLY = re.compile(
    rf"^[\s(]*+(?:(?:sources?|citations?|references?|see(?: also)?)\b[\s:]*+)?{_MARKS}[\s).;,]*+$", re.I
)
_POINTER = re.compile(
    rf"\(?\b(?:according to|as (?:stated|described|shown|noted) in|see(?: also)?|cf\.?|per|from|in)"
    rf"(?: (?:passage|source|document)s?)?{_MARKS}\s*+\)?,?",
    re.IGNORECASE,
)
_EMPHASIS = re.compile(r"\*{1,3}(?=\S)|(?<=\S)\*{1,3}|(?<!\w)_{1,2}(?=\w)|(?<=\w)_{1,2}(?!\w)|~~")
_LINK = re.compile(r"!?\[([^\]]{1,300})\]\((?:[^()\s]|\([^()]*\)){1,2000}\)")
_TALK = re.compile(
    r"^(?:here(?:'s| is| are)\b.*:?$|hello\b|hi\b|thank|you'?re welcome|sure\b|certainly\b|of course\b|great question|"
    r"i hope|hope (?:this|that)|let me know|feel free|please (?:let|ask|note that i)|in summary:?$|to summari[sz]e:?$|"
    r"i (?:found|looked|searched|checked|will|can|could|cannot|can't|couldn't|did not|didn't|was unable|am unable)\b|"
    r"i'(?:ll|m|ve)\b|if you (?:need|want|would like|have)\b.*\b(?:let me|ask|i can)\b|would you like|"
    r"based on (?:the|these|your) \w+:?$|note:?$|sources?:|references?:)",
    re.IGNORECASE,
)
_SHOWN = r"(?:documents?|passages?|sources?|files?|texts?|excerpts?|extracts?|context|search results?|information)"
_ON_THE_SEARCH = re.compile(
    rf"\b{_SHOWN}\b[^.]{{0,60}}"
    r"\b(?:do(?:es)? not|don't|doesn't|did not|didn't|cannot|no|nothing|only|just)\b[^.]{0,30}"
    r"\b(?:say|state|mention|specif|contain|include|answer|provide|cover|discuss|address|give|describe|tell|indicate)\w*"
    rf"|\bnot (?:\w+ly )?(?:in|(?:mentioned|stated|specified|given|provided|included|found) in|covered by)"
    rf" (?:these|the|your)(?: \w+ed)? {_SHOWN}\b|\bno (?:information|mention|passage|document)\b",
    re.IGNORECASE,
)
_DECISION = re.compile(r"(?:(?:it|that|this) is )?(?:yes|no|true|false|correct|right|wrong)\b", re.IGNORECASE)
"""Answers a question without a word of its own."""
_ASSENT = re.compile(r"^yes\b[\s,.:;!-]*", re.IGNORECASE)
_MAX_BARE_CHARS = 200
"""Characters of an answer of one word, with what stands about it."""
_LEAD_IN = re.compile(r":\s*$")
MAX_JUDGED_CHARS = 100_000
"""Characters of an answer that are judged; an answer of 2,048 tokens has about 10,000."""


def split_statements(text: str) -> list[ClaimedStatement]:
    """The statements of an answer in Markdown, in order, without those that claim nothing.

    Of an answer of more than MAX_JUDGED_CHARS characters, those of the first ones.
    """
    text = text[:MAX_JUDGED_CHARS]
    groups: list[list[ClaimedStatement]] = []
    lead: list[ClaimedStatement] | None = None
    run: list[list[ClaimedStatement]] = []  # the items below a lead-in
    for block in _blocks(text):
        if _MARKS_ONLY.match(block.text):
            numbers = tuple(parse_citation_numbers(block.text))
            for group in run or groups[-1:]:
                group[:] = [s if s.citations else replace(s, citations=numbers, inherited=True) for s in group]
            continue
        group = list(_block_statements(block))
        if block.kind is _Kind.TEXT:
            _connect(lead, run)
            lead, run = (group, []) if group and _LEAD_IN.search(CITATION_MARK.sub("", block.text)) else (None, [])
        else:
            run.append(group)
        groups.append(group)
    _connect(lead, run)
    return [statement for group in groups for statement in group if _claims(statement)]


def find_bare_answer(text: str) -> ClaimedStatement | None:
    """An answer of one word that counts, without a number ("It is Paris."): a statement only with its question."""
    if len(text) > _MAX_BARE_CHARS:
        return None
    plain = _plain(text)
    terms = {*extract_terms(plain)} - STOP_WORDS
    is_bare = len(terms) == 1 and not CITATION_MARK.search(text)
    no_claim = _DECISION.match(plain) or _TALK.match(plain) or _ON_THE_SEARCH.search(plain)
    return ClaimedStatement(plain, ()) if is_bare and not no_claim else None


def find_assent(text: str, asked: Collection[str]) -> ClaimedStatement | None:
    """What an answer says yes to in words of the question ("Yes, it is on by default."); None for other answers.

    Args:
        text: the answer.
        asked: the terms of the question.
    """
    if len(text) > _MAX_BARE_CHARS or CITATION_MARK.search(text):
        return None
    plain = _plain(text)
    said = _ASSENT.sub("", plain)
    terms = {*extract_terms(said)} - STOP_WORDS
    return ClaimedStatement(said, ()) if said != plain and terms and terms <= {*asked} else None


def is_only_on_the_search(text: str) -> bool:
    """Whether an answer says only that what was shown does not hold it ("The text does not mention ...")."""
    return _ON_THE_SEARCH.search(text) is not None and not split_statements(text)


def _connect(lead: list[ClaimedStatement] | None, run: list[list[ClaimedStatement]]) -> None:
    """A lead-in and its list share their numbers, where one of them has none."""
    if not lead or not run:
        return
    above = lead[-1].citations
    below = tuple(dict.fromkeys(n for group in run for statement in group for n in statement.citations))
    for group in run:
        group[:] = [s if s.citations or not above else replace(s, citations=above, inherited=True) for s in group]
    inherited = lead[-1].inherited or not above
    lead[-1] = replace(lead[-1], item_count=len(run), citations=above or below, inherited=inherited)


def _blocks(text: str) -> Iterator[_Block]:
    """Paragraphs, list items, table rows and fenced code, in order; headings and rules are left out."""
    lines: list[str] = []
    kind, columns, in_code = _Kind.TEXT, [""], False
    source = text.split("\n")
    for i, line in enumerate(source):
        if _FENCE.match(line) or in_code:
            if _FENCE.match(line):
                yield from _flush(kind, lines)
                lines, in_code, kind = [], not in_code, _Kind.TEXT if in_code else _Kind.CODE
            else:
                lines.append(line)
            continue
        is_row = line.strip().startswith("|") and line.count("|") > 1
        if is_row or not line.strip() or _HEADING.match(line) or _ITEM.match(line):
            yield from _flush(kind, lines)
            lines, kind = [], _Kind.TEXT
        if is_row:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if i + 1 < len(source) and _RULE_ROW.match(source[i + 1]):
                columns = cells
            elif not _RULE_ROW.match(line):
                yield _Block(_Kind.ROW, _row_text(columns, cells))
        elif _ITEM.match(line):
            lines, kind = [_ITEM.sub("", line, count=1)], _Kind.ITEM
        elif line.strip() and not _HEADING.match(line):
            lines.append(line.strip().removeprefix("> "))
    yield from _flush(kind, lines)


def _flush(kind: _Kind, lines: list[str]) -> Iterator[_Block]:
    if any(line.strip() for line in lines):
        yield _Block(kind, "\n".join(lines))


def _row_text(columns: list[str], cells: list[str]) -> str:
    if len(columns) != len(cells):
        return "; ".join(cells)
    return "; ".join(f"{column}: {cell}" if column else cell for column, cell in zip(columns, cells, strict=True))


def _block_statements(block: _Block) -> Iterator[ClaimedStatement]:
    """The statements of a block, each with its own numbers or the next ones of the block."""
    if block.kind is _Kind.CODE:
        yield ClaimedStatement(block.text.strip(), (), is_code=True)
        return
    raw = _LINK.sub(r"\1", block.text)
    pieces = [raw] if block.kind is _Kind.ROW else _sentences(raw)
    numbers = [tuple(parse_citation_numbers(piece)) for piece in pieces]
    following: tuple[int, ...] = ()
    inherited: list[tuple[int, ...]] = []
    for own in reversed(numbers):
        inherited.append(following)
        following = own or following
    for piece, own, following in zip(pieces, numbers, reversed(inherited), strict=True):
        yield ClaimedStatement(_plain(piece), own or following, inherited=not own and bool(following))


def _sentences(text: str) -> list[str]:
    """The sentences of a paragraph; citation marks after a full stop are moved to the sentence before."""
    pieces: list[str] = []
    joined = " ".join(text.split())
    for start, end in sentence_spans(joined):
        piece = joined[start:end]
        marks = _LEADING_MARKS.match(piece)
        if marks and pieces:
            pieces[-1] += " " + marks[0].strip()
            piece = piece[marks.end() :]
        if piece.strip():
            pieces.append(piece)
    return pieces


def _plain(text: str) -> str:
    """A statement without citation marks and emphasis."""
    without = CITATION_MARK.sub("", _POINTER.sub(" ", text))
    return re.sub(r" ([.,;:!?])(?= |$)", r"\1", " ".join(_EMPHASIS.sub("", without).split())).strip(" ,;")


def _claims(statement: ClaimedStatement) -> bool:
    """Whether a statement claims something about the documents."""
    text = statement.text
    if statement.is_code:
        return bool(text)
    if not re.search(r"\w", text) or text.endswith("?") or _TALK.match(text) or _ON_THE_SEARCH.search(text):
        return False
    if re.fullmatch(r"(?:yes|no)\W*", text, re.IGNORECASE):
        return False
    terms = extract_terms(text)
    if _LEAD_IN.search(text) and not statement.citations and not statement.item_count:
        return False
    return (
        len(terms) >= 2 or any(char.isdigit() for char in text) or bool(statement.citations and not statement.inherited)
    )

"""Splits a text into blocks: paragraphs, list items, table rows, terms with their definitions, code, headings.

The structure is read from the lines alone (bullets, indentation, blank lines, prompts), so the text of every loader
has it: PDF, HTML, Markdown, man pages. Independent of the question and the index.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from ragkit.split.lines import TextLine, iter_lines


class BlockKind(Enum):
    """What a block is."""

    PARAGRAPH = "paragraph"
    ITEM = "item"
    """A list item, with its continuation lines."""
    ROW = "row"
    """A table row, or a record of `key: value` pairs."""
    CODE = "code"
    """Commands, program text or their output."""
    TERM = "term"
    """A term or an option whose definition is the next block."""
    HEADING = "heading"
    NOISE = "noise"
    """Page numbers, dot leaders of a table of contents, rules, navigation."""


@dataclass(frozen=True)
class Block:
    """A block of a text: `text[start:end]`, trimmed."""

    kind: BlockKind
    start: int
    end: int
    indent: int = 0
    """Characters before the first line."""
    after_blank: bool = True
    """A blank line precedes it, or it is the first block."""


LEAD_IN = re.compile(r"(?:\*\*|__)[^*_\n]{1,70}(?::(?:\*\*|__)|(?:\*\*|__):)$")
"""A line in bold that ends with a colon: it introduces what follows."""
IMAGE = re.compile(
    r"!\[[^\[\]]{0,300}\]\([^()\s]{1,1000}(?:[^\S\n]+[\"'][^\"'\n]{0,300}[\"'])?\)(?:\{[^{}\n]{0,200}\})?"
)
"""An image of Markdown, with its attributes."""
LINK = re.compile(
    r"\[([^\[\]]{1,300})\]\((?=[^()\s]{0,1000}[/#.])[^()\s]{1,1000}(?:[^\S\n]+[\"'][^\"'\n]{0,300}[\"'])?\)"
)
"""A link of Markdown; the group has its words."""
MAX_TERM_CHARS = 72
MAX_HEADING_CHARS = 90
_MIN_WRAPPED_CHARS = 40  # a shorter line was broken on purpose
_WORD = re.compile(r"[^\W_]")
_DOT_LEADER = re.compile(r"(?:\.\s?){5,}|(?:…\s?){2,}|(?:\. ){3,}")
_PAGE_NUMBER = re.compile(
    r"(?:page\s+|[-–]\s*)?(?:\d{1,4}|[ivxlc]{1,6})(?:\s*(?:/|of)\s*\d{1,4})?(?:\s*[-–])?$", re.IGNORECASE
)
_NAVIGATION = re.compile(
    r"[-*•]?\s*(?:prev(?:ious)?|next|up|home|contents|index|top)\b[^!?]{0,60}(?<![.:;])$", re.IGNORECASE
)
_ITEM = re.compile(r"(?:[-*+•▪◦‣–○●■□]|\(?\d{1,3}[.)]|\(?[A-Za-z][.)]|o(?=\s{2,}))\s+(?=\S)")
_MAN_PAGE_HEADER = re.compile(
    r"(\S{1,60}\(\d\w{0,3}\))\s{2,}+\S.*\S\s{2,}+\1$|\S.{0,60}\s{8,}\S.{0,60}\s{8,}\S{1,60}\(\d\w{0,3}\)$"
)
_FENCE = re.compile(r"(?:`{3,}|~{3,})")
_PROMPT = re.compile(
    r"(?:\$|%|>>>|C:\\[^>]{0,40}>|[\w.-]{1,30}@[\w.-]{1,30}[:~ ][^$#\n]{0,40}[$#]"
    r"|#(?= ?(?:sudo|apt|cd|ls|cp|mv|rm|mkdir|mount|systemctl|service)\b))\s*\S"
)
_MARKDOWN_HEADING = re.compile(r"#{1,6}\s+\S")
_DIRECTIVE = re.compile(r"\.\.\s+[\w:-]{1,40}::(?:\s+\S+)?$")
"""A line of reStructuredText that says how the lines below it are shown, or what stands in its place."""
_SECTION_NUMBER = re.compile(
    r"(?:chapter |section |appendix )?(?:\d{1,2}|[A-Z])(?:\.\d{1,3}){0,4}\.?\s+(?=[^\W\d_])", re.IGNORECASE
)
_RECORD_ROW = re.compile(r"[^:;\n]{1,60}: [^;\n]{0,400}; [^:;\n]{1,60}: ")
_FIELD = re.compile(r"[^:;\n]{1,60}: \S")
_RECORD_ENTRY = re.compile(r"(\S{0,400}\[\d{1,9}\])\.\S{1,400}: ")
_END_PUNCTUATION = frozenset(".!?…;,。！？")
_CODE_CHARS = re.compile(r"[{}()\[\]=;<>\\/$|&_*~^@#]|--")
_LEADING_WORD = re.compile(r"[^\W\d_]{2,40}(?=\s)")
_BRACES = re.compile(r"[{}()\[\]]")
_SENTENCE = re.compile(r"(?<!\w)[^\W\d_]\w*+[,']?(?: \S+){5,10}[.!?:]$")


def parse_blocks(
    text: str,
    headings: Collection[int] = (),
    *,
    is_code: bool = False,
    is_data: bool = False,
    fenced: bool = False,
    lines: Sequence[TextLine] | None = None,
) -> list[Block]:
    """The blocks of `text`, in order, without overlap; every character that is not white space is in exactly one.

    `headings` are the offsets of lines that are known to be headings. The text of a program (`is_code`) has only
    paragraphs. Of data (`is_data`), paragraphs of `key: value` lines that begin with one key are rows. `fenced`: the
    text begins inside a code fence. `lines` are those of the text, if they are known. Linear in the length of `text`.
    """
    lines = list(iter_lines(text)) if lines is None else lines
    if is_code:
        return [_block(BlockKind.PARAGRAPH, run) for run in _runs(lines)]
    blocks: list[Block] = []
    runs = list(_runs(lines))
    first_keys = Counter(_first_key(text, run) for run in runs) if is_data else Counter()
    for run in runs:
        start = 0
        if first_keys[_first_key(text, run) if is_data else ""] > 1:
            blocks.append(_block(BlockKind.ROW, run))
            continue
        for i, line in enumerate(run):
            if _FENCE.match(text, line.text_start, line.end):
                if start < i:
                    blocks += _close_run(text, run[start:i], headings, blocks, fenced)
                blocks.append(_block(BlockKind.NOISE, [line]))
                fenced, start = not fenced, i + 1
        if start < len(run):
            blocks += _close_run(text, run[start:], headings, blocks, fenced)
    return blocks


def _runs(lines: Sequence[TextLine]) -> Iterator[list[TextLine]]:
    """Lines without a blank line between them."""
    run: list[TextLine] = []
    for line in lines:
        if line.after_blank and run:
            yield run
            run = []
        run.append(line)
    if run:
        yield run


def _first_key(text: str, run: Sequence[TextLine]) -> str:
    """The key of the first line, if all lines are `key: value`; else the offset of the run, which no other one has."""
    lines = [text[line.text_start : line.end] for line in run]
    is_record = len(lines) > 1 and all(_FIELD.match(line) and not _RECORD_ENTRY.match(line) for line in lines)
    return lines[0].partition(":")[0] if is_record else str(run[0].start)


def _indent(line: TextLine) -> int:
    return line.text_start - line.start


def _block(kind: BlockKind, lines: Sequence[TextLine]) -> Block:
    return Block(kind, lines[0].text_start, lines[-1].end, _indent(lines[0]), lines[0].after_blank)


def _close_run(  # noqa: PLR0912 - one per kind of block
    text: str, run: Sequence[TextLine], headings: Collection[int], before: Sequence[Block], fenced: bool
) -> list[Block]:
    """The blocks of one run of lines."""
    if fenced:
        return [_block(BlockKind.CODE, run)]
    kinds: list[BlockKind] = []
    for i in range(len(run)):
        kinds.append(_line_kind(text, run, i, headings, kinds[-1] if kinds else BlockKind.HEADING))
    if all(kind is BlockKind.PARAGRAPH for kind in kinds) and _is_code(text, run, before):
        return [_block(BlockKind.CODE, run)]
    blocks: list[Block] = []
    i = 0
    while i < len(run):
        kind, j = kinds[i], i + 1
        if kind is BlockKind.ITEM:
            while j < len(run) and kinds[j] is BlockKind.PARAGRAPH and _continues_item(text, run, i, j):
                j += 1
        elif kind is BlockKind.TERM:
            while j < len(run) and kinds[j] is kind:
                j += 1
        elif kind is BlockKind.CODE:  # the output of a command follows it
            while j < len(run) and kinds[j] in (kind, BlockKind.PARAGRAPH, BlockKind.NOISE):
                j += 1
        elif kind is BlockKind.PARAGRAPH:
            while j < len(run) and kinds[j] is kind and not _begins_paragraph(text, run, j):
                j += 1
        elif kind is BlockKind.ROW and _RECORD_ENTRY.match(text, run[i].text_start, run[i].end):
            while j < len(run) and _same_record(text, run[i], run[j]):
                j += 1
        blocks.append(_block(kind, run[i:j]))
        i = j
    return blocks


def _line_kind(  # noqa: PLR0911 - one per kind of block
    text: str, run: Sequence[TextLine], i: int, headings: Collection[int], previous: BlockKind
) -> BlockKind:
    line = run[i]
    words = text[line.text_start : line.end]
    if line.text_start in headings or _MARKDOWN_HEADING.match(words):
        return BlockKind.HEADING
    if not _WORD.search(words) and "|" not in words:
        return BlockKind.PARAGRAPH if _BRACES.search(words) else BlockKind.NOISE
    if words.startswith("![") and IMAGE.fullmatch(words):
        return BlockKind.NOISE
    if (_DOT_LEADER.search(words) and len(words) < 250) or any(
        (_PAGE_NUMBER.match(words), _is_navigation(words), _MAN_PAGE_HEADER.match(words), _DIRECTIVE.match(words))
    ):
        return BlockKind.NOISE
    if _is_row(text, run, i):
        return BlockKind.ROW
    if _PROMPT.match(words):
        return BlockKind.CODE
    if _is_section_title(text, run, i):
        return BlockKind.HEADING
    if _ITEM.match(words):
        return BlockKind.ITEM
    return BlockKind.TERM if _is_term(text, run, i, previous) else BlockKind.PARAGRAPH


def _is_row(text: str, run: Sequence[TextLine], i: int) -> bool:
    """Whether a line is a table row or a record. One line with one bar may be a command with a pipe."""
    words = text[run[i].text_start : run[i].end]
    if words.startswith("|") or _RECORD_ROW.match(words) or _RECORD_ENTRY.match(words):
        return True
    bars = words.count(" | ")
    if bars == 0 or _PROMPT.match(words):
        return False
    neighbours = [text[run[j].text_start : run[j].end] for j in (i - 1, i + 1) if 0 <= j < len(run)]
    return (bars > 1 and "[" not in words) or any(other.count(" | ") == bars for other in neighbours)


def _is_navigation(words: str) -> bool:
    return len(words) < 70 and _NAVIGATION.match(words) is not None and words[:1] in "-*•"


def _is_section_title(text: str, run: Sequence[TextLine], i: int) -> bool:
    """A short line in capitals, or with a section number, that is no item of a list."""
    line = run[i]
    words = text[line.text_start : line.end]
    if len(words) > MAX_HEADING_CHARS or words[-1] in _END_PUNCTUATION:
        return False
    is_name = sum(c.isalpha() for c in words) > max(3, sum(c.isdigit() for c in words))  # "IBAN DE02 1203 0000" is none
    if words.isupper() and is_name and len(words.split()) <= 8 and _indent(line) < 4:
        return True
    number = _SECTION_NUMBER.match(words)
    if number is None or len(words.split()) > 12 or words[-1] == ":":
        return False
    before = run[i - 1] if i else line
    ended = i == 0 or text[before.end - 1] in ".!?:" or before.end - before.text_start < _MIN_WRAPPED_CHARS
    if "." in number[0].strip().rstrip("."):
        return ended or not words[number.end()].islower()  # "... with over / 8.4 billion devices" goes on
    if words[number.end()].islower() or len(words.split()) > 7 or not number[0].strip()[-1].isalnum():
        return False
    after = text[run[i + 1].text_start] if i + 1 < len(run) else "A"
    return ended and not after.islower() and number[0][0].isdigit()


def _is_term(text: str, run: Sequence[TextLine], i: int, previous: BlockKind) -> bool:
    """Whether a line is a term: short, without end punctuation, and its definition is the next line."""
    line = run[i]
    words = text[line.text_start : line.end]
    if i + 1 == len(run) or len(words) > MAX_TERM_CHARS or words[-1] in _END_PUNCTUATION or words[-1] == ":":
        return False
    following = run[i + 1]
    next_words = text[following.text_start : following.end]
    is_option = words[0] == "-" and len(words.split()) <= 4
    if is_option and next_words[0] == "-" and not _ITEM.match(next_words):
        return i + 2 < len(run)  # `-f` above `--force`: two names of one option
    if _ITEM.match(next_words) or len(next_words.split()) < 2:
        return False
    starts_here = previous in (BlockKind.HEADING, BlockKind.TERM) or text[run[i - 1].end - 1] in ".!?:"
    if _indent(following) >= _indent(line) + 3:
        return starts_here or _indent(run[i - 1]) > _indent(line)
    if not (is_option or starts_here) or _indent(following) < _indent(line):
        return False
    starts_sentence = next_words[0].isupper() or next_words[0].isdigit()
    is_longer = len(next_words) > len(words) + 8 or next_words[-1] in ".:"
    return starts_sentence and is_longer and (is_option or len(words.split()) <= 5)


def _continues_item(text: str, run: Sequence[TextLine], first: int, j: int) -> bool:
    """Whether line j belongs to the list item that begins at line `first`."""
    before, line = run[j - 1], run[j]
    if _indent(line) > _indent(run[first]):
        return True
    ended = text[before.end - 1] in ".!?:;"
    return not ended or text[line.text_start].islower()


def _begins_paragraph(text: str, run: Sequence[TextLine], j: int) -> bool:
    """Whether line j begins a paragraph without a blank line: its indent differs, or it is one of several entries."""
    before, line = run[j - 1], run[j]
    deeper = _indent(line) - _indent(before)
    if before.end - before.text_start < _MIN_WRAPPED_CHARS and _first_word(text, before) == _first_word(text, line):
        return True
    return (deeper >= 3 and text[run[j - 1].end - 1] in ".!?") or (deeper <= -3 and text[run[j - 1].end - 1] in ".!?")


def _first_word(text: str, line: TextLine) -> str:
    """The first word; the line itself where it does not begin with one, which no other line equals."""
    found = _LEADING_WORD.match(text, line.text_start, line.end)
    return found[0] if found else f"{line.start}"


def _same_record(text: str, first: TextLine, line: TextLine) -> bool:
    name = _RECORD_ENTRY.match(text, first.text_start, first.end)
    other = _RECORD_ENTRY.match(text, line.text_start, line.end)
    return name is not None and other is not None and name[1] == other[1]


def _is_code(text: str, run: Sequence[TextLine], before: Sequence[Block]) -> bool:  # noqa: PLR0911 - one per sign
    """Whether a run of plain lines is code: after a colon, indented or with many symbols, and no sentence."""
    words = text[run[0].text_start : run[-1].end]
    if _PROMPT.match(words):
        return True
    if LEAD_IN.match(words):
        return False
    if _SENTENCE.search(" ".join(words.split()[-12:])) and not _CODE_CHARS.match(words):
        return False
    symbols = sum(1 for _ in _CODE_CHARS.finditer(words)) / max(1, len(words.split()))
    previous = before[-1] if before else None
    after_colon = previous is not None and text[previous.end - 1] == ":" and words[-1] not in ".!?"
    cut = previous is not None and previous.kind is BlockKind.PARAGRAPH and text[previous.end - 1].isalnum()
    if cut and previous is not None and previous.end - previous.start > _MIN_WRAPPED_CHARS:
        return len(words.split()) <= 12 and not words[0].isupper() and words[-1] not in ".!?:"
    deeper = previous is not None and _indent(run[0]) >= previous.indent + 3 and run[0].after_blank
    if deeper and previous is not None and previous.kind is BlockKind.TERM:
        return False
    if deeper and (symbols >= 0.15 or after_colon):
        return True
    if after_colon and (symbols >= 0.3 or (len(words.split()) <= 12 and not words[0].isupper())):
        return True
    return symbols >= 0.9 and words[-1] not in ".!?"

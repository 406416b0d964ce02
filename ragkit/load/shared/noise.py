"""Characters that are no text: base64, minified scripts, the paths of drawings, lists of hashes, bare numbers.

Nobody reads them, no question asks for them, and their chunks would be the nearest ones to anything odd.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ragkit.records import Document

LEFT_OUT = "characters_left_out"
"""The metadata with the number of characters of a file that were left out because they are no text."""

MIN_CODED_CHARS = 56
"""A shorter run of letters and digits may be a name or an address."""
MIN_LONE_CODED_CHARS = 120
"""A run of letters and digits by itself; shorter ones are lines of a block."""
MIN_HASH_CHARS = 32
MIN_HASHES = 8
MIN_HASH_SHARE = 0.2
"""So many hashes that have this share of a text are a list of them; fewer may be asked for."""
MIN_DENSE_CHARS = 1000
MAX_DENSE_SPACES = 0.05
MIN_DENSE_MARKS = 0.06
"""A line of that length with fewer spaces and more marks of code is a minified script or style."""
MIN_NUMBER_LINES = 20
MIN_NUMBERS = 100
MIN_DIGIT_SHARE = 0.4
"""So many lines without a letter, or numbers in fewer lines, with this share of digits among their signs, are data
whose names are elsewhere."""

_CODED = re.compile(rf"[A-Za-z0-9+/=_-]{{{MIN_CODED_CHARS},}}")
_CODED_END = re.compile(r"[\s\"',]{1,40}([A-Za-z0-9+/_-]{8,75}={0,2})(?=[\s\"']|\Z)")
"""The last line of a block."""
_HASH = re.compile(rf"(?<![0-9A-Za-z])[0-9A-Fa-f]{{{MIN_HASH_CHARS},128}}(?![0-9A-Za-z])")
_DRAWING_START = re.compile(r"[\"'`][Mm][\s,\d.-]")
_DRAWING = re.compile(r"(?<=[\"'`])[Mm][\s,\d.-][MmLlHhVvCcSsQqTtAaZz\d.eE,\s+-]{40,}+(?=[\"'`])")
_BYTES = re.compile(r"(?:0x[0-9A-Fa-f]{1,8}[,\s]\s{0,20}+){24,}+")
_DENSE_LINE = re.compile(rf"^[^\n]{{{MIN_DENSE_CHARS},}}", re.MULTILINE)
_NUMBERS = re.compile(r"[\W\d_]{200,}+")
_SAMPLE_STEP = 25
_SAMPLED_NUMBERS = re.compile(r"[\W\d_]{8,}+")
"""What is left of `_NUMBERS` in every `_SAMPLE_STEP`th character of a text: looking there first takes a tenth of the
time."""
_FIGURE = re.compile(r"\d++(?:[.,:/-]\d++){0,20}+")
_DATE = re.compile(r"\d{4}-\d\d|\d\d:\d\d|\d{1,2}[./]\d{1,2}[./]\d\d")
_JSON = re.compile(r"""[\s>]{0,9}[\[{]\s{0,9}["{\[]""")
_WORD = re.compile(r"[A-Za-z]?[a-z]{4,}")
_WORDLESS = re.compile(r"[^\n\r]+")


def leave_out_noise(document: Document) -> Document:
    """The document without what is no text; `LEFT_OUT` in its metadata tells how much that was. Lines are kept."""
    text = document.text
    spans = list(_merge(sorted([*_noise_spans(text), *_number_spans(document)]), text))
    if not spans:
        return document
    starts = [start for start, _ in spans]
    removed = [0]
    parts: list[str] = []
    done = 0
    for start, end in spans:
        kept = _WORDLESS.sub("", text[start:end])
        parts += [text[done:start], kept]
        removed.append(removed[-1] + end - start - len(kept))
        done = end

    def moved(offset: int) -> int:
        number = bisect_right(starts, offset)
        if number and offset < spans[number - 1][1]:
            offset = spans[number - 1][0]
            number -= 1
        return offset - removed[number]

    headings = tuple(
        replace(item, start=moved(item.start), end=None if item.end is None else moved(item.end))
        for item in document.headings
    )
    return replace(
        document,
        text="".join([*parts, text[done:]]),
        metadata={**document.metadata, LEFT_OUT: removed[-1] + int(str(document.metadata.get(LEFT_OUT, 0)))},
        headings=headings,
        page_starts=tuple(map(moved, document.page_starts)),
        places=tuple(place.moved(moved(place.start)) for place in document.places),
        id="",
    )


def _merge(spans: Sequence[tuple[int, int]], text: str) -> Iterator[tuple[int, int]]:
    """The spans, ascending, as one where they meet or only marks and spaces stand between."""
    if not spans:
        return
    first, last = spans[0]
    for start, end in spans[1:]:
        if start <= last or (start - last <= 12 and not any(map(str.isalnum, text[last:start]))):
            last = max(last, end)
        else:
            yield first, last
            first, last = start, end
    yield first, last


def _noise_spans(text: str) -> Iterator[tuple[int, int]]:
    if _DRAWING_START.search(text):
        yield from (found.span() for found in _DRAWING.finditer(text))
    if "0x" in text:
        yield from (found.span() for found in _BYTES.finditer(text))
    if runs := list(find_long_runs(text)):
        yield from _coded_spans(text, runs)
    if max(map(len, text.split("\n"))) >= MIN_DENSE_CHARS:
        yield from (line.span() for line in _DENSE_LINE.finditer(text) if _is_dense(line[0]))


def find_long_runs(text: str) -> Iterator[tuple[int, int]]:
    """Runs without white space in which coded characters and hashes can stand."""
    end = 0
    for run in text.split():
        if len(run) >= MIN_HASH_CHARS:
            start = text.index(run, end)  # no shorter run holds it
            end = start + len(run)
            yield start, end


def _coded_spans(text: str, runs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Base64, and lists of hashes."""
    coded = [found.span() for run in runs for found in _CODED.finditer(text, *run) if _is_coded(found[0])]
    for number, (start, end) in enumerate(coded):
        near = [coded[other] for other in (number - 1, number + 1) if 0 <= other < len(coded)]
        is_block = any(min(abs(start - after), abs(before - end)) <= 40 for before, after in near)
        if end - start >= MIN_LONE_CODED_CHARS or is_block:
            last = _CODED_END.match(text, end)
            yield start, last.end() if last and _is_coded(last[1]) and not last[1].islower() else end
    hashes = [found.span() for run in runs for found in _HASH.finditer(text, *run)]
    if len(hashes) >= MIN_HASHES and sum(end - start for start, end in hashes) >= MIN_HASH_SHARE * len(text):
        yield from hashes


def _number_spans(document: Document) -> Iterator[tuple[int, int]]:
    """Lines without letters, or a long part of one, that neither names of columns nor dates tell what they are."""
    text = document.text
    tables = [(heading.start, heading.end) for heading in document.headings if heading.end is not None]
    for found in find_wordless_spans(text):
        start, end = found
        figures = list(_FIGURE.finditer(text, start, end))
        if len(figures) < MIN_NUMBER_LINES:
            continue
        line = text.rfind("\n", 0, figures[0].start()) + 1
        line = line if line >= start else text.find("\n", start, end) + 1  # not one that begins with words
        lines = text[line:end].strip().split("\n")
        if len(lines) >= MIN_NUMBER_LINES:
            start, end = line, end if end == len(text) else text.rindex("\n", line, end) + 1
            is_dated = 2 * sum(_DATE.search(row) is not None for row in lines) > len(lines)
            is_data = not is_dated and not _heads(text[max(0, start - MIN_DENSE_CHARS) : start], lines[-1])
        else:
            start, end = figures[0].start(), figures[-1].end()
            is_data = len(figures) >= MIN_NUMBERS
        signs = "".join(text[start:end].split())
        is_named = any(first < end and start < last for first, last in tables)
        if is_data and not is_named and sum(map(str.isdigit, signs)) >= MIN_DIGIT_SHARE * len(signs):
            yield start, end


def find_wordless_spans(text: str) -> Iterator[tuple[int, int]]:
    """The spans of `_NUMBERS`."""
    for near in _SAMPLED_NUMBERS.finditer(text[::_SAMPLE_STEP]):
        first, last = max(0, near.start() - 1), near.end()
        yield from (found.span() for found in _NUMBERS.finditer(text, first * _SAMPLE_STEP, last * _SAMPLE_STEP))


def _heads(above: str, row: str) -> bool:
    """Whether the line above a table of numbers names its columns; `row` is one of its lines."""
    columns, names = len(row.split()), above.rstrip("\n").rpartition("\n")[2].split()
    return not above.endswith("\n\n") and 1 < columns <= len(names) <= 2 * columns


def _is_coded(run: str) -> bool:
    """Whether a run is base64 or the like: letters in both cases and digits, or hexadecimal digits, and no words."""
    if (
        not any(map(str.isdigit, run))
        or not any(map(str.isalpha, run))
        or "--" in run.strip("-")
        or _HASH.fullmatch(run) is not None
    ):
        return False
    words = sum(len(word) for word in _WORD.findall(run))
    return words < 0.35 * len(run)


def _is_dense(line: str) -> bool:
    """Whether a long line is a minified script or style: hardly a space, many marks, in Latin letters."""
    if sum(map(line.count, " \t\u00a0\u3000|")) > MAX_DENSE_SPACES * len(line) or 500 * line.count("://") > len(line):
        return False
    if not line.isascii() and sum(map(str.isascii, line)) < 0.9 * len(line):
        return False
    return sum(map(line.count, "(){};=!&")) > MIN_DENSE_MARKS * len(line) and _JSON.match(line) is None

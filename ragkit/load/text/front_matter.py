"""Front matter of Markdown files: YAML between `---` lines, TOML between `+++` lines, or a JSON object.

Front matter that is invalid or exceeds the limits is ignored, but for `access`: see `find_access`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from ragkit.load.shared.access_field import FIELD, access_metadata, closed_metadata, is_access_field
from ragkit.load.shared.loader_utils import to_json
from ragkit.records import JSON, NO_METADATA, Metadata

MAX_FRONT_MATTER_CHARS = 65_536
"""Longer front matter is treated as text."""

MAX_VALUES = 2_000
"""Values in the front matter, after YAML aliases are expanded."""

MAX_DEPTH = 20
MAX_BRACKETS = 10 * MAX_DEPTH
"""Brackets of YAML that are open at once, some of which may stand in texts."""

_BRACKET = re.compile(r"[\[\]{}]")
_OPENING_FENCE = re.compile(r"(?:(?:[ \t]{0,9}(?:\r\n?|\n)){1,3}(?=\+))?(---|\+\+\+)[ \t]*(?:\r\n?|\n)")
_YAML_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_TOML_END = re.compile(r"^\+\+\+[ \t]*$", re.MULTILINE)
_ANY_OPENING_FENCE = re.compile(r"[\s\ufeff\u200b]*+(?:(-{3,})|\+{3,})[ \t]*+\n")
_ANY_YAML_END = re.compile(r"^[ \t]*+(?:-{3,}|\.{3})[ \t]*+$", re.MULTILINE)
_ANY_TOML_END = re.compile(r"^[ \t]*+\+{3,}[ \t]*+$", re.MULTILINE)
_JSON_HEAD = re.compile(r"\{\s{0,100}[\"}]")
_VISIBLE = re.compile(r"[^\r\n]")
_KEY = re.compile(r"""["']?[\w-]{1,60}(?:[ .][\w-]{1,60}){0,2}["']?[ \t]*(?::(?=\s|$)|=)""")
_OTHER_ENTRY = re.compile(r"-[ \t]|#|[\]})[{]")
_ACCESS_KEY = re.compile(r"""\baccess\b["']?[ \t]*[:=]""", re.IGNORECASE)
_MARKUP_FIELD = re.compile(r"^(?::access:|#\+access:)[ \t]*+(.*(?:\n[ \t]+\S.*)*)", re.IGNORECASE | re.MULTILINE)
_YAML_ERRORS = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError)
"""Errors of ruamel.yaml for invalid input, besides its YAMLError."""


class _Invalid(Exception):
    """A block that cannot be read; `line` from 0, in the block."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The values of the front matter, and its length in characters."""

    values: Mapping[str, JSON] = field(default_factory=dict)
    length: int = 0


@dataclass(frozen=True, slots=True)
class WrittenAccess:
    """What a text says about who may read it."""

    metadata: Metadata = field(default_factory=lambda: NO_METADATA)
    """The fields `access` and `access_problem`, if it says something."""
    spans: tuple[tuple[int, int], ...] = ()
    """The characters that say it."""
    length: int = 0
    """Of the front matter with `access`, readable or not; 0 without."""

    def hide(self, text: str) -> str:
        """The text with spaces in place of it, so that offsets and lines stay those of the file."""
        parts: list[str] = []
        done = 0
        for start, end in self.spans:
            parts += [text[done:start], blank_text(text[start:end])]
            done = end
        return "".join([*parts, text[done:]])


@dataclass(frozen=True, slots=True)
class _Block:
    """What stands between two fences, or below one that is not closed."""

    is_yaml: bool
    start: int
    end: int
    """Of what is in between."""
    length: int
    """Up to the end of the second fence; 0 without it."""


def blank_text(text: str) -> str:
    """Spaces of the same length, with the line breaks."""
    return _VISIBLE.sub(" ", text)


def front_matter_length(text: str, known: FrontMatter) -> int:
    """The length of the front matter, readable or not; 0 for a ruled off text that only parses as one."""
    if known.length and text[0] == "{":
        return known.length
    block = _find_fenced(_with_line_feeds(text[:MAX_FRONT_MATTER_CHARS]))
    return block.length if block is not None and _seems_front_matter(text[block.start : block.end]) else 0


def _find_fenced(window: str) -> _Block | None:
    """The front matter at the very beginning of a text whose lines end with LF."""
    opening = _OPENING_FENCE.match(window)
    if opening is None:
        return None
    is_yaml = opening[1] == "---"
    closing = (_YAML_END if is_yaml else _TOML_END).search(window, opening.end())
    return None if closing is None else _Block(is_yaml, opening.end(), closing.start(), closing.end())


def parse_front_matter(text: str, *, json_head: bool = False) -> FrontMatter:
    """The front matter of `text`; empty when it is missing or invalid.

    Args:
        text: the whole file.
        json_head: an object at the beginning is front matter, too.
    """
    if json_head and _JSON_HEAD.match(text):
        return _parse_json_head(text)
    window = _with_line_feeds(text[:MAX_FRONT_MATTER_CHARS])
    block = _find_fenced(window)
    if block is None:
        return FrontMatter()
    try:
        values = _read_block(window[block.start : block.end], is_yaml=block.is_yaml)
    except _Invalid:
        return FrontMatter()
    return FrontMatter(values, block.length) if values is not None else FrontMatter()


def _parse_json_head(text: str) -> FrontMatter:
    """An object with text below it."""
    try:
        values, length = _JSON_DECODER.raw_decode(text[:MAX_FRONT_MATTER_CHARS])
        rest = text[length:]
        if not rest.strip() or not re.match(r"[ \t]*[\r\n]", rest):
            return FrontMatter()
        return FrontMatter(_to_object(values), length)
    except (ValueError, RecursionError):
        return FrontMatter()


def _keep_doubled(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object; `access` given twice is not understood."""
    if sum(is_access_field(name) for name, _ in pairs) > 1:
        return {**dict(pairs), FIELD: [None]}
    return dict(pairs)


def find_access(text: str, front_matter: FrontMatter | None = None, *, closes: bool = False) -> WrittenAccess:
    """What a text says about who may read it: `access` in its front matter, or else `:access:` or `#+access:`.

    It is looked for where front matter cannot be read, too: behind blank lines, with fences of other lengths, below a
    fence that is not closed, beside an error of YAML. A value that is certain holds; otherwise only owners may read.

    Args:
        text: the whole file.
        front_matter: that of `parse_front_matter`, if it was read already.
        closes: the text is Markdown: front matter that cannot be read closes it even if it does not name `access`, and
            fields of other markup are text.
    """
    known = parse_front_matter(text) if front_matter is None else front_matter
    if known.length:
        return _find_in_values(text, known)
    head = _with_line_feeds(text[:MAX_FRONT_MATTER_CHARS])
    if closes and _JSON_HEAD.match(head) and _ACCESS_KEY.search(head.partition("\n\n")[0]):
        return WrittenAccess(closed_metadata("`access` cannot be read (invalid JSON)", "line 1"))
    if _ANY_OPENING_FENCE.match(head):
        return _find_in_block(_with_line_feeds(text), closes=closes)
    fields = [] if closes else list(_MARKUP_FIELD.finditer(head))
    if not fields:
        return WrittenAccess()
    metadata = access_metadata([" ".join(found[1].split()) for found in fields], _line(head, fields[0].start()))
    return WrittenAccess(metadata, tuple(found.span() for found in fields))


def _find_in_values(text: str, known: FrontMatter) -> WrittenAccess:
    """The field in front matter that was read."""
    values = [value for key, value in known.values.items() if is_access_field(key)]
    if not values:
        return WrittenAccess()
    window = _with_line_feeds(text[: known.length])
    is_json = text[0] == "{"  # its entries need not stand on lines of their own
    entries = [] if is_json else list(_access_entries(window, window.index("\n") + 1, known.length))
    top = [span for span in entries if not window[span[0]].isspace()]
    place = _line(window, (top or entries or [(0, 0)])[0][0])
    spans = top if len(top) == len(values) else [(0, known.length)]
    return WrittenAccess(access_metadata(values, place), _widen(window, spans, known.length), known.length)


def _find_in_block(window: str, *, closes: bool) -> WrittenAccess:
    """The field in front matter that is no valid one."""
    block = _find_block(window)
    body, first = window[block.start : block.end], _number(window, block.start)
    entries = list(_access_entries(window, block.start, block.end))
    line, reason = first - 1, "front matter begins in the first line of the file, and ends, with `---`"
    try:
        values = _read_block(body, is_yaml=block.is_yaml)
    except _Invalid as error:
        values, line, reason = None, first + error.line, str(error)
    named = values is None and (entries or (block.length and _ACCESS_KEY.search(body)))
    found = [value for key, value in (values or {}).items() if is_access_field(key)]
    place = _line(window, entries[0][0] if entries else block.start)
    if named:
        one = len(entries) == 1
        found = [_read_entry(window[slice(*entries[0])], is_yaml=block.is_yaml)] if one else [None] * len(entries)
    elif not found:
        is_closed = values is None and closes and block.length and _seems_front_matter(body)
        wrong = f"the front matter cannot be read ({reason})"
        return WrittenAccess(closed_metadata(wrong, f"line {line}") if is_closed else NO_METADATA)
    reason = f"line {line}: {reason}"
    if len(found) == 1 and found[0] is not None:
        metadata = access_metadata(found, place, f"the front matter is ignored, but for `access` ({reason})")
    elif len(found) > 1:
        metadata = access_metadata(found, place)
    else:
        metadata = closed_metadata(f"`access` cannot be read ({reason})", place)
    spans = entries if entries and len(entries) == len(found) else [(0, block.length or block.end)]
    return WrittenAccess(metadata, _widen(window, spans, block.length), block.length)


def _find_block(window: str) -> _Block:
    """What stands below the fence at the beginning of a text whose lines end with LF."""
    opening = _ANY_OPENING_FENCE.match(window)
    if opening is None:
        raise AssertionError("the text does not begin with a fence")
    is_yaml, start = opening[1] is not None, opening.end()
    closing = (_ANY_YAML_END if is_yaml else _ANY_TOML_END).search(window, start)
    if closing is not None:
        body = window[start : closing.start()]
        is_short = len(body) <= MAX_FRONT_MATTER_CHARS
        if _seems_front_matter(body) or (is_short and any(_access_entries(window, start, closing.start()))):
            return _Block(is_yaml, start, closing.start(), closing.end())
    end = start
    for first, last in _lines(window, start, closing.start() if closing is not None else len(window)):
        line = window[first:last]
        if line.strip() and not line[0].isspace() and not _is_entry(line):
            break
        end = last
    return _Block(is_yaml, start, end, 0)


def _seems_front_matter(body: str) -> bool:
    """Whether the first line is `name: value`, and at least every second line an entry: others are ruled off texts."""
    lines = [line for line in body.split("\n") if line.strip() and not line[0].isspace()]
    first = next((line for line in lines if not line.startswith("#")), "")
    has_key = _KEY.match(first) is not None or first.startswith(("{", '"', "'"))
    return has_key and 2 * sum(map(_is_entry, lines)) >= len(lines)


def _is_entry(line: str) -> bool:
    return _KEY.match(line) is not None or _OTHER_ENTRY.match(line) is not None


def _access_entries(window: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """(start, end) of each line `access: ...`, with the lines of its value below it."""
    lines = list(_lines(window, start, end))
    keys = [_is_access_line(window[first:last]) for first, last in lines]
    for number, (first, _) in enumerate(lines):
        if not keys[number]:
            continue
        last = number
        while last + 1 < len(lines) and not keys[last + 1] and _continues(window[slice(*lines[last + 1])]):
            last += 1
        yield first, lines[last][1]


def _is_access_line(line: str) -> bool:
    name = re.split("[:=]", line[:200], maxsplit=1)[0]
    return len(name) < min(len(line), 200) and is_access_field(name.strip("\"' \t"))


def _continues(line: str) -> bool:
    return line[:1] in (" ", "\t", "-", "]", "}", ")") and line.strip(" \t-") != ""


def _read_entry(entry: str, *, is_yaml: bool) -> JSON:
    """The value of one entry by itself; None if it cannot be read, or may belong to something else."""
    if entry[0].isspace():
        return None
    try:
        values = _read_block(entry, is_yaml=is_yaml)
    except _Invalid:
        return None
    return next(iter(values.values())) if values is not None and len(values) == 1 else None


def _widen(window: str, spans: Sequence[tuple[int, int]], length: int) -> tuple[tuple[int, int], ...]:
    """The spans, or the whole front matter if nothing else stands in it."""
    rest = WrittenAccess(spans=tuple(spans)).hide(window[:length])
    return ((0, length),) if length and not re.search(r"[^\s\ufeff\u200b.+-]", rest) else tuple(spans)


def _lines(window: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    starts = [start, *(found.end() for found in re.finditer("\n", window[start:end]))]
    offsets = [start, *(start + place for place in starts[1:])]
    for first, after in pairwise([*offsets, end + 1]):
        if first < end:
            yield first, min(after - 1, end)


def _number(window: str, offset: int) -> int:
    return window.count("\n", 0, offset) + 1


def _line(window: str, offset: int) -> str:
    return f"line {_number(window, offset)}"


def _with_line_feeds(text: str) -> str:
    return text.replace("\r\n", " \n").replace("\r", "\n")  # same length


def _read_block(block: str, *, is_yaml: bool) -> Mapping[str, JSON] | None:
    """The values of a block; None if it is something else than a mapping. Raises _Invalid."""
    if len(block) > MAX_FRONT_MATTER_CHARS:
        raise _Invalid(f"longer than {MAX_FRONT_MATTER_CHARS:,} characters")
    value = _parse_yaml(block) if is_yaml else _parse_toml(block)
    if not isinstance(value, Mapping):
        return None
    try:
        return _to_object(value)
    except (ValueError, RecursionError) as error:
        raise _Invalid(f"more than {MAX_VALUES:,} values, or nested too deeply") from error


def _to_object(value: Mapping[object, object]) -> Mapping[str, JSON]:
    budget = [MAX_VALUES]
    return {str(key): to_json(item, budget, 0, MAX_DEPTH) for key, item in value.items() if isinstance(key, str | int)}


def _parse_toml(block: str) -> object:
    try:
        return tomllib.loads(block)
    except (ValueError, RecursionError) as error:
        raise _Invalid(f"invalid TOML: {' '.join(str(error).split())[:100]}") from error


def _parse_yaml(block: str) -> object:
    brackets = accumulate(1 if bracket in "[{" else -1 for bracket in _BRACKET.findall(block))
    if max(brackets, default=0) > MAX_BRACKETS:  # the parser takes seconds for them
        raise _Invalid("invalid YAML: nested too deeply")
    from ruamel.yaml import YAML  # noqa: PLC0415 - slow to import, and few files need it
    from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415

    try:
        return YAML(typ="safe", pure=True).load(block)
    except MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark is not None else 0
        raise _Invalid(f"invalid YAML: {' '.join(str(error.problem).split())[:100]}", line) from error
    except (YAMLError, *_YAML_ERRORS) as error:
        raise _Invalid("invalid YAML") from error


_JSON_DECODER = json.JSONDecoder(object_pairs_hook=_keep_doubled)

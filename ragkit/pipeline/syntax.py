"""YAML 1.2 text -> a tree of values with their places, with every limit held while it is read.

No tags, no objects, no merge keys, one document. Works on parser events, so that a text that would
explode is refused when its limit is reached, not after.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StringMark, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)
from ruamel.yaml.reader import ReaderError

from ragkit.pipeline.nodes import Items, Key, Mark, Node, Plain, Problem, Scalar, Source, Table

MAX_CHARACTERS = 1_000_000
"""Longer texts are refused before they are parsed."""
MAX_DEPTH = 20
"""Mappings and lists inside one another."""
MAX_KEY = 100
"""Characters of a key."""
MAX_NODES = 10_000
"""Values of one file, those behind every alias counted each time."""

_LINE_END = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}|0o[0-7]{1,18}|0x[0-9a-fA-F]{1,15}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Plain] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), float("inf")),
    "-.inf": float("-inf"),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_PLAINER = (
    ("mapping values are not allowed", "a second ':' where one value is wanted: put the value in quotes"),
    ("found character '\\t'", "a tab where spaces are wanted: indent with spaces"),
    ("that cannot start any token", "a value that begins with a character of YAML's own: put the value in quotes"),
    ("found unexpected end of stream", "a quote that is never closed"),
    ("expected ',' or ']'", "a list in [ ] that is not closed or lacks a comma"),
    ("expected ',' or '}'", "a mapping in { } that is not closed or lacks a comma"),
    ("expected <block end>", "a line that is not indented like the lines it belongs to"),
    ("could not find expected ':'", "a key without ':'"),
    ("expected '<document start>'", "more text after the end of the mapping"),
)

_BEGUN_EARLIER = ("found unexpected end of stream", "expected ',' or", "could not find expected ':'")
"""Faults that the parser notices at their end: their beginning is the place to tell."""


class Unreadable(Exception):  # a signal inside this package, never seen by a caller
    """The text cannot be made a tree at all."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


def source_of(name: str, text: str, first: int = 1) -> Source:
    """A text with its lines, cut where YAML cuts them."""
    return Source(name, tuple(_LINE_END.split(text)), first)


def parse(text: str, source: Source, problems: list[Problem]) -> Node | None:
    """The tree of one YAML document, or None when it holds nothing but comments.

    Duplicate keys, tags and keys that are not text are added to `problems`; the tree is then what is left.

    Raises:
        Unreadable: it is not YAML, or it goes over a limit.
    """
    if len(text) > MAX_CHARACTERS:
        raise Unreadable(
            Problem(Mark(source, source.first, 1), f"the text is longer than {MAX_CHARACTERS:,} characters")
        )
    try:
        return _Builder(source, YAML(typ="safe", pure=True).parse(text), problems).document()
    except ReaderError as error:
        at = _place_of(text, source, error.position)
        raise Unreadable(Problem(at, f"the character U+{error.character:04X}, which YAML does not allow")) from error
    except MarkedYAMLError as error:
        raise Unreadable(_in_plain_words(error, source)) from error
    except (YAMLError, ValueError) as error:  # ValueError: an escape beyond the last character of Unicode
        raise Unreadable(Problem(Mark(source, source.first, 1), f"this is not YAML: {error}")) from error


def resolve(text: str) -> Plain:
    """The value of a plain scalar by the core schema of YAML 1.2: `yes` and `1_000` are text there."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text, 10 if text[1:2] not in ("o", "x") else 0)
    return float(text) if _FLOAT.fullmatch(text) else text


def _place_of(text: str, source: Source, offset: int) -> Mark:
    before = _LINE_END.split(text[:offset])
    return Mark(source, source.first + len(before) - 1, len(before[-1]) + 1)


def _in_plain_words(error: MarkedYAMLError, source: Source) -> Problem:
    said = str(error.problem or error.context or "this is not YAML")
    mark = error.problem_mark or error.context_mark
    if error.context_mark is not None and any(words in said for words in _BEGUN_EARLIER):
        mark = error.context_mark
    at = _mark(source, mark) if mark is not None else Mark(source, source.first, 1)
    index = at.line - source.first
    line = source.lines[index] if 0 <= index < len(source.lines) else ""
    message = next((plainer for words, plainer in _PLAINER if words in said), f"this is not YAML: {said}")
    if "{ }" in message and "${" in line:
        message = 'a variable that is not in quotes: inside { } and [ ] write "${NAME}"'
    if "second ':'" in message and ": " not in line[: at.column - 1]:
        message = "a line that is indented further than the line above it allows"
    return Problem(at, message)


def _mark(source: Source, mark: StringMark) -> Mark:
    return Mark(source, source.first + mark.line, mark.column + 1)


@dataclass
class _Builder:
    source: Source
    events: Iterator[Event]
    problems: list[Problem]
    anchors: dict[str, tuple[Node, int]] = field(default_factory=dict)
    count: int = 0

    def document(self) -> Node | None:
        node: Node | None = None
        documents = 0
        for event in self.events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self.refused(event, "a second document after '---': a pipeline file holds one")
            elif not isinstance(event, StreamStartEvent | DocumentEndEvent | StreamEndEvent):
                node = self.node(event, 1)
        nothing = isinstance(node, Scalar) and node.plain and not node.text
        return None if nothing else node

    def node(self, event: Event, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.refused(event, f"more than {MAX_DEPTH} mappings and lists inside one another")
        if isinstance(event, AliasEvent):
            return self.alias(event)
        before = self.count
        self.counted(event, 1)
        self.untagged(event)
        if isinstance(event, MappingStartEvent):
            node: Node = self.table(event, depth)
        elif isinstance(event, SequenceStartEvent):
            node = self.items(event, depth)
        else:
            node = self.scalar(event)
        anchor = getattr(event, "anchor", None)
        if anchor:
            self.anchors[anchor] = (node, self.count - before)
        return node

    def table(self, event: MappingStartEvent, depth: int) -> Table:
        table = Table((), self.mark(event))
        while not isinstance(start := next(self.events), MappingEndEvent):
            key_node = self.node(start, depth + 1)
            value = self.node(next(self.events), depth + 1)
            key = self.key(key_node, table)
            if key is not None:
                if isinstance(value, Scalar) and value.plain and not value.text:
                    value = replace(value, mark=key.mark)  # the parser takes the next line for its place
                table = table.with_pair(key, value)
        return table

    def key(self, node: Node, table: Table) -> Key | None:
        """The key that a node is, or None with a problem."""
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            message = "a key that is not text: keys are words"
        elif len(node.value) > MAX_KEY:
            message = f"a key of more than {MAX_KEY} characters: keys are words"
        elif node.value == "<<" and node.plain:
            message = "the merge key '<<', which YAML 1.2 does not have: write the options out, or use `extends`"
        elif (first := table.key(node.value)) is not None:
            message = f"{node.value!r} stands here a second time; the first is in line {first.mark.line}"
        else:
            return Key(node.value, node.mark)
        self.problems.append(Problem(node.mark, message, root=True))
        return None

    def items(self, event: SequenceStartEvent, depth: int) -> Items:
        entries: list[Node] = []
        while not isinstance(start := next(self.events), SequenceEndEvent):
            entries.append(self.node(start, depth + 1))
        return Items(tuple(entries), self.mark(event))

    def scalar(self, event: Event) -> Scalar:
        assert isinstance(event, ScalarEvent)  # noqa: S101 - the parser gives no other event here
        plain = event.style is None and event.tag is None
        text = event.value
        if _SURROGATE.search(text):
            try:
                text = text.encode("utf-16", "surrogatepass").decode("utf-16")  # pairs are written by JSON libraries
            except UnicodeDecodeError:
                self.problems.append(
                    Problem(self.mark(event), "half of a surrogate pair, which is no character", root=True)
                )
        return Scalar(resolve(text) if plain else text, text, plain, self.mark(event))

    def alias(self, event: AliasEvent) -> Node:
        if event.anchor not in self.anchors:
            raise self.refused(event, f"'*{event.anchor}' points to nothing: no '&{event.anchor}' is complete above it")
        node, size = self.anchors[event.anchor]
        self.counted(event, size)
        return node

    def counted(self, event: Event, size: int) -> None:
        self.count += size
        if self.count > MAX_NODES:
            raise self.refused(event, f"more than {MAX_NODES:,} values, aliases counted each time")

    def untagged(self, event: Event) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None:
            message = f"the tag {_short(str(tag))!r}: a pipeline file holds plain values, without tags"
            self.problems.append(Problem(self.mark(event), message, root=True))

    def mark(self, event: Event) -> Mark:
        return _mark(self.source, event.start_mark)

    def refused(self, event: Event, message: str) -> Unreadable:
        return Unreadable(Problem(self.mark(event), message))


def _short(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")[:60]

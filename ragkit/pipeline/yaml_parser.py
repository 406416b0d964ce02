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

from ragkit.pipeline.yaml_nodes import (
    ConfigProblem,
    KeyNode,
    MappingNode,
    Node,
    ScalarNode,
    ScalarValue,
    SequenceNode,
    SourceLocation,
    SourceText,
)

MAX_CHARACTERS = 1_000_000
"""Longer texts are refused before they are parsed."""
MAX_DEPTH = 20
"""Mappings and lists inside one another."""
MAX_KEY_LENGTH = 100
"""Characters of a key."""
MAX_NODES = 10_000
"""Values of one file, those behind every alias counted each time."""

_LINE_END = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}|0o[0-7]{1,18}|0x[0-9a-fA-F]{1,15}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_CORE_CONSTANTS: dict[str, ScalarValue] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), float("inf")),
    "-.inf": float("-inf"),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_PLAIN_MESSAGES = (
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

_REPORTED_AT_START = ("found unexpected end of stream", "expected ',' or", "could not find expected ':'")
"""Faults that the parser notices at their end: their beginning is the place to tell."""


class ConfigReadError(Exception):  # a signal inside this package, never seen by a caller
    """The text cannot be made a tree at all."""

    def __init__(self, problem: ConfigProblem) -> None:
        super().__init__(problem)
        self.problem = problem


def create_source(name: str, text: str, first: int = 1) -> SourceText:
    """A text with its lines, cut where YAML cuts them."""
    return SourceText(name, tuple(_LINE_END.split(text)), first)


def parse_yaml(text: str, source: SourceText, problems: list[ConfigProblem]) -> Node | None:
    """The tree of one YAML document, or None when it holds nothing but comments.

    Duplicate keys, tags and keys that are not text are added to `problems`; the tree is then what is left.

    Raises:
        ConfigReadError: it is not YAML, or it goes over a limit.
    """
    if len(text) > MAX_CHARACTERS:
        raise ConfigReadError(
            ConfigProblem(
                SourceLocation(source, source.first_line, 1), f"the text is longer than {MAX_CHARACTERS:,} characters"
            )
        )
    try:
        return _TreeBuilder(source, YAML(typ="safe", pure=True).parse(text), problems).build_document()
    except ReaderError as error:
        at = _location_at(text, source, error.position)
        raise ConfigReadError(
            ConfigProblem(at, f"the character U+{error.character:04X}, which YAML does not allow")
        ) from error
    except MarkedYAMLError as error:
        raise ConfigReadError(_translate_error(error, source)) from error
    except (YAMLError, ValueError) as error:  # ValueError: an escape beyond the last character of Unicode
        raise ConfigReadError(
            ConfigProblem(SourceLocation(source, source.first_line, 1), f"this is not YAML: {error}")
        ) from error


def resolve_scalar(text: str) -> ScalarValue:
    """The value of a plain scalar by the core schema of YAML 1.2: `yes` and `1_000` are text there."""
    if text in _CORE_CONSTANTS:
        return _CORE_CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text, 10 if text[1:2] not in ("o", "x") else 0)
    return float(text) if _FLOAT.fullmatch(text) else text


def _location_at(text: str, source: SourceText, offset: int) -> SourceLocation:
    before = _LINE_END.split(text[:offset])
    return SourceLocation(source, source.first_line + len(before) - 1, len(before[-1]) + 1)


def _translate_error(error: MarkedYAMLError, source: SourceText) -> ConfigProblem:
    said = str(error.problem or error.context or "this is not YAML")
    mark = error.problem_mark or error.context_mark
    if error.context_mark is not None and any(words in said for words in _REPORTED_AT_START):
        mark = error.context_mark
    at = _to_location(source, mark) if mark is not None else SourceLocation(source, source.first_line, 1)
    index = at.line - source.first_line
    line = source.lines[index] if 0 <= index < len(source.lines) else ""
    message = next((plainer for words, plainer in _PLAIN_MESSAGES if words in said), f"this is not YAML: {said}")
    if "{ }" in message and "${" in line:
        message = 'a variable that is not in quotes: inside { } and [ ] write "${NAME}"'
    if "second ':'" in message and ": " not in line[: at.column - 1]:
        message = "a line that is indented further than the line above it allows"
    return ConfigProblem(at, message)


def _to_location(source: SourceText, mark: StringMark) -> SourceLocation:
    return SourceLocation(source, source.first_line + mark.line, mark.column + 1)


@dataclass
class _TreeBuilder:
    source: SourceText
    events: Iterator[Event]
    problems: list[ConfigProblem]
    anchors: dict[str, tuple[Node, int]] = field(default_factory=dict)
    node_count: int = 0

    def build_document(self) -> Node | None:
        node: Node | None = None
        documents = 0
        for event in self.events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self.read_error(event, "a second document after '---': a pipeline file holds one")
            elif not isinstance(event, StreamStartEvent | DocumentEndEvent | StreamEndEvent):
                node = self.build_node(event, 1)
        nothing = isinstance(node, ScalarNode) and node.plain and not node.text
        return None if nothing else node

    def build_node(self, event: Event, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.read_error(event, f"more than {MAX_DEPTH} mappings and lists inside one another")
        if isinstance(event, AliasEvent):
            return self.resolve_alias(event)
        before = self.node_count
        self.count_nodes(event, 1)
        self.reject_tag(event)
        if isinstance(event, MappingStartEvent):
            node: Node = self.build_mapping(event, depth)
        elif isinstance(event, SequenceStartEvent):
            node = self.build_sequence(event, depth)
        else:
            node = self.build_scalar(event)
        anchor = getattr(event, "anchor", None)
        if anchor:
            self.anchors[anchor] = (node, self.node_count - before)
        return node

    def build_mapping(self, event: MappingStartEvent, depth: int) -> MappingNode:
        table = MappingNode((), self.location(event))
        while not isinstance(start := next(self.events), MappingEndEvent):
            key_node = self.build_node(start, depth + 1)
            value = self.build_node(next(self.events), depth + 1)
            key = self.build_key(key_node, table)
            if key is not None:
                if isinstance(value, ScalarNode) and value.plain and not value.text:
                    value = replace(value, location=key.location)  # the parser takes the next line for its place
                table = table.with_pair(key, value)
        return table

    def build_key(self, node: Node, table: MappingNode) -> KeyNode | None:
        """The key that a node is, or None with a problem."""
        if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
            message = "a key that is not text: keys are words"
        elif len(node.value) > MAX_KEY_LENGTH:
            message = f"a key of more than {MAX_KEY_LENGTH} characters: keys are words"
        elif node.value == "<<" and node.plain:
            message = "the merge key '<<', which YAML 1.2 does not have: write the options out, or use `extends`"
        elif (first := table.find_key(node.value)) is not None:
            message = f"{node.value!r} stands here a second time; the first is in line {first.location.line}"
        else:
            return KeyNode(node.value, node.location)
        self.problems.append(ConfigProblem(node.location, message, is_root_cause=True))
        return None

    def build_sequence(self, event: SequenceStartEvent, depth: int) -> SequenceNode:
        entries: list[Node] = []
        while not isinstance(start := next(self.events), SequenceEndEvent):
            entries.append(self.build_node(start, depth + 1))
        return SequenceNode(tuple(entries), self.location(event))

    def build_scalar(self, event: Event) -> ScalarNode:
        assert isinstance(event, ScalarEvent)  # noqa: S101 - the parser gives no other event here
        plain = event.style is None and event.tag is None
        text = event.value
        if _SURROGATE.search(text):
            try:
                text = text.encode("utf-16", "surrogatepass").decode("utf-16")  # pairs are written by JSON libraries
            except UnicodeDecodeError:
                self.problems.append(
                    ConfigProblem(
                        self.location(event), "half of a surrogate pair, which is no character", is_root_cause=True
                    )
                )
        return ScalarNode(resolve_scalar(text) if plain else text, text, plain, self.location(event))

    def resolve_alias(self, event: AliasEvent) -> Node:
        if event.anchor not in self.anchors:
            raise self.read_error(
                event, f"'*{event.anchor}' points to nothing: no '&{event.anchor}' is complete above it"
            )
        node, size = self.anchors[event.anchor]
        self.count_nodes(event, size)
        return node

    def count_nodes(self, event: Event, size: int) -> None:
        self.node_count += size
        if self.node_count > MAX_NODES:
            raise self.read_error(event, f"more than {MAX_NODES:,} values, aliases counted each time")

    def reject_tag(self, event: Event) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None:
            message = f"the tag {_shorten_tag(str(tag))!r}: a pipeline file holds plain values, without tags"
            self.problems.append(ConfigProblem(self.location(event), message, is_root_cause=True))

    def location(self, event: Event) -> SourceLocation:
        return _to_location(self.source, event.start_mark)

    def read_error(self, event: Event, message: str) -> ConfigReadError:
        return ConfigReadError(ConfigProblem(self.location(event), message))


def _shorten_tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")[:60]

"""Parse YAML 1.2 into a tree of nodes with their locations.

One document; no tags, objects or merge keys. Limits apply to parser events, so that aliases cannot exhaust memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ruamel.yaml import YAML
from ruamel.yaml import events as yaml_events
from ruamel.yaml.error import MarkedYAMLError, StringMark, YAMLError
from ruamel.yaml.reader import ReaderError

from ragkit.config.yaml_nodes import (
    ConfigProblem,
    KeyNode,
    MappingNode,
    Node,
    ScalarNode,
    ScalarValue,
    SequenceNode,
    SourceLocation,
    SourceText,
    must_be,
)

MAX_CHARACTERS = 1_000_000
"""Longer texts are rejected before they are parsed."""
MAX_DEPTH = 20
"""Nesting of mappings and lists."""
MAX_KEY_LENGTH = 100
"""Maximum characters of a key."""
MAX_NODES = 10_000
"""Values of one file; an alias counts as often as it is used."""

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
    ("mapping values are not allowed", "unexpected ':' in a value: quote the value"),
    ("found character '\\t'", "tab in the indentation: indent with spaces"),
    ("that cannot start any token", "the value starts with a reserved character of YAML: quote the value"),
    ("found unexpected end of stream", "unclosed quote"),
    ("expected ',' or ']'", "list in [ ] is not closed or lacks a comma"),
    ("expected ',' or '}'", "mapping in { } is not closed or lacks a comma"),
    ("expected <block end>", "the indentation does not match the lines above"),
    ("could not find expected ':'", "missing ':' after a key"),
    ("expected '<document start>'", "unexpected text after the end of the mapping"),
)

_REPORTED_AT_START = ("found unexpected end of stream", "expected ',' or", "could not find expected ':'")
"""Errors that the parser detects at the end of a construct; they are reported at its start."""


class ConfigReadError(Exception):  # internal to this package
    """The text cannot be parsed into a tree."""

    def __init__(self, location: SourceLocation, message: str) -> None:
        super().__init__(location, message)
        self.problem = ConfigProblem(location, message)


def create_source(name: str, text: str, first: int = 1) -> SourceText:
    """A source with its lines, split at the line breaks of YAML."""
    return SourceText(name, tuple(_LINE_END.split(text)), first)


def parse_yaml(text: str, source: SourceText, problems: list[ConfigProblem]) -> Node | None:
    """The tree of one YAML document, or None if it is empty.

    Duplicate keys, tags and keys that are not strings are added to `problems` and left out of the tree.

    Raises:
        ConfigReadError: invalid YAML, or a limit is exceeded.
    """
    start = SourceLocation(source, source.first_line, 1)
    if len(text) > MAX_CHARACTERS:
        message = f"the text must be at most {MAX_CHARACTERS:,} characters long (got {len(text):,})"
        raise ConfigReadError(start, message)
    try:
        return _TreeBuilder(source, YAML(typ="safe", pure=True).parse(text), problems).build_document()
    except ReaderError as error:
        at = _location_at(text, source, error.position)
        raise ConfigReadError(at, f"YAML does not allow the character U+{error.character:04X}") from error
    except MarkedYAMLError as error:
        raise _translate_error(error, source) from error
    except (YAMLError, ValueError) as error:  # ValueError: an escape sequence beyond U+10FFFF
        raise ConfigReadError(start, f"invalid YAML: {error}") from error


def resolve_scalar(text: str) -> ScalarValue:
    """The value of a plain scalar in the core schema of YAML 1.2, where `yes` and `1_000` are strings."""
    if text in _CORE_CONSTANTS:
        return _CORE_CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text, 10 if text[1:2] not in ("o", "x") else 0)
    return float(text) if _FLOAT.fullmatch(text) else text


def _location_at(text: str, source: SourceText, offset: int) -> SourceLocation:
    before = _LINE_END.split(text[:offset])
    return SourceLocation(source, source.first_line + len(before) - 1, len(before[-1]) + 1)


def _translate_error(error: MarkedYAMLError, source: SourceText) -> ConfigReadError:
    problem = str(error.problem or error.context or "syntax error")
    mark = error.problem_mark or error.context_mark
    if error.context_mark is not None and any(text in problem for text in _REPORTED_AT_START):
        mark = error.context_mark
    at = _to_location(source, mark) if mark is not None else SourceLocation(source, source.first_line, 1)
    index = at.line - source.first_line
    line = source.lines[index] if 0 <= index < len(source.lines) else ""
    message = next((plain for text, plain in _PLAIN_MESSAGES if text in problem), f"invalid YAML: {problem}")
    if "{ }" in message and "${" in line:
        message = 'unquoted variable: inside { } and [ ] write "${NAME}"'
    if "unexpected ':'" in message and ": " not in line[: at.column - 1]:
        message = "the line is indented too far"
    return ConfigReadError(at, message)


def _to_location(source: SourceText, mark: StringMark) -> SourceLocation:
    return SourceLocation(source, source.first_line + mark.line, mark.column + 1)


@dataclass
class _TreeBuilder:
    source: SourceText
    events: Iterator[yaml_events.Event]
    problems: list[ConfigProblem]
    anchors: dict[str, tuple[Node, int]] = field(default_factory=dict)
    node_count: int = 0

    def build_document(self) -> Node | None:
        node: Node | None = None
        documents = 0
        for event in self.events:
            if isinstance(event, yaml_events.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self.read_error(event, "second document after '---': only one is allowed")
            elif not isinstance(
                event, yaml_events.StreamStartEvent | yaml_events.DocumentEndEvent | yaml_events.StreamEndEvent
            ):
                node = self.build_node(event, 1)
        is_empty = isinstance(node, ScalarNode) and node.plain and not node.text
        return None if is_empty else node

    def build_node(self, event: yaml_events.Event, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.read_error(event, f"mappings and lists must be nested at most {MAX_DEPTH} levels deep")
        if isinstance(event, yaml_events.AliasEvent):
            return self.resolve_alias(event)
        before = self.node_count
        self.count_nodes(event, 1)
        self.reject_tag(event)
        if isinstance(event, yaml_events.MappingStartEvent):
            node: Node = self.build_mapping(event, depth)
        elif isinstance(event, yaml_events.SequenceStartEvent):
            node = self.build_sequence(event, depth)
        else:
            node = self.build_scalar(event)
        anchor = getattr(event, "anchor", None)
        if anchor:
            self.anchors[anchor] = (node, self.node_count - before)
        return node

    def build_mapping(self, event: yaml_events.MappingStartEvent, depth: int) -> MappingNode:
        table = MappingNode((), self.location(event))
        while not isinstance(start := next(self.events), yaml_events.MappingEndEvent):
            key_node = self.build_node(start, depth + 1)
            value = self.build_node(next(self.events), depth + 1)
            key = self.build_key(key_node, table)
            if key is not None:
                if isinstance(value, ScalarNode) and value.plain and not value.text:
                    value = replace(value, location=key.location)  # the parser reports the next line
                table = table.with_pair(key, value)
        return table

    def build_key(self, node: Node, table: MappingNode) -> KeyNode | None:
        """The node as a key, or None after adding to `problems`."""
        if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
            message = must_be("keys", "strings", node)
        elif len(node.value) > MAX_KEY_LENGTH:
            message = f"keys must be at most {MAX_KEY_LENGTH} characters long (got {len(node.value):,})"
        elif node.value == "<<" and node.plain:
            message = "the merge key '<<' is not supported in YAML 1.2: write the options out, or use `extends`"
        elif (first := table.find_key(node.value)) is not None:
            message = f"duplicate key {node.value!r} (first defined in line {first.location.line})"
        else:
            return KeyNode(node.value, node.location)
        self.problems.append(ConfigProblem(node.location, message, is_root_cause=True))
        return None

    def build_sequence(self, event: yaml_events.SequenceStartEvent, depth: int) -> SequenceNode:
        entries: list[Node] = []
        while not isinstance(start := next(self.events), yaml_events.SequenceEndEvent):
            entries.append(self.build_node(start, depth + 1))
        return SequenceNode(tuple(entries), self.location(event))

    def build_scalar(self, event: yaml_events.Event) -> ScalarNode:
        assert isinstance(event, yaml_events.ScalarEvent)  # noqa: S101 - the parser emits no other event here
        plain = event.style is None and event.tag is None
        text = event.value
        if _SURROGATE.search(text):
            try:
                text = text.encode("utf-16", "surrogatepass").decode("utf-16")  # JSON libraries write pairs
            except UnicodeDecodeError:
                message = "unpaired surrogate: write the character itself"
                self.problems.append(ConfigProblem(self.location(event), message, is_root_cause=True))
        return ScalarNode(resolve_scalar(text) if plain else text, text, plain, self.location(event))

    def resolve_alias(self, event: yaml_events.AliasEvent) -> Node:
        if event.anchor not in self.anchors:
            raise self.read_error(event, f"unknown alias '*{event.anchor}': no '&{event.anchor}' ends above it")
        node, size = self.anchors[event.anchor]
        self.count_nodes(event, size)
        return node

    def count_nodes(self, event: yaml_events.Event, size: int) -> None:
        self.node_count += size
        if self.node_count > MAX_NODES:
            raise self.read_error(event, f"a file must have at most {MAX_NODES:,} values, repeated aliases included")

    def reject_tag(self, event: yaml_events.Event) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None:
            message = f"tags are not allowed (got {_shorten_tag(str(tag))!r}): write a plain value"
            self.problems.append(ConfigProblem(self.location(event), message, is_root_cause=True))

    def location(self, event: yaml_events.Event) -> SourceLocation:
        return _to_location(self.source, event.start_mark)

    def read_error(self, event: yaml_events.Event, message: str) -> ConfigReadError:
        return ConfigReadError(self.location(event), message)


def _shorten_tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")[:60]

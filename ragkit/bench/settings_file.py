"""Reads the settings file of a benchmark, and reports every mistake in it with its place, `file:line:column`.

    data: {rows: 10000, dimension: 384}
    rounds: 3
    stores:
      - {name: sqlite}
      - {name: faiss, label: faiss hnsw, options: {method: hnsw}, sweep: {ef_search: [16, 64, 256]}}

An option may refer to an environment variable, `${PGVECTOR_DSN}`. If it is not set, the store is not measured, and its
row in the result has the reason.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from ragkit.bench.numpy_reference import REFERENCE_NAME
from ragkit.bench.settings import SERVER_ADDRESS_OPTIONS, BenchEntry, BenchSettings
from ragkit.config.convert import ConversionError, OptionsReader, convert_value, get_field_hints, unknown_option
from ragkit.config.variables import substitute_variables
from ragkit.config.yaml_nodes import (
    ConfigProblem,
    KeyNode,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    SourceLocation,
    format_problems,
    must_be,
)
from ragkit.config.yaml_parser import ConfigReadError, create_source, parse_yaml
from ragkit.errors import InvalidOption, MissingExtra, PipelineError, did_you_mean
from ragkit.records import JSON
from ragkit.store import STORES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_HERE = Path(__file__).resolve().parent
_ANY_PATH = "files"
"""Stands for the `path` that the run will set, while options are checked."""


def find_shipped_settings(name: str) -> Path | None:
    """The packaged settings file of this name (`quick`, `full`), or None."""
    packaged = _HERE / "settings_files"
    folder = packaged if packaged.is_dir() else _HERE.parent.parent / "configs"
    path = folder / f"bench-{name}.yaml"
    return path if path.is_file() else None


def read_settings(file: str | Path) -> BenchSettings:
    """Read a settings file, or a packaged one by name.

    Raises:
        InvalidOption: the file cannot be read.
        PipelineError: it has mistakes; each is listed as `file:line:column: message`.
    """
    path = find_shipped_settings(str(file)) or Path(file)
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError as error:
        raise InvalidOption("--settings", str(file), "`quick`, `full` or an existing file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOption("--settings", str(path), f"a readable file in UTF-8: {error}") from error
    return parse_settings(text, str(path))


def parse_settings(text: str, name: str = "settings") -> BenchSettings:
    """The settings of a YAML text that messages call `name`. Raises PipelineError with every mistake."""
    problems: list[ConfigProblem] = []
    source = create_source(name, text)
    try:
        tree = parse_yaml(text, source, problems)
    except ConfigReadError as error:
        raise PipelineError(format_problems([*problems, error.problem])) from error
    if not isinstance(tree, MappingNode):
        location = tree.location if tree is not None else SourceLocation(source, 1, 1)
        problems.append(ConfigProblem(location, "the settings must be a mapping with `stores`, a list of stores"))
        raise PipelineError(format_problems(problems))
    read = {"stores": tuple(_read_stores(tree, problems)), **_read_shares(tree, problems)}
    if problems:  # such as two equal labels, which the dataclass would report again, without their place
        read["stores"] = (BenchEntry(REFERENCE_NAME),)
    settings = OptionsReader(BenchSettings, "the settings", problems, preset=read).read(tree)
    if problems or not isinstance(settings, BenchSettings):
        raise PipelineError(format_problems(problems))
    return settings


def _read_stores(tree: MappingNode, problems: list[ConfigProblem]) -> list[BenchEntry]:
    """The valid stores. If there are none, one that is never used: the missing list is reported already."""
    node = tree.get("stores")
    if not isinstance(node, SequenceNode) or not node.entries:
        message = "the settings lack `stores`, a list of stores"
        if node is not None:
            message = must_be("stores", "a list of one or more stores, such as [{name: sqlite}]", node)
        problems.append(ConfigProblem((node or tree).location, message))
        return [BenchEntry(REFERENCE_NAME)]
    stores = [_EntryReader(entry, problems).read() for entry in node.entries]
    _check_labels(node, problems)
    return [store for store in stores if store is not None] or [BenchEntry(REFERENCE_NAME)]


def _check_labels(stores: SequenceNode, problems: list[ConfigProblem]) -> None:
    """Add the labels that an earlier entry has, also of entries with other mistakes."""
    first: dict[str, SourceLocation] = {}
    for entry in stores.entries:
        node = (entry.get("label") or entry.get("name")) if isinstance(entry, MappingNode) else None
        if isinstance(node, ScalarNode) and node.text:
            known = first.setdefault(node.text, node.location)
            if known is not node.location:
                message = f"label must be unique (got {node.text!r}, as in line {known.line})"
                problems.append(ConfigProblem(node.location, message))


def _read_shares(tree: MappingNode, problems: list[ConfigProblem]) -> dict[str, tuple[float, ...]]:
    """The valid shares, or nothing if they are not a list: each is reported at its own place."""
    node = tree.get("shares")
    if not isinstance(node, SequenceNode):
        return {}
    shares: list[float] = []
    for entry in node.entries:
        value = entry.value if isinstance(entry, ScalarNode) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1:
            shares.append(float(value))
        else:
            message = must_be("each entry of shares", "a number between 0 and 1 (exclusive)", entry)
            problems.append(ConfigProblem(entry.location, message))
    return {"shares": tuple(shares)}


@dataclass
class _EntryReader:
    """Reads one entry of `stores`."""

    node: Node
    problems: list[ConfigProblem]

    def read(self) -> BenchEntry | None:
        """The entry, or None after adding to `problems`."""
        if not isinstance(self.node, MappingNode):
            message = must_be("each entry of stores", "a mapping such as {name: sqlite}", self.node)
            self.problems.append(ConfigProblem(self.node.location, message))
            return None
        before = len(self.problems)
        options = self._mapping("options")
        sweep = self._mapping("sweep")
        values = {key.text: self._sweep_values(key, node) for key, node in sweep.pairs}
        preset = {"options": {key.text: _to_json(node) for key, node in options.pairs}, "sweep": values}
        entry = OptionsReader(BenchEntry, "the entry", self.problems, preset=preset).read(self.node)
        if isinstance(self.node.get("name"), ScalarNode):
            self._check_store(str(getattr(self.node.get("name"), "value", "")), options, sweep)
        return entry if isinstance(entry, BenchEntry) and len(self.problems) == before else None

    def _mapping(self, key: str) -> MappingNode:
        """The mapping below a key; an empty one if it is missing, null or invalid."""
        assert isinstance(self.node, MappingNode)  # noqa: S101 - checked by `read`
        node = self.node.get(key)
        if isinstance(node, MappingNode):
            return node
        if node is not None and not (isinstance(node, ScalarNode) and node.value is None):
            self.problems.append(ConfigProblem(node.location, must_be(key, "a mapping of options", node)))
        return MappingNode((), (node or self.node).location)

    def _sweep_values(self, key: KeyNode, node: Node) -> tuple[JSON, ...]:
        if isinstance(node, SequenceNode) and node.entries:
            return tuple(_to_json(entry) for entry in node.entries)
        self.problems.append(ConfigProblem(node.location, must_be(key.text, "a list of values", node)))
        return ()

    def _check_store(self, name: str, options: MappingNode, sweep: MappingNode) -> None:
        """Add the problems with the name and the options of the store."""
        assert isinstance(self.node, MappingNode)  # noqa: S101 - checked by `read`
        if name != REFERENCE_NAME and name not in STORES:
            known = [REFERENCE_NAME, *STORES.names()]
            message = f"unknown store {name!r}{did_you_mean(name, known)}; available: {', '.join(known)}"
            self.problems.append(ConfigProblem((self.node.get("name") or self.node).location, message))
            return
        owner = f"the store {name!r}"
        try:
            options_class = None if name == REFERENCE_NAME else STORES.options_class(name)
        except (MissingExtra, ImportError, AttributeError):
            return  # a plugin that cannot be imported: the run reports it
        if options_class is None:
            self.problems += [unknown_option(key, f" of {owner}", []) for key, _ in (*options.pairs, *sweep.pairs)]
            return
        self._check_options(options_class, owner, options)
        self._check_sweep(options_class, owner, sweep)

    def _check_options(self, options_class: type[DataclassInstance], owner: str, options: MappingNode) -> None:
        unset: list[ConfigProblem] = []
        expanded = substitute_variables(options, os.environ, unset)
        assert isinstance(expanded, MappingNode)  # noqa: S101 - the substitution keeps the kind of a node
        if unset:  # the store is not measured: its other options are checked for their names and kinds only
            known = expanded.without(*_keys_at(unset, options))
            OptionsReader(options_class, owner, self.problems).convert_values(known)
            return
        names = {field.name for field in fields(options_class)}
        has_address = any(expanded.get(option) is not None for option in SERVER_ADDRESS_OPTIONS)
        needs_path = "path" in names and expanded.get("path") is None and not has_address
        preset = {"path": _ANY_PATH} if needs_path else {}
        OptionsReader(options_class, owner, self.problems, preset=preset).read(
            expanded, KeyNode("", self.node.location)
        )

    def _check_sweep(self, options_class: type[DataclassInstance], owner: str, sweep: MappingNode) -> None:
        hints = get_field_hints(options_class)
        for key, node in sweep.pairs:
            if key.text not in hints:
                self.problems.append(unknown_option(key, f" of {owner}", list(hints)))
                continue
            for entry in node.entries if isinstance(node, SequenceNode) else ():
                try:
                    convert_value(entry, hints[key.text])
                except ConversionError as error:
                    self.problems += error.to_problems(key.text, entry)


def _keys_at(problems: Sequence[ConfigProblem], options: MappingNode) -> list[str]:
    """The keys whose values have problems."""
    places = {problem.location for problem in problems}
    return [key.text for key, node in options.pairs if node.location in places]


def _to_json(node: Node) -> JSON:
    if isinstance(node, SequenceNode):
        return [_to_json(entry) for entry in node.entries]
    if isinstance(node, MappingNode):
        return {key.text: _to_json(value) for key, value in node.pairs}
    return node.value

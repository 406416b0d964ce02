"""One tree out of many: a file over the file that it extends, and the chosen profile over both.

Of a section, options are laid over options as long as both name the same part (or the upper names none); a section
that names another part replaces the lower one whole. A list replaces a list.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, replace
from pathlib import Path

from ragkit.errors import did_you_mean
from ragkit.pipeline import discovery
from ragkit.pipeline.yaml_nodes import (
    ConfigProblem,
    MappingNode,
    Node,
    ScalarNode,
    SourceLocation,
    SourceText,
    assign_profile,
    describe_node,
)
from ragkit.pipeline.yaml_parser import MAX_CHARACTERS, ConfigReadError, create_source, parse_yaml

MAX_EXTENDS_DEPTH = 10
"""Files that extend one another."""
MAX_PATH_LENGTH = 1000
"""Characters of the path of a file that is extended."""

_EXTENDS_EXPECTED = "the name of a shipped pipeline, or a file below the folder of this one,"


@dataclass
class ExtendsResolver:
    """Reads a file and those that it extends, one over the other."""

    root_path: Path
    problems: list[ConfigProblem]
    allow_files: bool = True
    """May extend files; a text that is no file extends shipped pipelines only."""

    def resolve(self) -> MappingNode:
        """The merged tree of the whole chain."""
        return self.apply_extends(read_file(self.root_path, self.problems), self.root_path, ())

    def apply_extends(self, tree: MappingNode, path: Path, above: tuple[Path, ...]) -> MappingNode:
        """The tree of the file at `path`, laid over what it extends; `extends` stays in it when it leads nowhere."""
        extends = tree.get("extends")
        if extends is None:
            return tree
        own, above = tree.without("extends"), (*above, path.resolve())
        base = self._find_base(extends, path, above)
        return (
            tree if base is None else merge_trees(self.apply_extends(read_file(base, self.problems), base, above), own)
        )

    def _find_base(self, extends: Node, path: Path, above: tuple[Path, ...]) -> Path | None:
        """The file that `extends` names, or None with a problem."""
        if not isinstance(extends, ScalarNode) or not isinstance(extends.value, str) or not extends.value:
            self.problems.append(
                ConfigProblem(extends.location, f"extends is {describe_node(extends)}: {_EXTENDS_EXPECTED} is wanted")
            )
            return None
        if "\0" in extends.value or len(extends.value) > MAX_PATH_LENGTH:
            self.problems.append(
                ConfigProblem(
                    extends.location,
                    f"extends is {describe_node(extends)}, which can be no path: {_EXTENDS_EXPECTED} is wanted",
                )
            )
            return None
        known = discovery.pipeline_path(extends.value)
        base = known or path.parent / extends.value
        objection = self._extends_error(extends.value, base, above)
        if objection:
            self.problems.append(ConfigProblem(extends.location, objection))
        return None if objection else base

    def _extends_error(self, named: str, base: Path, above: tuple[Path, ...]) -> str:
        """Why a file cannot extend `base`, or ''."""
        is_shipped = discovery.pipeline_path(named) is not None
        message = ""
        if not is_shipped and (not self.allow_files or not ("/" in named or named.endswith((".yaml", ".yml")))):
            message = unknown_pipeline_message(named)
        elif base.resolve() in above:
            ring = [*(one.name for one in above[above.index(base.resolve()) :]), base.name]
            message = f"extends goes round in a ring: {' -> '.join(ring)}"
        elif len(above) >= MAX_EXTENDS_DEPTH:
            message = f"more than {MAX_EXTENDS_DEPTH} files that extend one another"
        elif not is_shipped and not self._is_allowed(base):
            message = f"extends leads out of {display_path(self.root_path.parent)}/: files below it can be extended"
        elif not base.is_file():
            message = f"extends names {named!r}, and there is no such file"
        return message

    def _is_allowed(self, base: Path) -> bool:
        homes = {self.root_path.resolve().parent, discovery.pipelines_folder().resolve()}
        return any(base.resolve().is_relative_to(home) for home in homes)


def read_file(path: Path, problems: list[ConfigProblem]) -> MappingNode:
    """The tree of one file. Raises ConfigReadError when it is too large, not UTF-8, not YAML or no mapping."""
    name = display_path(path)
    start = SourceLocation(SourceText(name, ()), 1, 1)
    try:
        text = _read_limited(path, start).decode("utf-8-sig")
    except OSError as error:
        raise ConfigReadError(ConfigProblem(start, f"the file cannot be read: {error.strerror or error}")) from error
    except UnicodeDecodeError as error:
        message = f"the byte 0x{error.object[error.start]:02x} is not UTF-8: a pipeline file is UTF-8 text"
        before = error.object[: error.start].decode("utf-8").split("\n")
        source = create_source(name, error.object.decode("utf-8", "replace"))
        raise ConfigReadError(
            ConfigProblem(SourceLocation(source, len(before), len(before[-1]) + 1), message)
        ) from error
    return parse_mapping(text, name, problems)


def parse_mapping(text: str, name: str, problems: list[ConfigProblem]) -> MappingNode:
    """The tree of a text; `name` stands for it in messages. Raises ConfigReadError when it is not YAML or no mapping."""
    source = create_source(name, text)
    tree = parse_yaml(text, source, problems)
    if tree is None:
        raise ConfigReadError(
            ConfigProblem(
                SourceLocation(source, 1, 1), "the file is empty: `extends: default` is the shortest pipeline"
            )
        )
    if not isinstance(tree, MappingNode):
        raise ConfigReadError(
            ConfigProblem(tree.location, "a mapping of sections is wanted: load, split, embed, store, retrieve, answer")
        )
    return tree


def display_path(path: Path) -> str:
    """A path as messages name it: relative to the working directory when it lies below."""
    absolute = Path.cwd() / path
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else str(absolute)


def unknown_pipeline_message(name: str) -> str:
    """The message about a name that is no shipped pipeline."""
    known = discovery.pipeline_names()
    return f"{name!r} is not the name of a shipped pipeline{did_you_mean(name, known)}; known: {', '.join(known)}"


def merge_trees(base: MappingNode, over: MappingNode) -> MappingNode:
    """Lay the sections and profiles of one file over those of the file that it extends."""
    for key, node in over.pairs:
        below = base.get(key.text)
        if isinstance(node, MappingNode) and isinstance(below, MappingNode):
            laid = _merge_profiles(below, node) if key.text == "profiles" else _merge_section(below, node)
            base = base.with_pair(key, laid)
        else:
            base = base.with_pair(key, node)
    return replace(base, location=over.location)


def apply_profile(
    tree: MappingNode, profile: str, asked: SourceLocation | None, problems: list[ConfigProblem]
) -> MappingNode:
    """The tree with one of its profiles laid over it. `asked` is where the profile was named, if not by an argument."""
    profiles = tree.get("profiles")
    chosen = profiles.get(profile) if isinstance(profiles, MappingNode) else None
    if isinstance(chosen, MappingNode):
        overlay = assign_profile(chosen, profile)
        assert isinstance(overlay, MappingNode)  # noqa: S101 - in_profile keeps the kind of its node
        return merge_trees(tree, overlay)
    known = profiles.key_names() if isinstance(profiles, MappingNode) else []
    listed = f"; known: {', '.join(known)}" if known else ": the file has none"
    if chosen is None:
        key = tree.find_key("profiles")
        mark = asked or (key.location if key else tree.location)
        problems.append(
            ConfigProblem(mark, f"{profile!r} is not the name of a profile{did_you_mean(profile, known)}{listed}")
        )
    return tree


def _read_limited(path: Path, start: SourceLocation) -> bytes:
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise ConfigReadError(ConfigProblem(start, f"this is {what}: the path of a pipeline file is wanted"))
    with path.open("rb") as file:
        data = file.read(MAX_CHARACTERS + 1)
    if len(data) > MAX_CHARACTERS:
        raise ConfigReadError(
            ConfigProblem(start, f"the file is larger than {MAX_CHARACTERS:,} bytes: that is no pipeline file")
        )
    return data


def _merge_section(below: MappingNode, over: MappingNode) -> MappingNode:
    named, was = over.get("name"), below.get("name")
    if named is not None and was is not None and scalar_text(named) != scalar_text(was):
        return over
    for key, node in over.pairs:
        below = below.with_pair(key, node)
    return replace(below, location=over.location)


def _merge_profiles(below: MappingNode, over: MappingNode) -> MappingNode:
    for key, node in over.pairs:
        was = below.get(key.text)
        laid = merge_trees(was, node) if isinstance(node, MappingNode) and isinstance(was, MappingNode) else node
        below = below.with_pair(key, laid)
    return replace(below, location=over.location)


def scalar_text(node: Node) -> str | None:
    """What a single value is written as; None for a list or a mapping."""
    return node.text if isinstance(node, ScalarNode) else None

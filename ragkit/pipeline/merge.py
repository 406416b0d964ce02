"""Merge a file with the files that it extends and with a profile.

Options of a section are merged if both name the same component, or the upper one names none; a section that names
another component replaces the lower one. Lists are replaced.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, replace
from pathlib import Path

from ragkit.config.yaml_nodes import (
    ConfigProblem,
    MappingNode,
    Node,
    ScalarNode,
    SourceLocation,
    SourceText,
    assign_profile,
    must_be,
)
from ragkit.config.yaml_parser import MAX_CHARACTERS, ConfigReadError, create_source, parse_yaml
from ragkit.errors import did_you_mean
from ragkit.pipeline import discovery

MAX_EXTENDS_DEPTH = 10
"""Maximum length of a chain of files that extend one another."""
MAX_PATH_LENGTH = 1000
"""Maximum characters of an extended path."""

_EXTENDS_EXPECTED = "the name of a shipped pipeline, or a file below the directory of this one"


@dataclass
class ExtendsResolver:
    """Reads a file and merges it with the files that it extends."""

    root_path: Path
    problems: list[ConfigProblem]
    allow_files: bool = True
    """Whether files can be extended, or shipped pipelines only."""

    def resolve(self) -> MappingNode:
        """The merged tree of the chain."""
        return self.apply_extends(read_file(self.root_path, self.problems), self.root_path, ())

    def apply_extends(self, tree: MappingNode, path: Path, above: tuple[Path, ...]) -> MappingNode:
        """The tree of the file at `path`, merged over the file that it extends. Keeps `extends` if that is invalid."""
        extends = tree.get("extends")
        if extends is None:
            return tree
        above = (*above, path.resolve())
        base = self._find_base(extends, path, above)
        if base is None:
            return tree
        return merge_trees(self.apply_extends(read_file(base, self.problems), base, above), tree.without("extends"))

    def _find_base(self, extends: Node, path: Path, above: tuple[Path, ...]) -> Path | None:
        """The file that `extends` names, or None after adding to `problems`."""
        if not isinstance(extends, ScalarNode) or not isinstance(extends.value, str) or not extends.value:
            message = must_be("extends", _EXTENDS_EXPECTED, extends)
        elif "\0" in extends.value or len(extends.value) > MAX_PATH_LENGTH:
            message = must_be("extends", "a valid path", extends)
        else:
            base = discovery.pipeline_path(extends.value) or path.parent / extends.value
            message = self._extends_error(extends.value, base, above)
            if not message:
                return base
        self.problems.append(ConfigProblem(extends.location, message))
        return None

    def _extends_error(self, named: str, base: Path, above: tuple[Path, ...]) -> str:
        """Why a file cannot extend `base`, or ''."""
        is_shipped = discovery.pipeline_path(named) is not None
        message = ""
        if not is_shipped and (not self.allow_files or not ("/" in named or named.endswith((".yaml", ".yml")))):
            message = unknown_pipeline_message(named)
        elif base.resolve() in above:
            cycle = [*(path.name for path in above[above.index(base.resolve()) :]), base.name]
            message = f"extends forms a cycle: {' -> '.join(cycle)}"
        elif len(above) >= MAX_EXTENDS_DEPTH:
            message = f"at most {MAX_EXTENDS_DEPTH} files can extend one another"
        elif not is_shipped and not self._is_allowed(base):
            folder = display_path(self.root_path.parent)
            message = f"extends must name a file below {folder}/, links resolved (got {named!r})"
        elif not base.is_file():
            message = f"extends names a file that does not exist: {named!r}"
        return message

    def _is_allowed(self, base: Path) -> bool:
        allowed = {self.root_path.resolve().parent, discovery.pipelines_folder().resolve()}
        return any(base.resolve().is_relative_to(directory) for directory in allowed)


def read_file(path: Path, problems: list[ConfigProblem]) -> MappingNode:
    """The tree of one file. Raises ConfigReadError if it is too large, not UTF-8, not YAML or not a mapping."""
    return parse_mapping(read_utf8(path), display_path(path), problems)


def read_utf8(path: Path) -> str:
    """The text of a configuration file. Raises ConfigReadError if it is unreadable, too large or not UTF-8."""
    name = display_path(path)
    start = SourceLocation(SourceText(name, ()), 1, 1)
    try:
        return _read_limited(path, start).decode("utf-8-sig")
    except OSError as error:
        raise ConfigReadError(start, f"cannot read the file: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        message = f"invalid UTF-8 (byte 0x{error.object[error.start]:02x}): save the file as UTF-8"
        before = error.object[: error.start].decode("utf-8").split("\n")
        source = create_source(name, error.object.decode("utf-8", "replace"))
        raise ConfigReadError(SourceLocation(source, len(before), len(before[-1]) + 1), message) from error


def parse_mapping(text: str, name: str, problems: list[ConfigProblem]) -> MappingNode:
    """The tree of a text that messages call `name`. Raises ConfigReadError if it is not YAML or not a mapping."""
    source = create_source(name, text)
    tree = parse_yaml(text, source, problems)
    if tree is None:
        message = "the file is empty: the shortest pipeline is `extends: default`"
        raise ConfigReadError(SourceLocation(source, 1, 1), message)
    if not isinstance(tree, MappingNode):
        message = "a pipeline file must be a mapping of sections: load, split, embed, store, retrieve, answer"
        raise ConfigReadError(tree.location, message)
    return tree


def display_path(path: Path) -> str:
    """A path as messages show it: relative to the working directory if it is below."""
    absolute = Path.cwd() / path
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else str(absolute)


def unknown_pipeline_message(name: str) -> str:
    """The message about a name that is not a shipped pipeline."""
    known = discovery.pipeline_names()
    return f"unknown pipeline {name!r}{did_you_mean(name, known)}; available: {', '.join(known)}"


def merge_trees(base: MappingNode, over: MappingNode) -> MappingNode:
    """Merge the sections and profiles of a file over those of the file that it extends."""
    for key, node in over.pairs:
        below = base.get(key.text)
        if isinstance(node, MappingNode) and isinstance(below, MappingNode):
            merged = _merge_profiles(below, node) if key.text == "profiles" else _merge_section(below, node)
            base = base.with_pair(key, merged)
        else:
            base = base.with_pair(key, node)
    return replace(base, location=over.location)


def apply_profile(
    tree: MappingNode, profile: str, requested_at: SourceLocation | None, problems: list[ConfigProblem]
) -> MappingNode:
    """The tree merged with one of its profiles. `requested_at` is where the profile is named, None for an argument."""
    profiles = tree.get("profiles")
    chosen = profiles.get(profile) if isinstance(profiles, MappingNode) else None
    if isinstance(chosen, MappingNode):
        overlay = assign_profile(chosen, profile)
        assert isinstance(overlay, MappingNode)  # noqa: S101 - assign_profile keeps the node type
        return merge_trees(tree, overlay)
    known = profiles.key_names() if isinstance(profiles, MappingNode) else []
    available = f"; available: {', '.join(known)}" if known else ": the file has no profiles"
    if chosen is None:
        key = tree.find_key("profiles")
        location = requested_at or (key or tree).location
        message = f"unknown profile {profile!r}{did_you_mean(profile, known)}{available}"
        problems.append(ConfigProblem(location, message))
    return tree


def _read_limited(path: Path, start: SourceLocation) -> bytes:
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
        raise ConfigReadError(start, f"{kind}: give the path of a pipeline file")
    with path.open("rb") as file:
        data = file.read(MAX_CHARACTERS + 1)
    if len(data) > MAX_CHARACTERS:
        raise ConfigReadError(start, f"the file must have at most {MAX_CHARACTERS:,} bytes")
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
        merged = merge_trees(was, node) if isinstance(node, MappingNode) and isinstance(was, MappingNode) else node
        below = below.with_pair(key, merged)
    return replace(below, location=over.location)


def scalar_text(node: Node) -> str | None:
    """The text of a scalar; None for a list or a mapping."""
    return node.text if isinstance(node, ScalarNode) else None

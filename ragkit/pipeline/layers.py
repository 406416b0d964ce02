"""One tree out of many: a file over the file that it extends, and the chosen profile over both.

Of a section, options are laid over options as long as both name the same part (or the upper names none); a section
that names another part replaces the lower one whole. A list replaces a list.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, replace
from pathlib import Path

from ragkit.errors import did_you_mean
from ragkit.pipeline import shipped
from ragkit.pipeline.nodes import Mark, Node, Problem, Scalar, Source, Table, in_profile, met
from ragkit.pipeline.syntax import MAX_CHARACTERS, Unreadable, parse, source_of

MAX_CHAIN = 10
"""Files that extend one another."""
MAX_PATH = 1000
"""Characters of the path of a file that is extended."""

_EXTENDS = "the name of a shipped pipeline, or a file below the folder of this one,"


@dataclass
class Chain:
    """Reads a file and those that it extends, one over the other."""

    top: Path
    problems: list[Problem]
    files: bool = True
    """May extend files; a text that is no file extends shipped pipelines only."""

    def read(self) -> Table:
        """The merged tree of the whole chain."""
        return self.over(read_file(self.top, self.problems), self.top, ())

    def over(self, tree: Table, path: Path, above: tuple[Path, ...]) -> Table:
        """The tree of the file at `path`, laid over what it extends; `extends` stays in it when it leads nowhere."""
        extends = tree.get("extends")
        if extends is None:
            return tree
        own, above = tree.without("extends"), (*above, path.resolve())
        base = self._base(extends, path, above)
        return tree if base is None else merge(self.over(read_file(base, self.problems), base, above), own)

    def _base(self, extends: Node, path: Path, above: tuple[Path, ...]) -> Path | None:
        """The file that `extends` names, or None with a problem."""
        if not isinstance(extends, Scalar) or not isinstance(extends.value, str) or not extends.value:
            self.problems.append(Problem(extends.mark, f"extends is {met(extends)}: {_EXTENDS} is wanted"))
            return None
        if "\0" in extends.value or len(extends.value) > MAX_PATH:
            self.problems.append(
                Problem(extends.mark, f"extends is {met(extends)}, which can be no path: {_EXTENDS} is wanted")
            )
            return None
        known = shipped.path_of(extends.value)
        base = known or path.parent / extends.value
        objection = self._objection(extends.value, base, above)
        if objection:
            self.problems.append(Problem(extends.mark, objection))
        return None if objection else base

    def _objection(self, named: str, base: Path, above: tuple[Path, ...]) -> str:
        """Why a file cannot extend `base`, or ''."""
        is_shipped = shipped.path_of(named) is not None
        message = ""
        if not is_shipped and (not self.files or not ("/" in named or named.endswith((".yaml", ".yml")))):
            message = unknown_pipeline(named)
        elif base.resolve() in above:
            ring = [*(one.name for one in above[above.index(base.resolve()) :]), base.name]
            message = f"extends goes round in a ring: {' -> '.join(ring)}"
        elif len(above) >= MAX_CHAIN:
            message = f"more than {MAX_CHAIN} files that extend one another"
        elif not is_shipped and not self._within(base):
            message = f"extends leads out of {display(self.top.parent)}/: files below it can be extended"
        elif not base.is_file():
            message = f"extends names {named!r}, and there is no such file"
        return message

    def _within(self, base: Path) -> bool:
        homes = {self.top.resolve().parent, shipped.folder().resolve()}
        return any(base.resolve().is_relative_to(home) for home in homes)


def read_file(path: Path, problems: list[Problem]) -> Table:
    """The tree of one file. Raises Unreadable when it is too large, not UTF-8, not YAML or no mapping."""
    name = display(path)
    start = Mark(Source(name, ()), 1, 1)
    try:
        text = _bytes_of(path, start).decode("utf-8-sig")
    except OSError as error:
        raise Unreadable(Problem(start, f"the file cannot be read: {error.strerror or error}")) from error
    except UnicodeDecodeError as error:
        message = f"the byte 0x{error.object[error.start]:02x} is not UTF-8: a pipeline file is UTF-8 text"
        before = error.object[: error.start].decode("utf-8").split("\n")
        source = source_of(name, error.object.decode("utf-8", "replace"))
        raise Unreadable(Problem(Mark(source, len(before), len(before[-1]) + 1), message)) from error
    return tree_of(text, name, problems)


def tree_of(text: str, name: str, problems: list[Problem]) -> Table:
    """The tree of a text; `name` stands for it in messages. Raises Unreadable when it is not YAML or no mapping."""
    source = source_of(name, text)
    tree = parse(text, source, problems)
    if tree is None:
        raise Unreadable(Problem(Mark(source, 1, 1), "the file is empty: `extends: default` is the shortest pipeline"))
    if not isinstance(tree, Table):
        raise Unreadable(
            Problem(tree.mark, "a mapping of sections is wanted: load, split, embed, store, retrieve, answer")
        )
    return tree


def display(path: Path) -> str:
    """A path as messages name it: relative to the working directory when it lies below."""
    absolute = Path.cwd() / path
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else str(absolute)


def unknown_pipeline(name: str) -> str:
    """The message about a name that is no shipped pipeline."""
    known = shipped.names()
    return f"{name!r} is not the name of a shipped pipeline{did_you_mean(name, known)}; known: {', '.join(known)}"


def merge(base: Table, over: Table) -> Table:
    """Lay the sections and profiles of one file over those of the file that it extends."""
    for key, node in over.pairs:
        below = base.get(key.text)
        if isinstance(node, Table) and isinstance(below, Table):
            laid = _merge_profiles(below, node) if key.text == "profiles" else _merge_section(below, node)
            base = base.with_pair(key, laid)
        else:
            base = base.with_pair(key, node)
    return replace(base, mark=over.mark)


def with_profile(tree: Table, profile: str, asked: Mark | None, problems: list[Problem]) -> Table:
    """The tree with one of its profiles laid over it. `asked` is where the profile was named, if not by an argument."""
    profiles = tree.get("profiles")
    chosen = profiles.get(profile) if isinstance(profiles, Table) else None
    if isinstance(chosen, Table):
        overlay = in_profile(chosen, profile)
        assert isinstance(overlay, Table)  # noqa: S101 - in_profile keeps the kind of its node
        return merge(tree, overlay)
    known = profiles.names() if isinstance(profiles, Table) else []
    listed = f"; known: {', '.join(known)}" if known else ": the file has none"
    if chosen is None:
        key = tree.key("profiles")
        mark = asked or (key.mark if key else tree.mark)
        problems.append(
            Problem(mark, f"{profile!r} is not the name of a profile{did_you_mean(profile, known)}{listed}")
        )
    return tree


def _bytes_of(path: Path, start: Mark) -> bytes:
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise Unreadable(Problem(start, f"this is {what}: the path of a pipeline file is wanted"))
    with path.open("rb") as file:
        data = file.read(MAX_CHARACTERS + 1)
    if len(data) > MAX_CHARACTERS:
        raise Unreadable(Problem(start, f"the file is larger than {MAX_CHARACTERS:,} bytes: that is no pipeline file"))
    return data


def _merge_section(below: Table, over: Table) -> Table:
    named, was = over.get("name"), below.get("name")
    if named is not None and was is not None and text_of(named) != text_of(was):
        return over
    for key, node in over.pairs:
        below = below.with_pair(key, node)
    return replace(below, mark=over.mark)


def _merge_profiles(below: Table, over: Table) -> Table:
    for key, node in over.pairs:
        was = below.get(key.text)
        laid = merge(was, node) if isinstance(node, Table) and isinstance(was, Table) else node
        below = below.with_pair(key, laid)
    return replace(below, mark=over.mark)


def text_of(node: Node) -> str | None:
    """What a single value is written as; None for a list or a mapping."""
    return node.text if isinstance(node, Scalar) else None

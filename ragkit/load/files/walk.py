"""List the files of a folder to load, and the skipped ones with the reason. Opens only ignore files."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragkit.errors import LoadError
from ragkit.load.files.file_io import MB, FileStat, describe_file_type, describe_os_error, read_bytes
from ragkit.load.files.ignore_rules import IgnoreRules
from ragkit.load.files.secret_files import is_secret_name, secret_reason
from ragkit.load.option_checks import require_patterns, require_positive

KB_MARKER_FILE = "ragkit-kb.json"
"""A folder with this file is a knowledge base, and is never indexed."""

IGNORE_FILES = (".gitignore", ".ragkitignore")
INCLUDE_ALL = ("**/*",)
MAX_IGNORE_FILE_BYTES = 1_000_000


@dataclass(frozen=True)
class FolderOptions:
    """Which files of a folder are loaded."""

    include: tuple[str, ...] = INCLUDE_ALL
    """Patterns of files to load, in `.gitignore` syntax: `*.md`, `docs/**`, `/notes/*.txt`."""
    exclude: tuple[str, ...] = ()
    """Patterns of files and folders to skip, in `.gitignore` syntax."""
    max_file_mb: float = 50
    """Larger files are skipped."""
    max_seconds: float = 60
    """Timeout for reading and parsing one file, in seconds; a file that exceeds it fails."""
    max_memory_mb: int = 2048
    """Address space of a parser process, in MB; a file that needs more fails."""
    max_text_mb: float = 64
    """Length of the text of one file, in million characters (2**20); a file with more fails."""
    hidden: bool = False
    """Include files and folders whose name starts with a dot."""
    follow_links: bool = False
    """Follow symbolic links that point outside the folder. Links inside the folder are never followed."""
    gitignore: bool = True
    """Skip what `.gitignore` files list, including those of parent folders in the same repository."""
    allow_private: bool = False
    """Allow URLs with loopback, private and link-local addresses."""

    def __post_init__(self) -> None:
        for name in ("max_file_mb", "max_seconds", "max_memory_mb", "max_text_mb"):
            require_positive(name, getattr(self, name))
        for name in ("include", "exclude"):
            require_patterns(name, getattr(self, name))

    @property
    def max_file_bytes(self) -> int:
        """`max_file_mb` in bytes."""
        return int(self.max_file_mb * MB)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to load."""

    path: Path
    stat: FileStat


@dataclass(frozen=True, slots=True)
class SkippedPath:
    """A file or folder that is skipped, with the reason to report."""

    path: Path
    reason: str
    unreadable: bool = False
    """An existing folder that cannot be listed: its files are unknown."""


@dataclass(frozen=True, slots=True)
class _IgnoreScope:
    """The rules of one folder, and the number of path components above it."""

    rules: IgnoreRules
    depth: int


@dataclass(frozen=True, slots=True)
class _PendingFolder:
    """A folder to scan."""

    path: str
    parts: tuple[str, ...]
    """Its path, relative to the root of the ignore rules."""
    scopes: tuple[_IgnoreScope, ...]


@dataclass
class _WalkState:
    """The settings of a walk, and the links that it followed."""

    root: str
    options: FolderOptions
    source_depth: int
    """Number of path components above the source."""
    ignore_names: tuple[str, ...]
    include: IgnoreRules | None
    exclude: IgnoreRules
    max_bytes: int
    visited_links: set[tuple[int, int]] = field(default_factory=set)
    """Folders reached by links, as (device, inode), so that none is scanned twice."""


def walk_files(source: Path, options: FolderOptions | None = None) -> Iterator[FoundFile | SkippedPath]:
    """The files of a folder to load, sorted by name, and the skipped ones with the reason.

    Files that patterns or ignore files exclude are not reported; hidden files and excluded folders are. If `source`
    is a file, patterns do not apply to it.

    Args:
        source: a folder or a file; a symbolic link is followed.
        options: which files to load.

    Yields:
        `FoundFile` and `SkippedPath` with paths below `source`. A folder or file that cannot be read is a
        `SkippedPath`, never an exception.
    """
    options = options or FolderOptions()
    try:
        stat_result = os.stat(source)  # noqa: PTH116 - the string form is used throughout
    except (OSError, ValueError) as error:
        yield SkippedPath(source, describe_os_error(error) if isinstance(error, OSError) else "invalid file name")
        return
    max_bytes = options.max_file_bytes
    if stat.S_ISDIR(stat_result.st_mode):
        yield from _walk_folder(source, options, max_bytes)
    else:
        path = Path(os.path.realpath(source)) if source.is_symlink() else source
        yield _classify_file(str(path), path.name, stat_result, max_bytes)


def _walk_folder(source: Path, options: FolderOptions, max_bytes: int) -> Iterator[FoundFile | SkippedPath]:
    above, scopes = _parent_scopes(source, options) if options.gitignore else ((), ())
    names = IGNORE_FILES if options.gitignore else IGNORE_FILES[1:]
    state = _WalkState(
        root=os.path.realpath(source),
        options=options,
        source_depth=len(above),
        ignore_names=names,
        include=None if tuple(options.include) == INCLUDE_ALL else IgnoreRules(options.include),
        exclude=IgnoreRules(options.exclude),
        max_bytes=max_bytes,
    )
    waiting: list[_PendingFolder | FoundFile | SkippedPath] = [_PendingFolder(str(source), above, scopes)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, _PendingFolder):
            waiting.extend(reversed(_scan_folder(item, state)))
        else:
            yield item


def _parent_scopes(source: Path, options: FolderOptions) -> tuple[tuple[str, ...], tuple[_IgnoreScope, ...]]:
    """The `.gitignore` rules of the parent folders in the same repository, unless they exclude `source` itself."""
    folder = Path(os.path.realpath(source))
    tops = [parent for parent in (folder, *folder.parents) if (parent / ".git").exists()]
    if not tops or tops[0] == folder:
        return (), ()
    parts = folder.relative_to(tops[0]).parts
    scopes: list[_IgnoreScope] = []
    for depth in range(len(parts)):
        rules = _read_ignore_rules(str(tops[0].joinpath(*parts[:depth])), IGNORE_FILES[:1])
        scopes += [_IgnoreScope(rules, depth)] if rules else []
        if _is_ignored(parts[: depth + 1], scopes, is_folder=True):
            return (), ()
    return parts, tuple(scopes)


def _read_ignore_rules(folder: str, names: Sequence[str]) -> IgnoreRules:
    lines: list[str] = []
    for name in names:
        try:
            data = read_bytes(Path(folder, name), None, MAX_IGNORE_FILE_BYTES)
        except LoadError:
            continue  # usually missing; a link or a huge file is ignored
        lines += data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").split("\n")
    return IgnoreRules(lines)


def _is_ignored(parts: Sequence[str], scopes: Sequence[_IgnoreScope], *, is_folder: bool) -> bool:
    """Whether a path is ignored; the deepest matching rules decide."""
    for scope in reversed(scopes):
        verdict = scope.rules.match(parts[scope.depth :], is_folder)
        if verdict is not None:
            return verdict
    return False


def _scan_folder(folder: _PendingFolder, state: _WalkState) -> list[_PendingFolder | FoundFile | SkippedPath]:
    """The entries of a folder, sorted by name."""
    try:
        with os.scandir(folder.path) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        gone = error.errno in (errno.ENOENT, errno.ENOTDIR)
        return [SkippedPath(Path(folder.path), f"folder: {describe_os_error(error)}", unreadable=not gone)]
    names = {entry.name for entry in entries if entry.name in (KB_MARKER_FILE, *state.ignore_names)}
    if KB_MARKER_FILE in names:
        return [SkippedPath(Path(folder.path), "knowledge base")]
    if names:
        rules = _read_ignore_rules(folder.path, [name for name in state.ignore_names if name in names])
        scopes = (*folder.scopes, _IgnoreScope(rules, len(folder.parts))) if rules else folder.scopes
        folder = _PendingFolder(folder.path, folder.parts, scopes)
    return [item for entry in entries if (item := _classify_entry(entry, folder, state)) is not None]


def _classify_entry(
    entry: os.DirEntry[str], folder: _PendingFolder, state: _WalkState
) -> _PendingFolder | FoundFile | SkippedPath | None:
    """The classification of an entry; None when it is excluded without a report."""
    try:
        if entry.is_symlink():
            return _classify_link(entry, folder, state)
        is_folder = entry.is_dir(follow_symlinks=False)
        reason = _exclusion_reason(entry.name, (*folder.parts, entry.name), is_folder, folder, state)
        if is_folder:
            if reason:
                return SkippedPath(Path(entry.path), f"{reason} folder")
            return _PendingFolder(entry.path, (*folder.parts, entry.name), folder.scopes)
        if reason:
            return _report_exclusion(entry, reason)
        return _classify_file(entry.path, entry.name, entry.stat(follow_symlinks=False), state.max_bytes)
    except OSError as error:
        return SkippedPath(Path(entry.path), describe_os_error(error))


def _report_exclusion(entry: os.DirEntry[str], reason: str) -> SkippedPath | None:
    """The report of an excluded file or link; None when the user's patterns exclude it."""
    if is_secret_name(entry.name):
        return SkippedPath(Path(entry.path), secret_reason(entry.name))
    hidden = reason == "hidden" and entry.name not in IGNORE_FILES
    return SkippedPath(Path(entry.path), "hidden file") if hidden else None


def _exclusion_reason(
    name: str, parts: tuple[str, ...], is_folder: bool, folder: _PendingFolder, state: _WalkState
) -> str:
    """Why a name is excluded, in one word; '' when it is included."""
    if name[0] == "." and not state.options.hidden:
        return "hidden"
    if folder.scopes and _is_ignored(parts, folder.scopes, is_folder=is_folder):
        return "ignored"
    relative_parts = parts[state.source_depth :]
    if state.exclude and state.exclude.match(relative_parts, is_folder):
        return "excluded"
    if is_folder or state.include is None or _is_included(relative_parts, state.include):
        return ""
    return "not included"


def _is_included(parts: tuple[str, ...], rules: IgnoreRules) -> bool:
    """Whether a pattern matches the file or one of its folders: `docs/` includes everything below docs."""
    verdict = rules.match(parts, False)
    depth = len(parts) - 1
    while verdict is None and depth > 0:
        verdict = rules.match(parts[:depth], True)
        depth -= 1
    return bool(verdict)


def _classify_file(path: str, name: str, stat_result: os.stat_result, max_bytes: int) -> FoundFile | SkippedPath:
    if not stat.S_ISREG(stat_result.st_mode):
        return SkippedPath(Path(path), f"{describe_file_type(stat_result.st_mode)}, not a regular file")
    if is_secret_name(name):
        return SkippedPath(Path(path), secret_reason(name))
    if stat_result.st_size > max_bytes:
        return SkippedPath(Path(path), f"larger than {max_bytes / MB:g} MB")
    return FoundFile(Path(path), FileStat.from_stat(stat_result))


def _classify_link(
    entry: os.DirEntry[str], folder: _PendingFolder, state: _WalkState
) -> _PendingFolder | FoundFile | SkippedPath | None:
    parts = (*folder.parts, entry.name)
    reason = _exclusion_reason(entry.name, parts, False, folder, state)
    if reason:
        return _report_exclusion(entry, reason)
    path = Path(entry.path)
    try:
        stat_result = entry.stat()
    except OSError:
        return SkippedPath(path, "broken link")
    target = os.path.realpath(entry.path)
    if _is_below(target, state.root):
        return SkippedPath(path, "link")
    if not state.options.follow_links:
        return SkippedPath(path, "link to a path outside the folder")
    if not stat.S_ISDIR(stat_result.st_mode):
        return _classify_file(target, target.rpartition("/")[2], stat_result, state.max_bytes)
    return _visit_linked_folder(_PendingFolder(entry.path, parts, folder.scopes), target, stat_result, state)


def _visit_linked_folder(
    folder: _PendingFolder, target: str, stat_result: os.stat_result, state: _WalkState
) -> _PendingFolder | SkippedPath:
    """The target folder of a link, unless it was scanned before."""
    key = (stat_result.st_dev, stat_result.st_ino)
    if key in state.visited_links or _is_below(state.root, target):
        return SkippedPath(Path(folder.path), "link to a folder that is already included")
    state.visited_links.add(key)
    return folder


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")

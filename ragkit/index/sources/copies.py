"""The copies of the documents of remote sources, inside a knowledge base.

As with web pages, a copy is a file like any other: its content tells whether it changed, citations are verified
against it, and no search needs a network. Each source has a folder with its copies and an SQLite file that maps keys
to fingerprints. A key that is no longer listed stays there until an index run has removed its document.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from ragkit.index.catalog.checksums import write_file_durably
from ragkit.index.sources.web_pages import WebPageCopies, copy_suffix
from ragkit.load.files.file_io import FileStat
from ragkit.load.files.walk import FoundFile
from ragkit.load.sources.base import SourceFile
from ragkit.store import sqlite_files

SOURCES_FOLDER = "sources"
"""Folder of the sources in a knowledge base."""
COPIES_FOLDER = "files"
STATE_FILE = "state.sqlite"
CACHE_FOLDER = "cache"
MAX_ROOT_CHARS = 200
_BUSY_TIMEOUT_S = 30.0


class SourceState:
    """The keys of one source with their fingerprints. Every change is on disk when the method returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._connection = sqlite_files.connect(path, "rwc", _BUSY_TIMEOUT_S)
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS documents (key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, path TEXT NOT NULL,"
            " listed INTEGER NOT NULL) STRICT, WITHOUT ROWID"
        )

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def get(self, key: str) -> tuple[str, str] | None:
        """(fingerprint, path of the copy below the copies) of a key."""
        row = self._connection.execute("SELECT fingerprint, path FROM documents WHERE key = ?", (key,)).fetchone()
        return None if row is None else (row[0], row[1])

    def keys(self, *, listed: bool | None = None) -> set[str]:
        """The keys; only the listed or the unlisted ones."""
        where = "" if listed is None else f" WHERE listed = {int(listed)}"
        return {key for (key,) in self._connection.execute(f"SELECT key FROM documents{where}")}  # noqa: S608 - constant

    def paths(self) -> list[str]:
        """The copies of the listed keys, in the order of the keys."""
        return [
            path for (path,) in self._connection.execute("SELECT path FROM documents WHERE listed = 1 ORDER BY key")
        ]

    def put(self, key: str, fingerprint: str, path: str) -> None:
        """Record a copy of a listed key."""
        self._connection.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, 1)", (key, fingerprint, path))

    def set_listed(self, listed: Collection[str]) -> None:
        """Mark these keys as listed, and all others as no longer listed."""
        changes = [(0, key) for key in self.keys(listed=True) - set(listed)]
        changes += [(1, key) for key in self.keys(listed=False) & set(listed)]
        with self._transaction():
            self._connection.executemany("UPDATE documents SET listed = ? WHERE key = ?", changes)

    def relist(self, keys: Iterable[str]) -> None:
        """Mark these keys as listed again."""
        with self._transaction():
            self._connection.executemany("UPDATE documents SET listed = 1 WHERE key = ?", [(key,) for key in keys])

    def delete(self, keys: Iterable[str]) -> None:
        """Forget keys."""
        with self._transaction():
            self._connection.executemany("DELETE FROM documents WHERE key = ?", [(key,) for key in keys])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._connection:  # around the start: Ctrl-C may raise as soon as it has begun
            self._connection.execute("BEGIN IMMEDIATE")
            yield


class SourceCopies:
    """The copies of all sources of one knowledge base. The root of a source is `kind:location`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def root_folder(self, root: str) -> Path:
        """The folder of a source, whether it exists or not."""
        written = quote(root, safe="")
        parts = [written[start : start + MAX_ROOT_CHARS] for start in range(0, len(written) or 1, MAX_ROOT_CHARS)]
        return self.folder.joinpath(*(f"{part}+" for part in parts[:-1]), f"{parts[-1]}=")

    def roots(self) -> list[str]:
        """The sources that have copies."""
        found, pending = list[str](), [self.folder]
        while pending:
            folder = pending.pop()
            for child in sorted(folder.iterdir()) if folder.is_dir() else ():
                root = self.root_of(child)
                pending += [child] if child.name.endswith("+") else []
                found += [root] if root is not None and (child / STATE_FILE).is_file() else []
        return found

    def root_of(self, path: Path) -> str | None:
        """The source whose folder this is; None for any other path."""
        if not path.name.endswith("=") or not path.is_relative_to(self.folder):
            return None
        parts = path.relative_to(self.folder).parts
        if not all(part.endswith("+") for part in parts[:-1]):
            return None
        return unquote("".join(part.removesuffix("+") for part in parts).removesuffix("="))

    def __contains__(self, root: object) -> bool:
        return isinstance(root, str) and (self.root_folder(root) / STATE_FILE).is_file()

    @contextmanager
    def open_state(self, root: str) -> Iterator[SourceState]:
        """The state of a source; created if missing."""
        with closing(SourceState(self.root_folder(root) / STATE_FILE)) as state:
            yield state

    def cache_folder(self, root: str) -> Path:
        """A folder for the source's own use."""
        folder = self.root_folder(root) / CACHE_FOLDER
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    def write(self, root: str, key: str, file: SourceFile) -> str:
        """Write a copy, if its content changed. Returns its path below the copies of the source."""
        folder = self.root_folder(root) / COPIES_FOLDER
        copies = WebPageCopies(folder)
        previous = copies.copy_path(key)
        path = copies.path_with_suffix(key, file.suffix or copy_suffix(key, file.media_type))
        if previous != path or not path.is_file() or path.read_bytes() != file.data:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_file_durably(path, file.data)
            path.chmod(0o600)
            if previous != path and previous.is_file():
                previous.unlink()
        return str(path.relative_to(folder))

    def copy_path(self, key: str) -> Path | None:
        """The copy of a key; None if no source has one."""
        for root in self.roots():
            path = WebPageCopies(self.root_folder(root) / COPIES_FOLDER).copy_path(key)
            if path.is_file():
                return path
        return None

    def copy_key(self, path: Path) -> str | None:
        """The key of a copy, or the root whose folder this is; None for any other path."""
        if not path.is_relative_to(self.folder):
            return None
        root = self.root_of(path)
        if root is not None:
            return root
        for folder in path.parents:
            if folder.name == COPIES_FOLDER and self.root_of(folder.parent) is not None:
                return WebPageCopies(folder).copy_url(path)
        return None

    def walk(self, root: str) -> Iterator[FoundFile]:
        """The copies of the listed documents of a source."""
        if root not in self:
            return
        folder = self.root_folder(root) / COPIES_FOLDER
        with self.open_state(root) as state:
            paths = state.paths()
        for name in paths:
            path = folder / name
            if path.is_file():
                yield FoundFile(path, FileStat.from_stat(path.stat()))

    def members(self, root: str) -> set[str]:
        """The keys of a source, those that are no longer listed included."""
        if root not in self:
            return set()
        with self.open_state(root) as state:
            return state.keys()

    def unlisted(self, root: str) -> set[str]:
        """The keys that a source no longer lists, and no other source lists."""
        if root not in self:
            return set()
        with self.open_state(root) as state:
            gone = state.keys(listed=False)
        for other in self.roots() if gone else ():
            with self.open_state(other) as state:
                gone -= state.keys(listed=True)
        return gone

    def relist(self, root: str, keys: Collection[str]) -> None:
        """Count keys as listed although they are not: their documents stay."""
        if root in self:
            with self.open_state(root) as state:
                state.relist(keys)

    def forget(self, root: str, keys: Collection[str]) -> None:
        """Delete copies with their fingerprints."""
        copies = WebPageCopies(self.root_folder(root) / COPIES_FOLDER)
        with self.open_state(root) as state:
            state.delete(keys)
        for key in keys:
            copies.delete(key)

    def delete_root(self, root: str) -> None:
        """Delete everything of a source."""
        if root in self:
            shutil.rmtree(self.root_folder(root), ignore_errors=True)


def root_name(kind: str, location: str) -> str:
    """The source id of a whole source: `s3:bucket/docs`."""
    return f"{kind}:{location}"

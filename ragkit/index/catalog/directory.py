"""Create, open and check the directory of a knowledge base."""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from ragkit.distribution import DISTRIBUTION
from ragkit.errors import KnowledgeBaseDamaged, NotAKnowledgeBase
from ragkit.index.catalog.checksums import find_changed_files, fsync_directory, read_checksums, write_file_durably
from ragkit.index.catalog.lock import is_locked
from ragkit.index.catalog.schema import CATALOG_FORMAT, create_catalog_tables, open_connection
from ragkit.index.catalog.sqlite import SETTINGS_CHECKSUM_KEY, Catalog, EmbedderRow, settings_checksum
from ragkit.sqlite_errors import DATABASE_ERRORS
from ragkit.store.native.vector_file import VectorFile

MARKER_FILE = "ragkit-kb.json"
"""Marks a directory as a knowledge base; indexing a parent folder skips such directories."""
CATALOG_FILE = "index.sqlite"


PLACE_FILE = "database"
"""In the copy of a knowledge base in a database: its address, as messages show it."""


def place_name(directory: Path) -> str:
    """What messages call a knowledge base: its directory, or the address of the database that this is a copy of."""
    try:
        return (directory / PLACE_FILE).read_text("utf-8") or str(directory)
    except OSError:
        return str(directory)


def write_place(directory: Path, place: str) -> None:
    """Record the address of the database that a directory is a copy of; '' for a directory of its own."""
    if place == "":
        (directory / PLACE_FILE).unlink(missing_ok=True)
    elif not directory.exists() or place_name(directory) != place:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_file_durably(directory / PLACE_FILE, place.encode())


def repair_command(directory: Path) -> str:
    """The command that repairs a damaged knowledge base."""
    return f"`ragkit verify --repair --kb {place_name(directory)}`"


def knowledge_base_exists(directory: Path) -> bool:
    """Whether the directory holds a knowledge base, damaged or not."""
    return (directory / MARKER_FILE).exists() or (directory / CATALOG_FILE).exists()


@dataclass(frozen=True)
class NewKnowledgeBase:
    """Initial content of a new knowledge base."""

    fingerprint_json: str
    """`BuildFingerprint.to_json()`."""
    create_lexical_tables: Callable[[sqlite3.Connection], None]
    """Creates the tables of the lexical index. Called inside the transaction."""


def create_knowledge_base(directory: Path, new_base: NewKnowledgeBase) -> None:
    """Create an empty knowledge base, atomically: after a crash there is none, or a complete one."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = directory / f"{CATALOG_FILE}.new"
    for leftover in directory.glob(f"{CATALOG_FILE}*"):
        leftover.unlink()
    identity = secrets.token_hex(16)
    settings = {"recipe": new_base.fingerprint_json}
    meta = {"format": str(CATALOG_FORMAT), "id": identity, "generation": "0", **settings}
    meta[SETTINGS_CHECKSUM_KEY] = settings_checksum(settings)
    # closed also after Ctrl-C: closing later would delete the log of the next attempt
    with closing(open_connection(new, create=True)) as connection:
        create_catalog_tables(connection)
        connection.execute("BEGIN IMMEDIATE")
        new_base.create_lexical_tables(connection)
        connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        connection.execute("COMMIT")
        # Closing would checkpoint too, but ignores disk errors. The log must be empty before the rename.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    new.chmod(0o600)
    new.rename(directory / CATALOG_FILE)
    fsync_directory(directory)
    write_marker(directory, identity, settings=settings)


def write_marker(directory: Path, identity: str, roots: Sequence[str] = (), *, settings: Mapping[str, str]) -> None:
    """Write the marker file. It repeats sources and settings, so that a lost catalog can be rebuilt."""
    body = {
        "what": "a ragkit knowledge base",
        "format": CATALOG_FORMAT,
        "id": identity,
        "roots": list(roots),
        "settings": dict(settings),
        SETTINGS_CHECKSUM_KEY: settings_checksum(settings),
    }
    write_file_durably(directory / MARKER_FILE, (json.dumps(body, indent=1) + "\n").encode())


def open_catalog(
    directory: Path, *, verify_checksums: bool = True, locked: bool = False, copy_if_locked: bool = False
) -> sqlite3.Connection:
    """Check a knowledge base and open a connection to its catalog.

    Args:
        directory: the knowledge base.
        verify_checksums: compare its files with their checksums.
        locked: the caller holds the writer lock; otherwise files that differ while another process holds it are not
            damaged, but being written.
        copy_if_locked: for reading alone: see `open_connection`.

    Raises:
        NotAKnowledgeBase: there is none, or a newer version of ragkit created it.
        KnowledgeBaseDamaged: a file is missing, truncated, altered, or from another knowledge base.
    """
    if not knowledge_base_exists(directory):
        raise NotAKnowledgeBase(place_name(directory), "is not a knowledge base", "build it with `ragkit index FOLDER`")
    if verify_checksums:
        _check_files(directory, locked=locked)
    path = directory / CATALOG_FILE
    if not path.exists():
        raise _damaged_error(directory, "is missing")
    try:
        connection = open_connection(path, copy_if_locked=copy_if_locked)
        meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    except DATABASE_ERRORS as error:
        raise _damaged_error(directory, f"cannot be read ({error})") from error
    if "format" not in meta or "id" not in meta:
        raise _damaged_error(directory, "has no settings")
    if not meta["format"].isdecimal():
        raise _damaged_error(directory, f"has an invalid format version {meta['format']!r}")
    if int(meta["format"]) > CATALOG_FORMAT:
        if any(change.file == CATALOG_FILE for change in find_changed_files(directory)):
            raise _damaged_error(directory, "has a checksum mismatch")
        reason = f"has format version {meta['format']}, but this version of ragkit supports up to {CATALOG_FORMAT}"
        raise NotAKnowledgeBase(str(directory), reason, f"upgrade with `pip install -U {DISTRIBUTION}`")
    if read_marker_id(directory) not in {None, meta["id"]}:
        raise _damaged_error(directory, "belongs to another knowledge base")
    return connection


def read_marker_id(directory: Path) -> str | None:
    """The id in the marker file; None if it cannot be read (the catalog alone is enough)."""
    identity = _read_marker(directory).get("id")
    return identity if isinstance(identity, str) else None


def read_marker_roots(directory: Path) -> list[str]:
    """The sources in the marker file; empty if it cannot be read."""
    roots = _read_marker(directory).get("roots")
    return [root for root in roots if isinstance(root, str)] if isinstance(roots, list) else []


def read_settings(directory: Path) -> dict[str, str] | None:
    """The settings of a knowledge base, from the catalog, or from the marker file if those are damaged; None: both are.

    Raises:
        NotAKnowledgeBase: as `open_catalog`.
    """
    try:
        with closing(open_catalog(directory, verify_checksums=False, copy_if_locked=True)) as connection:
            if settings := _read_intact_settings(connection):
                return settings
    except KnowledgeBaseDamaged:
        pass
    changed = {change.file for change in find_changed_files(directory)}
    if MARKER_FILE not in changed and (settings := read_marker_settings(directory)):
        return settings
    if CATALOG_FILE in changed or not (directory / CATALOG_FILE).exists():
        return None
    with suppress(*DATABASE_ERRORS), closing(open_connection(directory / CATALOG_FILE)) as connection:
        return _read_intact_settings(connection)
    return None


def _read_intact_settings(connection: sqlite3.Connection) -> dict[str, str] | None:
    """The settings in a catalog; None if they do not match their checksum, or cannot be read."""
    with suppress(*DATABASE_ERRORS):
        catalog = Catalog(connection)
        return catalog.settings() if catalog.has_intact_settings() else None
    return None


def read_marker_settings(directory: Path) -> dict[str, str] | None:
    """The settings in the marker file; None if they are damaged, or if an earlier version wrote the file."""
    marker = _read_marker(directory)
    settings = marker.get("settings")
    if not isinstance(settings, dict) or settings_checksum(settings) != marker.get(SETTINGS_CHECKSUM_KEY):
        return None
    return settings


def _read_marker(directory: Path) -> dict[str, object]:
    try:
        marker = json.loads((directory / MARKER_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return marker if isinstance(marker, dict) else {}


def _check_files(directory: Path, *, locked: bool) -> None:
    """Compare the files with their checksums. Retries while a writer is replacing the checksum file."""
    for _ in range(20):
        before = read_checksums(directory)
        changes = find_changed_files(directory)
        if not changes:
            return
        if (locked or not is_locked(directory)) and read_checksums(directory) == before:
            raise KnowledgeBaseDamaged(str(directory / changes[0].file), changes[0].reason, repair_command(directory))
        time.sleep(0.05)


def open_vectors(directory: Path, embedder: EmbedderRow, *, writable: bool = False) -> VectorFile:
    """The vector file of an embedder. Raises KnowledgeBaseDamaged."""
    return VectorFile.open(
        directory / embedder.file,
        dimension=embedder.dimension,
        file_id=embedder.file_id,
        rows=embedder.rows,
        fix=repair_command(directory),
        writable=writable,
    )


def _damaged_error(directory: Path, reason: str) -> KnowledgeBaseDamaged:
    return KnowledgeBaseDamaged(str(directory / CATALOG_FILE), reason, repair_command(directory))

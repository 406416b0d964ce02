"""The directory of a knowledge base: made, opened, checked. What the rows mean stands elsewhere."""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragkit.distribution import DISTRIBUTION
from ragkit.errors import KnowledgeBaseDamaged, NotAKnowledgeBase
from ragkit.index.catalog.checksums import find_changed_files, fsync_directory, read_checksums, write_file_durably
from ragkit.index.catalog.lock import is_locked
from ragkit.index.catalog.schema import CATALOG_FORMAT, create_catalog_tables, open_connection

MARKER_FILE = "ragkit-kb.json"
"""Says that a directory is a knowledge base; the folder walk leaves such directories out."""
CATALOG_FILE = "index.sqlite"


def repair_command(directory: Path) -> str:
    """What to type when a knowledge base is damaged."""
    return f"`ragkit verify --repair --kb {directory}`"


def knowledge_base_exists(directory: Path) -> bool:
    """Whether there is a knowledge base here, whole or not."""
    return (directory / MARKER_FILE).exists() or (directory / CATALOG_FILE).exists()


@dataclass(frozen=True)
class NewKnowledgeBase:
    """What a knowledge base that has to be made begins with."""

    fingerprint_json: str
    """The recipe as one line of JSON."""
    create_lexical_tables: Callable[[sqlite3.Connection], None]
    """Lays out tables that others keep in the catalog: the lexical index. Called inside the transaction."""


def create_knowledge_base(directory: Path, new_base: NewKnowledgeBase) -> None:
    """Make an empty knowledge base. After a crash in here there is none, or a whole one."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = directory / f"{CATALOG_FILE}.new"
    for leftover in directory.glob(f"{CATALOG_FILE}*"):
        leftover.unlink()
    identity = secrets.token_hex(16)
    connection = open_connection(new, create=True)
    create_catalog_tables(connection)
    settled = {"format": str(CATALOG_FORMAT), "id": identity, "recipe": new_base.fingerprint_json, "generation": "0"}
    connection.execute("BEGIN IMMEDIATE")
    new_base.create_lexical_tables(connection)
    connection.executemany("INSERT INTO meta VALUES (?, ?)", settled.items())
    connection.execute("COMMIT")
    # when it is closed SQLite would do this too, and say nothing if the disk failed; the log has the old name
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    connection.close()
    new.chmod(0o600)
    new.rename(directory / CATALOG_FILE)
    fsync_directory(directory)
    write_marker(directory, identity)


def write_marker(directory: Path, identity: str, roots: Sequence[str] = ()) -> None:
    """Write the file that names the directory a knowledge base, and what it was built from.

    The sources stand here a second time, so that a lost catalog can be built again.
    """
    body = {"what": "a ragkit knowledge base", "format": CATALOG_FORMAT, "id": identity, "roots": list(roots)}
    write_file_durably(directory / MARKER_FILE, (json.dumps(body, indent=1) + "\n").encode())


def open_catalog(directory: Path, *, check_seal: bool = True) -> sqlite3.Connection:
    """A connection to a knowledge base that was found sound.

    Raises:
        NotAKnowledgeBase: there is none, or it was made by a newer version.
        KnowledgeBaseDamaged: a file is missing, cut short, foreign or altered.
    """
    if not knowledge_base_exists(directory):
        raise NotAKnowledgeBase(str(directory), "is not a knowledge base", "build it with `ragkit index FOLDER`")
    if check_seal:
        _verify_checksums(directory)
    path = directory / CATALOG_FILE
    if not path.exists():
        raise _damaged_error(directory, "is missing")
    try:
        connection = open_connection(path)
        meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    except sqlite3.DatabaseError as error:
        raise _damaged_error(directory, f"cannot be read ({error})") from error
    if "format" not in meta or "id" not in meta:
        raise _damaged_error(directory, "holds no settings")
    if not meta["format"].isdecimal():
        raise _damaged_error(directory, "holds settings that cannot be read")
    if int(meta["format"]) > CATALOG_FORMAT:
        if any(fault.file == CATALOG_FILE for fault in find_changed_files(directory)):
            raise _damaged_error(directory, "is not what was written (its checksum differs)")
        reason = f"has layout {meta['format']}, this ragkit knows {CATALOG_FORMAT}"
        raise NotAKnowledgeBase(str(directory), reason, f"update ragkit with `pip install -U {DISTRIBUTION}`")
    marked = read_marker_id(directory)
    if marked is not None and marked != meta["id"]:
        raise _damaged_error(directory, "belongs to another knowledge base")
    return connection


def read_marker_id(directory: Path) -> str | None:
    """The id in the marker file; None when there is no readable one (the catalog alone is enough)."""
    try:
        found = json.loads((directory / MARKER_FILE).read_bytes())["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def read_marker_roots(directory: Path) -> list[str]:
    """The sources that the marker file names; none when it cannot be read."""
    try:
        roots = json.loads((directory / MARKER_FILE).read_bytes())["roots"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [root for root in roots if isinstance(root, str)] if isinstance(roots, list) else []


def _verify_checksums(directory: Path) -> None:
    """Compare the files with their seal. A writer that comes in between takes the seal away: then look again."""
    for _ in range(20):
        before = read_checksums(directory)
        faults = find_changed_files(directory)
        if not faults:
            return
        if not is_locked(directory) and read_checksums(directory) == before:
            raise KnowledgeBaseDamaged(str(directory / faults[0].file), faults[0].reason, repair_command(directory))
        time.sleep(0.05)


def _damaged_error(directory: Path, reason: str) -> KnowledgeBaseDamaged:
    return KnowledgeBaseDamaged(str(directory / CATALOG_FILE), reason, repair_command(directory))

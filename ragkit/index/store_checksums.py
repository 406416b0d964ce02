"""Checksums of the files of a vector store inside the directory of a knowledge base.

An index run that synchronized and closed the store flushes its files, and writes their digests and the generation that
they hold. A search compares the files first: a store with a mismatch is not opened, the catalog is searched instead,
and the next run fills the store again from the catalog.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ragkit.index.catalog.checksums import fsync_directory, read_checked_json, write_checked_json
from ragkit.store.file_digests import FileDigests, compute_digests, sync_files


@dataclass(frozen=True)
class StoreChecksums:
    """Content of a checksum file."""

    catalog_id: str
    """Id of the catalog that the store was filled from."""
    generation: int
    """Generation of the catalog that the store holds."""
    files: FileDigests


def store_checksum_path(path: Path) -> Path:
    """Path of the checksum file of the store at `path`."""
    return path.parent / f"seal-{path.name}.json"


def write_store_checksums(path: Path, catalog: str, generation: int) -> None:
    """Flush the files of a closed store and write their digests. Raises OSError."""
    sync_files(path)
    write_checked_json(store_checksum_path(path), "store", [catalog, generation, compute_digests(path)])


def delete_store_checksums(path: Path) -> None:
    """Delete the checksum file. Called before the store is changed."""
    if store_checksum_path(path).exists():
        store_checksum_path(path).unlink(missing_ok=True)
        fsync_directory(path.parent)


def store_checksum_version(path: Path) -> tuple[int, ...]:
    """Identity of the checksum file, at the cost of one system call; empty if there is none.

    A writer deletes the checksum file first and writes a new one last: a store whose version is the same before and
    after a search did not change during it.
    """
    try:
        stat = store_checksum_path(path).stat()
    except OSError:
        return ()
    return (stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size)


def read_store_checksums(path: Path) -> StoreChecksums | None:
    """Content of the checksum file; None if it is missing or damaged."""
    body = read_checked_json(store_checksum_path(path), "store")
    return None if body is None else StoreChecksums(*body)


def find_store_change(path: Path, recorded: StoreChecksums) -> str:
    """The first difference between the files and their checksums, as a message; '' if there is none."""
    try:
        current = compute_digests(path)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    for name in sorted({*current, *recorded.files}):
        if name not in current:
            return f"is missing the file {name}"
        if name not in recorded.files:
            return f"has an unexpected file {name}"
        if current[name] != recorded.files[name]:
            return f"has a checksum mismatch in the file {name}"
    return ""

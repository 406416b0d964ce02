"""A seal on the files of a vector store that lies in the knowledge base's own directory.

When a run has brought the store in line and closed it, its files are brought to disk and their digests written down,
together with the generation that they hold. Who searches compares them first: a store that is not as it was sealed is
not opened, and the catalog answers in its place; the next run fills it again from the catalog.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path

from ragkit.index.catalog.checksums import fsync_directory, write_file_durably
from ragkit.store.file_digests import FileDigests, compute_digests, sync_files


@dataclass(frozen=True)
class StoreChecksums:
    """What a seal says."""

    catalog_id: str
    """The id of the catalog that the store was filled from."""
    generation: int
    """The generation of it that the store holds."""
    files: FileDigests


def store_checksum_path(place: Path) -> Path:
    """Where the seal of the store at `place` is kept."""
    return place.parent / f"seal-{place.name}.json"


def write_store_checksums(place: Path, catalog: str, generation: int) -> None:
    """Bring the files of a closed store to disk and write down what they are. Raises OSError."""
    sync_files(place)
    body = json.dumps([catalog, generation, compute_digests(place)], sort_keys=True)
    write_file_durably(
        store_checksum_path(place), json.dumps({"store": body, "crc": zlib.crc32(body.encode())}).encode()
    )


def delete_store_checksums(place: Path) -> None:
    """Take the seal away before anything is changed."""
    if store_checksum_path(place).exists():
        store_checksum_path(place).unlink(missing_ok=True)
        fsync_directory(place.parent)


def store_checksum_version(place: Path) -> tuple[int, ...]:
    """What differs between two seals, at the price of a system call; empty when there is none.

    A writer takes the seal away before anything else and sets a new one at the end, so that a store whose mark is the
    same before and after was not changed in between.
    """
    try:
        found = store_checksum_path(place).stat()
    except OSError:
        return ()
    return (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)


def read_store_checksums(place: Path) -> StoreChecksums | None:
    """What the seal says; None when there is none, or it cannot be read."""
    try:
        outer = json.loads(store_checksum_path(place).read_bytes())
        if zlib.crc32(outer["store"].encode()) != outer["crc"]:
            return None
        catalog, generation, files = json.loads(outer["store"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return StoreChecksums(catalog, generation, files)


def find_store_change(place: Path, seal: StoreChecksums) -> str:
    """The first file that is not as it was sealed, in a few words; '' when all are."""
    try:
        now = compute_digests(place)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    for name in sorted({*now, *seal.files}):
        if name not in now:
            return f"lacks {name}"
        if name not in seal.files:
            return f"has a file {name} that was not written with it"
        if now[name] != seal.files[name]:
            return f"has a file {name} that is not what was written"
    return ""

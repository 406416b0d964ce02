"""Read the files of the bundled models: a model card in JSON, and files with SHA-256 hashes in the card."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path

from ragkit.distribution import DISTRIBUTION
from ragkit.errors import KnowledgeBaseDamaged
from ragkit.records import JSON

_BLOCK = 1 << 20
_BLOCKS = 64
REINSTALL_COMMAND = f"`pip install --force-reinstall {DISTRIBUTION}`"


def read_model_card(path: Path, keys: Set[str]) -> Mapping[str, JSON]:
    """The content of a model card. Raises KnowledgeBaseDamaged if it cannot be read or lacks one of `keys`."""
    try:
        card = json.loads(path.read_bytes())
    except OSError as error:
        raise _unreadable_error(path, error) from error
    except ValueError as error:
        raise KnowledgeBaseDamaged(str(path), "is not JSON", REINSTALL_COMMAND) from error
    if not isinstance(card, dict) or not keys <= card.keys():
        reason = f"is not a model card: it needs the keys {', '.join(sorted(keys))}"
        raise KnowledgeBaseDamaged(str(path), reason, REINSTALL_COMMAND)
    return card


def read_verified(path: Path, sha256: str | None) -> bytes:
    """The bytes of a file whose SHA-256 matches. Raises KnowledgeBaseDamaged."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise _unreadable_error(path, error) from error
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise _altered_error(path)
    return raw


@contextmanager
def verified_file(path: Path, sha256: str | None, command: str = REINSTALL_COMMAND) -> Iterator[Path]:
    """A file whose SHA-256 matches, for a library that reads large files faster than it takes bytes.

    Raises KnowledgeBaseDamaged, also if the file changes within the block. `command` installs the file again.
    """
    try:
        with path.open("rb") as stream:
            before = _version(os.fstat(stream.fileno()))
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if digest != sha256:
            raise _altered_error(path, command)
        yield path
        after = _version(path.stat())
    except OSError as error:
        raise _unreadable_error(path, error, command) from error
    if after != before:
        raise KnowledgeBaseDamaged(str(path), "changed while it was read", "run the command again")


def _version(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _unreadable_error(path: Path, error: OSError, command: str = REINSTALL_COMMAND) -> KnowledgeBaseDamaged:
    return KnowledgeBaseDamaged(str(path), f"cannot be read ({error.strerror})", command)


def _altered_error(path: Path, command: str = REINSTALL_COMMAND) -> KnowledgeBaseDamaged:
    return KnowledgeBaseDamaged(str(path), "is truncated or altered (SHA-256 checksum mismatch)", command)


def digest_file(path: Path) -> str:
    """A hash of a file; of a large one, of its size and of 64 parts of 1 MB, so that it takes 30 ms."""
    size = path.stat().st_size
    digest = hashlib.blake2b(str(size).encode(), digest_size=16)
    step = max(_BLOCK, size // _BLOCKS)
    with path.open("rb") as file:
        for start in range(0, size, step):
            file.seek(start)
            digest.update(file.read(_BLOCK))
    return digest.hexdigest()

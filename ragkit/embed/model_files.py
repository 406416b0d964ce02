"""Read the files of the bundled models: a model card in JSON, and files with SHA-256 hashes in the card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Set
from pathlib import Path

from ragkit.distribution import DISTRIBUTION
from ragkit.errors import KnowledgeBaseDamaged
from ragkit.records import JSON

REINSTALL_COMMAND = f"`pip install --force-reinstall {DISTRIBUTION}`"


def read_model_card(path: Path, keys: Set[str]) -> Mapping[str, JSON]:
    """The content of a model card. Raises KnowledgeBaseDamaged if it cannot be read or lacks one of `keys`."""
    try:
        card = json.loads(path.read_bytes())
    except OSError as error:
        raise KnowledgeBaseDamaged(str(path), f"cannot be read ({error.strerror})", REINSTALL_COMMAND) from error
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
        raise KnowledgeBaseDamaged(str(path), f"cannot be read ({error.strerror})", REINSTALL_COMMAND) from error
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise KnowledgeBaseDamaged(str(path), "is truncated or altered (SHA-256 checksum mismatch)", REINSTALL_COMMAND)
    return raw

"""The files of the models that ship with ragkit: a card in JSON, and files whose hashes it holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Set
from pathlib import Path

from ragkit.distribution import DISTRIBUTION
from ragkit.errors import KnowledgeBaseDamaged
from ragkit.records import JSON

REINSTALL_COMMAND = f"pip install --force-reinstall {DISTRIBUTION}"


def read_model_card(path: Path, keys: Set[str]) -> Mapping[str, JSON]:
    """What a card says. Raises KnowledgeBaseDamaged when it cannot be read, or lacks one of these keys."""
    try:
        card = json.loads(path.read_bytes())
    except OSError as error:
        raise KnowledgeBaseDamaged(str(path), f"cannot be read ({error.strerror})", REINSTALL_COMMAND) from error
    except ValueError as error:
        raise KnowledgeBaseDamaged(str(path), "is not JSON", REINSTALL_COMMAND) from error
    if not isinstance(card, dict) or not keys <= card.keys():
        raise KnowledgeBaseDamaged(str(path), "is not the card of a model", REINSTALL_COMMAND)
    return card


def read_verified(path: Path, sha256: str | None) -> bytes:
    """The bytes of a file, once they are known to be the right ones. Raises KnowledgeBaseDamaged."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise KnowledgeBaseDamaged(str(path), f"cannot be read ({error.strerror})", REINSTALL_COMMAND) from error
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise KnowledgeBaseDamaged(
            str(path), "is cut short or altered: its sha256 is not the one it was shipped with", REINSTALL_COMMAND
        )
    return raw

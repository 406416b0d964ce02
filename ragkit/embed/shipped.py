"""The files of the models that ship with ragkit: a card in JSON, and files whose hashes it holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Set
from pathlib import Path

from ragkit.errors import Damaged
from ragkit.records import JSON

REINSTALL = "pip install --force-reinstall ragkit"


def read_card(path: Path, keys: Set[str]) -> Mapping[str, JSON]:
    """What a card says. Raises Damaged when it cannot be read, or lacks one of these keys."""
    try:
        card = json.loads(path.read_bytes())
    except OSError as error:
        raise Damaged(str(path), f"cannot be read ({error.strerror})", REINSTALL) from error
    except ValueError as error:
        raise Damaged(str(path), "is not JSON", REINSTALL) from error
    if not isinstance(card, dict) or not keys <= card.keys():
        raise Damaged(str(path), "is not the card of a model", REINSTALL)
    return card


def read_checked(path: Path, sha256: str | None) -> bytes:
    """The bytes of a file, once they are known to be the right ones. Raises Damaged."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise Damaged(str(path), f"cannot be read ({error.strerror})", REINSTALL) from error
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise Damaged(str(path), "is cut short or altered: its sha256 is not the one it was shipped with", REINSTALL)
    return raw

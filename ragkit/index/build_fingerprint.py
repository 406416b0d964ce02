"""The settings that a knowledge base is built with, as fingerprints, and how two of them differ.

Settings that only choose which files are looked at (include, exclude, size limit) are not part of it,
nor are those of search and answers: they may change from run to run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import PROBE_COSINE
from ragkit.errors import SettingsMismatch
from ragkit.records import JSON


@dataclass(frozen=True)
class BuildFingerprint:
    """What decides the chunks and vectors of a knowledge base."""

    load: Mapping[str, JSON]
    """Loader settings that change a text, by option."""
    split: Mapping[str, JSON]
    """Splitter name and options."""
    embed: Mapping[str, JSON]
    """Embedder name, options and fingerprint."""
    lexicon: str
    """Version of the analyser behind the lexical index."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Loader name -> version. A change here brings documents up to date by itself."""

    def to_json(self) -> str:
        """One line of JSON with sorted keys: equal recipes give equal lines."""
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> BuildFingerprint:
        """The recipe that `to_json` wrote."""
        return cls(**json.loads(line))

    def differences(self, wanted: BuildFingerprint) -> list[str]:
        """What a knowledge base with this recipe would have to change for `wanted`, in words; empty if nothing."""
        found: list[str] = []
        for station in ("load", "split", "embed"):
            old, new = getattr(self, station), getattr(wanted, station)
            found += [
                f"{station}.{key} is {_format_value(old.get(key))}, {_format_value(new.get(key))} was asked for"
                for key in sorted({*old, *new})
                if old.get(key) != new.get(key)
            ]
        return found


def check_embedder_weights(kb: str, stored: bytes, probe: NDArray[np.float32]) -> None:
    """Raises SettingsMismatch when the probe sentence's vector is not the one that the knowledge base was built with.

    Args:
        kb: the knowledge base, for the message.
        stored: the row of that time, (dimension,) float32 as bytes.
        probe: the row of today, (dimension,), of length 1.
    """
    before = np.frombuffer(stored if len(stored) == probe.nbytes else b"", np.float32)
    if before.shape != probe.shape or float(before @ probe) < PROBE_COSINE:
        difference = "the embedder's weights are others than those that the stored vectors were made with"
        raise SettingsMismatch(kb, [difference], f"`ragkit index --rebuild --kb {kb}`")


def _format_value(value: JSON) -> str:
    if value is None:
        return "not set"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:16]}..."

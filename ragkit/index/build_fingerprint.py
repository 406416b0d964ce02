"""The settings that determine the content of a knowledge base, and the differences between two of them.

Settings that only select files (include, exclude, size limit), and settings of search and answers, are not included:
they may change between runs.
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
    """The settings that determine chunks and vectors."""

    load: Mapping[str, JSON]
    """Loader options that change texts."""
    split: Mapping[str, JSON]
    """Splitter name and options."""
    embed: Mapping[str, JSON]
    """Embedder name, options and fingerprint."""
    lexicon: str
    """Version of the analyzer of the lexical index."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Loader name -> version. When a version changes, the next run reindexes the documents of this loader."""

    def to_json(self) -> str:
        """One line of JSON with sorted keys: equal fingerprints give equal lines."""
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> BuildFingerprint:
        """Parse the output of `to_json`."""
        return cls(**json.loads(line))

    def differences(self, other: BuildFingerprint) -> list[str]:
        """The differences to the settings of another fingerprint, one message each; empty if there are none."""
        result: list[str] = []
        for stage in ("load", "split", "embed"):
            old, new = getattr(self, stage), getattr(other, stage)
            result += [
                "{}: index has {}, pipeline has {}".format(
                    f"{stage}.{key}", *_format_values(old.get(key), new.get(key))
                )
                for key in sorted({*old, *new})
                if old.get(key) != new.get(key)
            ]
        return result


def check_embedder_weights(kb: str, stored: bytes, probe: NDArray[np.float32]) -> None:
    """Compare the embedder's current vector of the probe text with the stored one.

    Args:
        kb: path of the knowledge base, for the message.
        stored: the stored unit vector, (dimension,) float32 as bytes.
        probe: the current unit vector, (dimension,).

    Raises:
        SettingsMismatch: the vectors differ, so the embedder has different weights.
    """
    before = np.frombuffer(stored if len(stored) == probe.nbytes else b"", np.float32)
    if before.shape != probe.shape or float(before @ probe) < PROBE_COSINE:
        difference = "the embedder's weights differ from those that produced the stored vectors"
        raise SettingsMismatch(kb, [difference], f"`ragkit index --rebuild --kb {kb}`")


def _format_values(*values: JSON) -> list[str]:
    """Different values; long ones are cut, but not before they differ."""
    texts = ["not set" if value is None else value if isinstance(value, str) else json.dumps(value) for value in values]
    same = next((n for n, letters in enumerate(zip(*texts, strict=False)) if len({*letters}) > 1), 0)
    limit = same + 16
    return [text if len(text) <= max(40, limit + 3) else f"{text[:limit]}..." for text in texts]

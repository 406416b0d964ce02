"""The kinds of trials, and their numbers in a full and in a small run."""

from __future__ import annotations

from tests.torture.bench import TrialKind
from tests.torture.calls import SystemCalls
from tests.torture.crowd import Readers, Writers
from tests.torture.cuts import ImagePowerCuts, UnsyncedPowerCuts
from tests.torture.damage import BitFlips, DamagedFiles
from tests.torture.kills import Kills
from tests.torture.shifting import ChangingFiles

EVERY = 10**9
"""All possible trials."""

_ALL: tuple[TrialKind, ...] = (
    Kills(),
    SystemCalls("kill at a call", ["KILL"]),
    SystemCalls("error of a call", ["EIO", "ENOSPC", "ENOSPC+"]),
    UnsyncedPowerCuts(),
    ImagePowerCuts(),
    BitFlips(),
    DamagedFiles(),
    Writers(),
    Readers("readers and a writer", 4, 0),
    Readers("20 readers for ten minutes", 20, 600),
    ChangingFiles(),
)
KINDS: dict[str, TrialKind] = {kind.name: kind for kind in _ALL}
FULL = {
    "kill -9": 1000,
    "kill at a call": EVERY,
    "error of a call": EVERY,
    "power cut (unsynced lost)": 100,
    "power cut (ext4 image)": 100,
    "bit flip": 1000,
    "file damaged": EVERY,
    "2 to 8 writers": 50,
    "readers and a writer": 50,
    "20 readers for ten minutes": 1,
    "files that change while read": 100,
}
SMALL = {"kill -9": 9, "kill at a call": 9, "error of a call": 9, "power cut (unsynced lost)": 3, "bit flip": 2}
"""Trials for each of two stores."""

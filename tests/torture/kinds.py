"""The kinds of trials, and their numbers in a full and in a small run."""

from __future__ import annotations

from collections.abc import Mapping

from tests.torture.bench import TrialKind
from tests.torture.calls import SystemCalls
from tests.torture.concurrency import Readers, Writers
from tests.torture.cuts import ImagePowerCuts, UnsyncedPowerCuts
from tests.torture.damage import BitFlips, DamagedFiles
from tests.torture.kills import Interrupts, Kills
from tests.torture.shifting import ChangingFiles
from tests.torture.subjects import DATABASE, FORMATS, SOURCES, STORES

LONG = Readers("20 readers for ten minutes", 20, 600, writers=2, pause=0.1)
_ALL: tuple[TrialKind, ...] = (
    Kills(),
    Interrupts(),
    SystemCalls("kill at a call", ["KILL"]),
    SystemCalls("error of a call", ["EIO", "ENOSPC", "ENOSPC+"]),
    UnsyncedPowerCuts(),
    ImagePowerCuts(),
    BitFlips(),
    DamagedFiles(),
    Writers(),
    Readers("readers and a writer", 4, 0),
    LONG,
    ChangingFiles(),
)
KINDS: dict[str, TrialKind] = {kind.name: kind for kind in _ALL}
KILLS_AROUND = "kills around a database"
"""The kind of `tests.torture.database`; a trial is a crowd of processes of which some 25 are killed."""
NAMES = (*KINDS, KILLS_AROUND)

_SQLITE = {
    "kill -9": 1000,
    "Ctrl-C": 300,
    "kill at a call": 500,
    "error of a call": 500,
    "power cut (unsynced lost)": 150,
    "power cut (ext4 image)": 150,
    "bit flip": 1000,
    "file damaged": 60,
    "2 to 8 writers": 100,
    "readers and a writer": 100,
    LONG.name: 1,
    "files that change while read": 100,
}
_OTHER = {
    "kill -9": 300,
    "Ctrl-C": 100,
    "kill at a call": 100,
    "error of a call": 100,
    "power cut (unsynced lost)": 50,
    "power cut (ext4 image)": 50,
    "bit flip": 300,
    "file damaged": 30,
    "2 to 8 writers": 30,
    "readers and a writer": 30,
    LONG.name: 1,
    "files that change while read": 30,
}
_FOLDERS = {name: _OTHER[name] for name in list(_OTHER)[:6]}
FULL: Mapping[str, Mapping[str, int]] = {
    **{store: _SQLITE if store == "sqlite" else _OTHER for store in STORES},
    FORMATS: _FOLDERS,
    SOURCES: _FOLDERS,
    DATABASE: {KILLS_AROUND: 300},
}
"""Subject -> kind -> breaks that are wanted on each version."""
SMALL = {
    "kill -9": 5,
    "Ctrl-C": 5,
    "kill at a call": 5,
    "error of a call": 5,
    "power cut (unsynced lost)": 2,
    "bit flip": 1,
}
"""Trials for each of two stores."""

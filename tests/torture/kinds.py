"""The kinds of trials, and their numbers in a full and in a small run."""

from __future__ import annotations

from tests.torture.bench import Kind
from tests.torture.calls import Calls
from tests.torture.crowd import Readers, Writers
from tests.torture.cuts import Forgetting, Imaging
from tests.torture.damage import Files, Flips
from tests.torture.kills import Kills
from tests.torture.shifting import Shifting

EVERY = 10**9
"""All kinds."""

_ALL: tuple[Kind, ...] = (
    Kills(),
    Calls("kill at a call", ["KILL"]),
    Calls("error of a call", ["EIO", "ENOSPC", "ENOSPC+"]),
    Forgetting(),
    Imaging(),
    Flips(),
    Files(),
    Writers(),
    Readers("readers and a writer", 4, 0),
    Readers("20 readers for ten minutes", 20, 600),
    Shifting(),
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
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
SMALL = {"kill -9": 15, "kill at a call": 15, "error of a call": 15, "power cut (unsynced lost)": 5, "bit flip": 2}
"""For each of two stores."""

"""The invariants after an interrupted command, and the names of faults.

lost: a chunk that should be there is not. doubled: one is there twice. wrong: a chunk of a text that is not the
folder's, neither before nor after; two generations in one answer; half a file. empty: an answer without a word of
error that has nothing, or too little, in it. hung: a command that does not end. closed: a command that fails where it
must not. unclear: more than one line of error, or a traceback. embedded: a repair that embedded what it had.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.torture.folder import Listed
from tests.torture.forks import Commands, Said

FAULTS = ("lost", "doubled", "wrong", "empty", "hung", "closed", "unclear", "embedded")
ALL = "500"
"""More hits than there are chunks: a search for so many must find every one."""


LIST = ("list", "--chunks", "--json")
SEARCH = ("search", "canary part", "-k", ALL, "--mode", "dense", "--json")
VERIFY = ("verify", "--json")


@dataclass(frozen=True)
class Fault:
    """A violated invariant."""

    kind: str
    what: str


class Oracle:
    """Looks at a knowledge base after a trial and collects faults."""

    def __init__(self, commands: Commands, kb: str, config: str, folder: str) -> None:
        self.commands = commands
        self.kb = ("--kb", kb, "--config", config)
        self.folder = folder
        self.faults: list[Fault] = []

    def fault(self, kind: str, what: str) -> None:
        """Record a fault."""
        self.faults.append(Fault(kind, what))

    def run(self, *arguments: str) -> Said:
        """Run a command on the knowledge base, and check its output for any exit code."""
        said = self.commands.run(*arguments, *self.kb)
        self.manners(said)
        return said

    def manners(self, said: Said) -> None:
        """A command must end, and print one line if it fails."""
        if said.code is None:
            self.fault("hung", said.short())
        elif "Traceback" in said.err or (said.code not in {0, 5, -9} and len(said.err.splitlines()) != 1):
            self.fault("unclear", said.short())

    # before the next run

    def whole(self, states: Sequence[Listed], *, first_build: bool = False) -> None:
        """Before the next run: what is listed is one of the states, and a search finds exactly that.

        A first build publishes as it goes: then whole documents of the last state are right, and so is an error.
        Where nothing is listed, a search says so.
        """
        listed, *searched = self.look(LIST, SEARCH)
        if listed.code != 0:
            if not (first_build and "ragkit index" in listed.err):
                self.fault("closed", listed.short())
            return
        lines = tuple(listed.out.splitlines())
        if first_build:
            self._documents(lines, states[-1])
        elif lines not in states:
            self._differs(lines, states)
        for said in searched:
            self._found(lines, said)

    def look(self, *commands: Sequence[str]) -> list[Said]:
        """Several commands on the knowledge base, one after the other in one process."""
        found = self.commands.run_each(*([*command, *self.kb] for command in commands))
        for said in found:
            self.manners(said)
        return found

    def _found(self, lines: Listed, said: Said) -> None:
        """A search for everything finds exactly what is listed."""
        if said.code != 0:
            if lines or "ragkit index" not in said.err:
                self.fault("closed", said.short())
            return
        hits = said.json["hits"]
        want = {row["id"]: row["text"] for row in map(json.loads, lines)}
        got = Counter(hit["chunk_id"] for hit in hits)
        if missing := want.keys() - got.keys():
            self.fault("empty", f"a search did not find {len(missing)} of {len(want)} chunks")
        if foreign := got.keys() - want.keys():
            self.fault("wrong", f"a search found {len(foreign)} chunks that are not listed")
        if twice := [name for name, count in got.items() if count > 1]:
            self.fault("doubled", f"a search found {len(twice)} chunks twice")
        if any(want.get(hit["chunk_id"], hit["text"]) != hit["text"] for hit in hits):
            self.fault("wrong", "a search gave another text than the list")

    # after the next run

    def mended(self, state: Listed, *arguments: str) -> None:
        """The next run completes; then all is as a fresh build makes it, and `verify` finds nothing."""
        said = self.run(*(arguments or ("index", self.folder, "-q")))
        if said.code != 0:
            self.fault("closed", said.short())
            return
        self.sound(state)

    def sound(self, state: Listed) -> None:
        """All is as a fresh build makes it, and `verify` finds nothing."""
        listed, *rest = self.look(LIST, SEARCH, VERIFY)
        lines = tuple(listed.out.splitlines())
        if listed.code != 0:
            self.fault("closed", listed.short())
        elif lines != state:
            self._differs(lines, [state])
        for said in rest[:1]:
            self._found(state, said)
        for said in rest[1:]:
            if said.code != 0:
                problems = said.json["problems"] if said.out else said.err
                self.fault("wrong", f"verify ended with {said.code}: {problems}"[:600])

    def _documents(self, lines: Listed, state: Listed) -> None:
        """Every document that is listed is whole, and is the state's."""
        have, want = _by_source(lines), _by_source(state)
        for source, rows in have.items():
            if rows != want.get(source):
                self.fault("wrong", f"{source} is listed with {len(rows)} chunks, not as it is on disk")

    def _differs(self, lines: Listed, states: Sequence[Listed]) -> None:
        nearest = min(states, key=lambda state: len(set(state) ^ set(lines)))
        if not lines and nearest:
            self.fault("empty", f"nothing is listed where {len(nearest)} chunks should be")
            return
        counts, want = Counter(lines), Counter(nearest)
        doubled, missing = sum((counts - want).values()), sum((want - counts).values())
        twice = [line for line, count in counts.items() if count > want[line] and want[line]]
        if twice:
            self.fault("doubled", f"{len(twice)} chunks are listed twice")
        if missing:
            self.fault("lost", f"{missing} of {len(nearest)} chunks are not listed")
        if doubled - len(twice) > 0:
            self.fault("wrong", f"{doubled - len(twice)} chunks are listed that should not be")
        if not (twice or missing or doubled):
            self.fault("wrong", "the chunks are listed in another order")


def _by_source(lines: Listed) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in lines:
        found.setdefault(json.loads(line)["source"], []).append(line)
    return found

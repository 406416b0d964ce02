"""The invariants after an interrupted command, and the names of faults.

lost: a chunk is missing. doubled: a chunk exists twice. wrong: a chunk whose text is neither in the old nor in the new
folder; two generations in one result; half a file. empty: an empty or incomplete result without an error. hung: a
command does not end. closed: a command fails that must succeed. unclear: an error of more than one line, or a
traceback. embedded: a repair, or the next run, embeds texts whose vectors are not lost.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.torture.folder import Listing
from tests.torture.forks import CommandResult, Commands

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
    """Checks a knowledge base after a trial and collects faults."""

    def __init__(self, commands: Commands, kb: str, config: str, index: Sequence[str]) -> None:
        self.commands = commands
        self.kb = ("--kb", kb, "--config", config)
        self.index = tuple(index)
        self.faults: list[Fault] = []

    def fault(self, kind: str, what: str) -> None:
        """Record a fault."""
        self.faults.append(Fault(kind, what))

    def run(self, *arguments: str) -> CommandResult:
        """Run a command on the knowledge base, and check its output for any exit code."""
        result = self.commands.run(*arguments, *self.kb)
        self.check_output(result)
        return result

    def check_output(self, said: CommandResult) -> None:
        """A command must end, and print one line if it fails."""
        if said.code is None:
            self.fault("hung", said.summary())
        elif "Traceback" in said.err or (said.code not in {0, 5, -9} and len(said.err.splitlines()) != 1):
            self.fault("unclear", said.summary())

    # before the next run

    def check_state(self, states: Sequence[Listing], *, first_build: bool = False) -> Listing | None:
        """Returns the listing, None if there is none.

        Before the next run, the listing is one of the states, and a search finds exactly the listed chunks.

        A first build publishes incrementally: complete documents of the last state are valid, and so is an error.
        If nothing is listed, a search is an error.
        """
        listed, *searched = self.run_each(LIST, SEARCH)
        if listed.code != 0:
            if not (first_build and "ragkit index" in listed.err):
                self.fault("closed", listed.summary())
            return None
        lines = tuple(listed.out.splitlines())
        if first_build:
            self._check_documents(lines, states[-1])
        elif lines not in states:
            self._report_difference(lines, states)
        for result in searched:
            self._check_search(lines, result)
        return lines

    def run_each(self, *commands: Sequence[str]) -> list[CommandResult]:
        """Run several commands on the knowledge base in one process."""
        output = self.commands.run_each(*([*command, *self.kb] for command in commands))
        for result in output:
            self.check_output(result)
        return output

    def _check_search(self, lines: Listing, said: CommandResult) -> None:
        """A search for everything finds exactly the listed chunks."""
        if said.code != 0:
            if lines or "ragkit index" not in said.err:
                self.fault("closed", said.summary())
            return
        hits = said.json["hits"]
        expected = {row["id"]: row["text"] for row in map(json.loads, lines)}
        actual = Counter(hit["chunk_id"] for hit in hits)
        if missing := expected.keys() - actual.keys():
            self.fault("empty", f"a search did not find {len(missing)} of {len(expected)} chunks")
        if foreign := actual.keys() - expected.keys():
            self.fault("wrong", f"a search found {len(foreign)} chunks that are not listed")
        if twice := [name for name, count in actual.items() if count > 1]:
            self.fault("doubled", f"a search found {len(twice)} chunks twice")
        if any(expected.get(hit["chunk_id"], hit["text"]) != hit["text"] for hit in hits):
            self.fault("wrong", "a search returned another text than the listing")

    # after the next run

    def check_next_run(self, state: Listing, *, known: Listing | None = None) -> None:
        """The next run completes, and the knowledge base equals a fresh build.

        With `known`, the listing before it, the run embeds only texts that are not listed there.
        """
        result, embedded = self.commands.run_counted(*self.index, *self.kb)
        self.check_output(result)
        if known is not None:
            allowed = len(_texts(state) - _texts(known))
            if embedded > allowed:
                self.fault("embedded", f"the next run embedded {embedded} texts, of which {allowed} were not listed")
        if result.code != 0:
            self.fault("closed", result.summary())
            return
        self.check_rebuilt(state)

    def check_rebuilt(self, state: Listing) -> None:
        """Listing and search equal those of a fresh build, and `verify` finds no problem."""
        listed, *rest = self.run_each(LIST, SEARCH, VERIFY)
        lines = tuple(listed.out.splitlines())
        if listed.code != 0:
            self.fault("closed", listed.summary())
        elif lines != state:
            self._report_difference(lines, [state])
        for result in rest[:1]:
            self._check_search(state, result)
        for result in rest[1:]:
            if result.code != 0:
                problems = result.json["problems"] if result.out else result.err
                self.fault("wrong", f"verify ended with {result.code}: {problems}"[:600])

    def _check_documents(self, lines: Listing, state: Listing) -> None:
        """Every listed document is complete and belongs to the state."""
        have, expected = _by_source(lines), _by_source(state)
        for source, rows in have.items():
            if rows != expected.get(source):
                self.fault("wrong", f"{source} is listed with {len(rows)} chunks that differ from the file")

    def _report_difference(self, lines: Listing, states: Sequence[Listing]) -> None:
        nearest = min(states, key=lambda state: len(set(state) ^ set(lines)))
        if not lines and nearest:
            self.fault("empty", f"nothing is listed, expected {len(nearest)} chunks")
            return
        counts, expected = Counter(lines), Counter(nearest)
        doubled, missing = sum((counts - expected).values()), sum((expected - counts).values())
        twice = [line for line, count in counts.items() if count > expected[line] and expected[line]]
        if twice:
            self.fault("doubled", f"{len(twice)} chunks are listed twice")
        if missing:
            self.fault("lost", f"{missing} of {len(nearest)} chunks are not listed")
        if doubled - len(twice) > 0:
            self.fault("wrong", f"{doubled - len(twice)} chunks are listed that should not be")
        if not (twice or missing or doubled):
            self.fault("wrong", "the chunks are listed in another order")


def _texts(lines: Listing) -> set[tuple[str, ...]]:
    """What is embedded of each chunk: title, headings and text."""
    rows = map(json.loads, lines)
    return {(row["title"], *row["heading"], row["text"]) for row in rows}


def _by_source(lines: Listing) -> dict[str, list[str]]:
    results: dict[str, list[str]] = {}
    for line in lines:
        results.setdefault(json.loads(line)["source"], []).append(line)
    return results

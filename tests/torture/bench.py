"""The test bench of one store: a folder, an initial knowledge base, and the commands on them."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Protocol

from tests.torture import sources
from tests.torture.folder import DRAFT, Files, FreshBuilds, Listing
from tests.torture.forks import Commands, RunningCommand, preload
from tests.torture.oracle import Fault, Oracle
from tests.torture.subjects import SOURCES, SUBJECTS, Subject

HASHING = "embed: {name: hashing, dimension: 64}\n"
"""A fast embedder: the trials do not depend on the meaning of vectors."""


VARIANTS = 12
"""Number of different changes of the folder. Trials share the fresh builds to compare with."""


@dataclass(frozen=True)
class TrialResult:
    """Result of one trial."""

    faults: tuple[Fault, ...] = ()
    reached: bool = True
    """Whether the interruption happened: a kill may come too late, a system call may not be repeated."""


@dataclass(frozen=True)
class Operation:
    """A command to interrupt, and the states before and after it."""

    name: str
    arguments: tuple[str, ...]
    states: tuple[Listing, ...]
    """Valid listings before the next run: those before and after the operation."""
    after: Listing
    """The required listing after the next `index`."""
    first_build: bool = False


class TrialKind(Protocol):
    """One kind of trial."""

    name: str

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """Names of up to `count` trials; the name determines the trial."""

    def trial(self, bench: Bench, key: str) -> TrialResult:
        """Run one trial."""


@dataclass
class Bench:
    """The test bench of one store, in a temporary directory."""

    name: str
    """As in the table."""
    subject: Subject
    root: Path
    commands: Commands
    fresh_builds: FreshBuilds
    files: Files
    listing: Listing
    durations: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each uninterrupted operation."""
    disk: object = None
    """The disk for power cuts, created when needed."""
    cleanups: list[Callable[[], None]] = field(default_factory=list)

    def add_cleanup(self, work: Callable[[], None]) -> None:
        """Register a cleanup for the end of the bench."""
        self.cleanups.append(work)

    @property
    def docs(self) -> Path:
        """The indexed folder."""
        return self.root / "docs"

    @property
    def kb(self) -> Path:
        """The knowledge base under test."""
        return self.root / "kb"

    @property
    def pristine(self) -> Path:
        """The initial knowledge base, never modified."""
        return self.root / "pristine"

    @property
    def kb_options(self) -> tuple[str, ...]:
        """The options for the knowledge base and its settings."""
        return ("--kb", "kb", "--config", "kb.yaml")

    def oracle(self) -> Oracle:
        """A new collector of faults."""
        return Oracle(self.commands, "kb", "kb.yaml", self.subject.index)

    def reset(self, kb: Path | None = None) -> None:
        """Restore the initial folder and knowledge base."""
        self.fresh_builds.write(self.files)
        if kb is None:
            shutil.rmtree(self.kb, ignore_errors=True)
        copy_tree(self.pristine, kb or self.kb)

    def operation(self, name: str, chance: random.Random) -> Operation:
        """Prepare the folder and the knowledge base for an operation."""
        if name == "remove":
            gone = chance.choice([name for name in sorted(self.files) if not name.startswith(("records.", DRAFT))])
            left = self.fresh_builds.listing({key: text for key, text in self.files.items() if key != gone})
            return Operation(name, ("remove", f"docs/{gone}"), (self.listing, left), self._restore_files())
        if name == "clear":
            return Operation(name, ("clear", "--yes"), (self.listing, ()), self._restore_files())
        if name == "repair":
            self._damage(chance)
            return Operation(name, ("verify", "--repair"), (self.listing,), self._restore_files())
        if name == "rebuild":
            return Operation(name, (*self.subject.index, "--rebuild"), (self.listing,), self.listing)
        after = self.subject.folder.change(self.files, random.Random(chance.randrange(VARIANTS)))
        listed = self.fresh_builds.listing(after)
        if name == "build":
            shutil.rmtree(self.kb)
            return Operation(name, self.subject.index, ((), listed), listed, first_build=True)
        return Operation("update", self.subject.index, (self.listing, listed), listed)

    def _restore_files(self) -> Listing:
        self.fresh_builds.write(self.files)
        return self.listing

    def _damage(self, chance: random.Random) -> None:
        path = chance.choice([self.kb / "index.sqlite", *self.kb.glob("vectors-*.f32")])
        flip(path, chance)

    def duration(self, operation: str) -> float:
        """Seconds of the uninterrupted operation; measured on the first call."""
        if operation not in self.durations:
            self.durations[operation] = []
            for number in range(2):
                self.reset()
                ready = self.operation(operation, random.Random(number))
                self.durations[operation].append(self.commands.run(*ready.arguments, *self.kb_options).seconds)
        return median(self.durations[operation][-9:])

    def start(self, operation: Operation, *, held: bool = False, interruptible: bool = False) -> RunningCommand:
        """Start the command to interrupt. `interruptible`: by Ctrl-C."""
        return self.commands.start(*operation.arguments, *self.kb_options, held=held, interruptible=interruptible)

    def check(self, operation: Operation, oracle: Oracle) -> None:
        """Check the invariants before and after the next run. After an interrupted repair, skip the former."""
        known: Listing | None = None
        if operation.name != "repair":
            known = oracle.check_state(operation.states, first_build=operation.first_build)
        oracle.check_next_run(operation.after, known=known)


@contextmanager
def open_bench(name: str, where: Path) -> Iterator[Bench]:
    """Create a bench: a folder, its initial knowledge base and settings. All are deleted at the end."""
    subject = SUBJECTS[name]
    preload(subject.store, subject.imports)
    root = Path(tempfile.mkdtemp(prefix="torture-", dir=where))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        (root / "scratch").mkdir()
        commands = Commands(root, root / "scratch")
        settings = HASHING + subject.settings
        files = subject.folder.first()
        fresh = FreshBuilds(commands, root / "docs", subject.folder, subject.index)
        if name == SOURCES:
            fresh.write(files)
            settings += _serve_sources(commands, root, stack)
        (root / "fresh.yaml").write_text(settings)
        (root / "kb.yaml").write_text(f"{settings}store: {{name: {subject.store}}}\n")
        bench = Bench(name, subject, root, commands, fresh, files, fresh.listing(files))
        time.sleep(2.1)  # files modified less than 2 s before indexing are read again by every run
        result = commands.run(*subject.index, "--kb", "pristine", "--config", "kb.yaml")
        if result.code != 0:
            raise RuntimeError(result.summary())
        stack.callback(lambda: [work() for work in bench.cleanups])
        yield bench


def _serve_sources(commands: Commands, root: Path, stack: ExitStack) -> str:
    """Start the servers of the sources; returns the settings with their addresses."""
    note = root / "ports"
    server = commands.call(lambda: sources.serve(root / "docs", note), ["serve"])
    stack.callback(server.wait)
    stack.callback(server.kill)
    commands.environment.update(sources.VARIABLES)
    return sources.settings(root, sources.wait_for_ports(note))


def copy_tree(source: Path, target: Path) -> None:
    """Copy a directory; holes in files stay holes."""
    target.mkdir(exist_ok=True, mode=0o700)
    for path in sorted(source.rglob("*")):
        there = target / path.relative_to(source)
        if path.is_dir():
            there.mkdir(exist_ok=True)
        else:
            _copy_file(path, there)


def _copy_file(source: Path, target: Path) -> None:
    with source.open("rb", buffering=0) as reading, target.open("wb", buffering=0) as writing:
        size, at = os.fstat(reading.fileno()).st_size, 0
        os.ftruncate(writing.fileno(), size)
        while at < size:
            try:
                start = os.lseek(reading.fileno(), at, os.SEEK_DATA)
            except OSError:  # only a hole is left
                break
            at = os.lseek(reading.fileno(), start, os.SEEK_HOLE)
            os.pwrite(writing.fileno(), os.pread(reading.fileno(), at - start, start), start)
    target.chmod(source.stat().st_mode & 0o777)


def flip(path: Path, chance: random.Random) -> None:
    """Flip one bit of a file."""
    with path.open("r+b") as stream:
        place = chance.randrange(path.stat().st_size)
        stream.seek(place)
        byte = stream.read(1)[0]
        stream.seek(place)
        stream.write(bytes([byte ^ 1 << chance.randrange(8)]))


def seeds(count: int, chance: random.Random) -> Iterator[str]:
    """Trial names that are seeds."""
    for _ in range(count):
        yield str(chance.randrange(10**8))


OPERATIONS = ("update", "update", "update", "update", "build", "build", "rebuild", "remove", "clear", "repair")
"""The interrupted operations, weighted by repetition."""


def pick_operation(bench: Bench, chance: random.Random) -> tuple[Operation, float]:
    """A prepared operation, and its duration in seconds."""
    name = chance.choice([name for name in OPERATIONS if name in bench.subject.operations])
    span = bench.duration(name)
    bench.reset()
    return bench.operation(name, chance), span

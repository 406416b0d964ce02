"""The workplace of one store: a folder, a knowledge base that every trial begins with, and the commands on them."""

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

from tests.torture.folder import Files, Fresh, Listed, changed, first_files, write_files
from tests.torture.forks import Commands, Running, preload
from tests.torture.oracle import Fault, Oracle

HASHING = "embed: {name: hashing, dimension: 64}\n"
"""An embedder that costs nothing: what is broken here does not depend on what vectors mean."""


VARIANTS = 12
"""Different changes of the folder, so that not every trial has to build a fresh index to compare with."""


@dataclass(frozen=True)
class Outcome:
    """Result of one trial."""

    faults: tuple[Fault, ...] = ()
    reached: bool = True
    """Whether the break happened: a kill may come too late, a system call may not come again."""


@dataclass(frozen=True)
class Operation:
    """A command to interrupt, and the states before and after it."""

    name: str
    arguments: tuple[str, ...]
    states: tuple[Listed, ...]
    """What may be listed before the next run: before and after."""
    after: Listed
    """What must be listed after the next `index`."""
    first_build: bool = False


class Kind(Protocol):
    """One kind of trial."""

    name: str

    def keys(self, bench: Bench, count: int, chance: random.Random) -> Iterator[str]:
        """Names of trials, at most `count`; the same name gives the same trial."""

    def trial(self, bench: Bench, key: str) -> Outcome:
        """One trial."""


@dataclass
class Bench:
    """The workplace of one store, in a directory of its own that goes when it is closed."""

    store: str
    root: Path
    commands: Commands
    fresh: Fresh
    files: Files
    listed: Listed
    spans: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each undisturbed operation."""
    disk: object = None
    """What power cuts lie on, once it is needed."""
    ends: list[Callable[[], None]] = field(default_factory=list)

    def at_end(self, work: Callable[[], None]) -> None:
        """Register a cleanup for the end of the workplace."""
        self.ends.append(work)

    @property
    def docs(self) -> Path:
        """The folder that is indexed."""
        return self.root / "docs"

    @property
    def kb(self) -> Path:
        """The knowledge base that is broken."""
        return self.root / "kb"

    @property
    def pristine(self) -> Path:
        """One of the first state of the folder, never touched."""
        return self.root / "pristine"

    @property
    def place(self) -> tuple[str, ...]:
        """The arguments that name the knowledge base and its settings."""
        return ("--kb", "kb", "--config", "kb.yaml")

    def oracle(self) -> Oracle:
        """A new collector of faults."""
        return Oracle(self.commands, "kb", "kb.yaml", "docs")

    def begin(self, kb: Path | None = None) -> None:
        """The folder and the knowledge base as every trial begins with them."""
        write_files(self.docs, self.files)
        if kb is None:
            shutil.rmtree(self.kb, ignore_errors=True)
        copy_tree(self.pristine, kb or self.kb)

    def operation(self, name: str, chance: random.Random) -> Operation:
        """Make the folder and the knowledge base ready for one."""
        if name == "remove":
            gone = chance.choice(sorted(self.files))
            left = self.fresh.listed({key: text for key, text in self.files.items() if key != gone})
            return Operation(name, ("rm", f"docs/{gone}"), (self.listed, left), self._back())
        if name == "clear":
            return Operation(name, ("clear", "--yes"), (self.listed, ()), self._back())
        if name == "repair":
            self._damage(chance)
            return Operation(name, ("verify", "--repair"), (self.listed,), self._back())
        if name == "rebuild":
            return Operation(name, ("index", "docs", "--rebuild", "-q"), (self.listed,), self.listed)
        after = changed(self.files, random.Random(chance.randrange(VARIANTS)))
        listed = self.fresh.listed(after)
        if name == "build":
            shutil.rmtree(self.kb)
            return Operation(name, ("index", "docs", "-q"), ((), listed), listed, first_build=True)
        return Operation("update", ("index", "docs", "-q"), (self.listed, listed), listed)

    def _back(self) -> Listed:
        write_files(self.docs, self.files)
        return self.listed

    def _damage(self, chance: random.Random) -> None:
        path = chance.choice([self.kb / "index.sqlite", *self.kb.glob("vectors-*.f32")])
        flip(path, chance)

    def span(self, operation: str) -> float:
        """Seconds that it takes undisturbed; measured when it is first asked for."""
        if operation not in self.spans:
            self.spans[operation] = []
            for number in range(2):
                self.begin()
                ready = self.operation(operation, random.Random(number))
                self.spans[operation].append(self.commands.run(*ready.arguments, *self.place).seconds)
        return median(self.spans[operation][-9:])

    def start(self, operation: Operation, *, held: bool = False) -> Running:
        """Start the command that is to be broken."""
        return self.commands.start(*operation.arguments, *self.place, held=held)

    def judge(self, operation: Operation, oracle: Oracle) -> None:
        """Before the next run, and after it. A knowledge base under repair may be an error until it is repaired."""
        if operation.name != "repair":
            oracle.whole(operation.states, first_build=operation.first_build)
        oracle.mended(operation.after)


@contextmanager
def open_bench(store: str, where: Path) -> Iterator[Bench]:
    """Make the workplace: a folder, a pristine knowledge base of it, settings; all gone at the end."""
    preload(store)
    root = Path(tempfile.mkdtemp(prefix=f"torture-{store}-", dir=where))
    try:
        scratch = root / "scratch"
        scratch.mkdir()
        commands = Commands(root, scratch)
        (root / "fresh.yaml").write_text(HASHING)
        (root / "kb.yaml").write_text(f"{HASHING}store: {{name: {store}}}\n")
        fresh = Fresh(commands, root / "docs")
        files = first_files()
        bench = Bench(store, root, commands, fresh, files, fresh.listed(files))
        time.sleep(2.1)  # files that are younger than that when they are indexed are read again by every run
        said = commands.run("index", "docs", "--kb", "pristine", "--config", "kb.yaml", "-q")
        if said.code != 0:
            raise RuntimeError(said.short())
        with ExitStack() as stack:
            stack.callback(lambda: [work() for work in bench.ends])
            yield bench
    finally:
        shutil.rmtree(root, ignore_errors=True)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a directory with what is in its files and not with what is not: holes stay holes."""
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
            except OSError:  # nothing but a hole is left
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


def pick(bench: Bench, chance: random.Random) -> tuple[Operation, float]:
    """An operation that is ready to begin, and how long it takes."""
    name = chance.choice(OPERATIONS)
    span = bench.span(name)
    bench.begin()
    return bench.operation(name, chance), span

"""Kill other systems while they index, and replace their embedder by another one: `peer_stores.py` has their programs.

    python -m benchmarks.peer_reliability --others PYTHON [--only NAME ...] [--kills N] [--minutes N] [--write]

Kills: a store holds 120 files; 30 of them change, 20 go and 30 come. A process that brings the store up to date is
killed with SIGKILL at a random moment: it was forked from one that had imported the packages, so that work is hit and
not imports. Counted are kills that came before its end. Then the store is read: does it open, and does it list the
texts of the state before, of the state after, or a mixture? Then the program runs again, as it would the next night,
and the store is compared with a fresh one: lost, doubled and left-over texts, and texts that a search for themselves
does not bring back although they are listed.

Embedder: a store of 200 texts, then another embedder of the same dimension. 200 questions, each forty words of a text,
in two ways: the store is opened and asked; or the program runs again first, over the same files. Counted are the
questions whose first hit is right, and whether an error came.

The embedder hashes words, so that a trial takes a second. `--write` puts the figures into `docs/comparison.json` and
writes the tables of the page. `--others` is the Python with the other packages (`peers.py` lists them).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peer_stores import PROGRAMS, StoreProgram

ROOT = Path(__file__).resolve().parent.parent
FAULTS = ("unreadable", "mixture", "failed", "lost", "doubled", "left", "unfound")
"""Before the next run: cannot be opened and read, half of an update is seen. After it: the run failed; texts that are
missing, listed twice, of files that are gone or older, or not found by a search."""
TIMEOUT_S = 120.0
WORDS = [
    f"{first}{second}" for first in "bcdfghklmnprst" for second in ("aral", "enor", "ilum", "ostan", "urin", "elto")
]
Result = dict[str, Any]


def text_of(name: str, edition: int) -> str:
    """The text of a file in one edition: one chunk in every system."""
    chance = random.Random(f"{name}/{edition}")
    return f"{name} edition {edition} " + " ".join(chance.choices(WORDS, k=60))


def files(*, after: bool) -> dict[str, str]:
    """Name -> text, before or after the changes."""
    editions = {f"file{number:03}.txt": 0 for number in range(120)}
    if after:
        editions = {name: int(number < 30) for number, name in enumerate(editions) if number < 100}
        editions |= {f"new{number:03}.txt": 0 for number in range(30)}
    return {name: text_of(name, edition) for name, edition in editions.items()}


def write_files(folder: Path, texts: dict[str, str]) -> None:
    """Make the folder hold these files; those that stay are not touched."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        if not (folder / name).exists() or (folder / name).read_text("utf-8") != text:
            (folder / name).write_text(text, "utf-8")


class Fork:
    """A function in a forked process; its result comes through a file."""

    def __init__(self, function: Callable[[], Any], work: Path) -> None:
        self._result = work / "result.json"
        self._result.unlink(missing_ok=True)
        self.pid = os.fork()
        if self.pid == 0:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            try:
                text = json.dumps({"value": function()})
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is counted
                text = json.dumps({"error": f"{type(error).__name__}: {error}"[:300]})
            self._result.write_text(text)
            os._exit(0)

    def ends_within(self, seconds: float) -> bool:
        """Wait; whether the process has ended."""
        until = time.monotonic() + seconds
        while True:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(0.002)

    def kill(self) -> None:
        """SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def result(self) -> Result:
        """{"value": ...} or {"error": ...}."""
        if not self.ends_within(TIMEOUT_S):
            self.kill()
            return {"error": f"no end within {TIMEOUT_S:.0f} s"}
        if not self._result.exists():
            return {"error": "the process crashed"}
        result: Result = json.loads(self._result.read_text())
        return result


class Trials:
    """The trials of one program."""

    def __init__(self, program: StoreProgram, work: Path) -> None:
        self._program, self._work = program.program, work
        self._folder = work / "folder"
        self._old, self._new = Counter(files(after=False).values()), Counter(files(after=True).values())
        self._base = self._fresh("base")
        write_files(self._folder, files(after=False))
        self._value(lambda: self._program.sync(self._folder, self._base, 0))
        write_files(self._folder, files(after=True))

    def _fresh(self, name: str) -> Path:
        path = self._work / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        return path

    def _copy(self) -> Path:
        path = self._work / "store"
        shutil.rmtree(path, ignore_errors=True)
        return Path(shutil.copytree(self._base, path))

    def _run(self, function: Callable[[], Any]) -> Result:
        result = Fork(function, self._work).result()
        if "error" in result:
            result["error"] = result["error"].replace(f"{self._work}/", "")
        return result

    def _value(self, function: Callable[[], Any]) -> Any:
        result = self._run(function)
        if "error" in result:
            raise SystemExit(f"an undisturbed run failed: {result['error']}")
        return result["value"]

    def duration(self) -> float:
        """Seconds of an undisturbed update, which must end in the state after; the median of three."""
        seconds = []
        for _ in range(3):
            store = self._copy()
            started = time.monotonic()
            self._value(lambda store=store: self._program.sync(self._folder, store, 0))
            seconds.append(time.monotonic() - started)
            listed = Counter(self._texts(self._value(lambda store=store: self._program.texts(store, 0))))
            if listed != self._new:
                raise SystemExit(
                    f"an undisturbed update ends with other texts: {listed - self._new}, {self._new - listed}"
                )
        return statistics.median(seconds)

    def kill(self, seconds: float) -> tuple[set[str], list[str]] | None:
        """(the faults, the errors) after a kill at this moment; None if the process ended before."""
        store = self._copy()
        fork = Fork(lambda: self._program.sync(self._folder, store, 0), self._work)
        if fork.ends_within(seconds):
            return None
        fork.kill()
        faults, errors = set(), []
        seen = self._run(lambda: self._program.texts(store, 0))
        if "error" in seen:
            faults.add("unreadable")
            errors.append(seen["error"])
        elif Counter(self._texts(seen["value"])) not in (self._old, self._new):
            faults.add("mixture")
        again = self._run(lambda: self._program.sync(self._folder, store, 0))
        if "error" in again:
            return faults | {"failed"}, [*errors, again["error"]]
        return faults | self._compared(store), errors

    def _compared(self, store: Path) -> set[str]:
        result = self._run(lambda: self._program.texts(store, 0))
        if "error" in result:
            return {"failed"}
        listed = Counter(self._texts(result["value"]))
        faults = {"lost"} if self._new - listed else set()
        if any(count > 1 for count in listed.values()):
            faults.add("doubled")
        if set(listed) - set(self._new):
            faults.add("left")
        present = [text for text in self._new if text in listed]
        found = self._run(lambda: self._program.search(store, present, 0))
        if "error" in found or self._texts(found["value"]) != present:
            faults.add("unfound")
        return faults

    @staticmethod
    def _texts(texts: list[str]) -> list[str]:
        return [text.strip() for text in texts]

    def swap(self) -> Result:
        """Right first hits of 200 questions with the embedder of the store, then with another one in two ways."""
        folder = self._fresh("questions")
        texts = [text_of(f"topic{number:03}.txt", 0) for number in range(200)]
        for number, text in enumerate(texts):
            (folder / f"{number:03}.txt").write_text(text, "utf-8")
        store = self._fresh("swapped")
        self._value(lambda: self._program.sync(folder, store, 0))
        asked = self._asked(store, texts, 0)
        opened = self._asked(store, texts, 1)
        synced = self._run(lambda: self._program.sync(folder, store, 1))
        again = synced if "error" in synced else self._asked(store, texts, 1)
        return {"same embedder": asked, "opened": opened, "indexed again": again}

    def _asked(self, store: Path, texts: list[str], seed: int) -> Result:
        questions = [" ".join(text.split()[5:45]) for text in texts]
        result = self._run(lambda: self._program.search(store, questions, seed))
        if "error" in result:
            return result
        return {"right": sum(hit == text for hit, text in zip(self._texts(result["value"]), texts, strict=True))}


def run_program(name: str, kills: int, seed: int, minutes: float) -> Result:
    """All trials of a program in this process, which only forks."""
    from benchmarks.peer_systems import version

    program = PROGRAMS[name]
    program.import_modules()
    if name == "ragkit":
        import ragkit

        number = ragkit.__version__
    else:
        number = version(program.distribution)
    chance = random.Random(f"{name}/{seed}")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as work:
        trials = Trials(program, Path(work))
        seconds = trials.duration()
        faults: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        longest, counted, until = seconds, 0, time.monotonic() + 60 * minutes
        while counted < kills and time.monotonic() < until:
            outcome = trials.kill(longest * chance.random())
            if outcome is None:
                longest *= 0.95  # the machine is less busy than when the update was timed
                continue
            counted += 1
            faults.update(outcome[0])
            errors.update(outcome[1])
        return {
            "version": number,
            "seconds": round(seconds, 2),
            "kills": counted,
            **{fault: faults[fault] for fault in FAULTS},
            "errors": dict(errors.most_common(5)),
            "swap": trials.swap(),
        }


def main() -> None:
    """Run the programs, one after another, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--others", default=sys.executable, help="the Python with the other packages")
    parser.add_argument("--only", nargs="+", choices=list(PROGRAMS))
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10, help="of kills at most, for each system")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/comparison.json and the page")
    parser.add_argument("--run", choices=list(PROGRAMS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run_program(options.run, options.kills, options.seed, options.minutes)))
        return
    from benchmarks import comparison

    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    # txtai asks for the last one before it calls a function by name
    switches = {"HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False", "ALLOW_RESOLVE_TRANSFORM": "True"}
    environment = {**os.environ, **threads, **switches}
    for name in options.only or PROGRAMS:
        python = sys.executable if name == "ragkit" else options.others
        command = [python, "-m", "benchmarks.peer_reliability", "--run", name]
        command += ["--kills", str(options.kills), "--seed", str(options.seed), "--minutes", str(options.minutes)]
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name} failed")
        result = json.loads(done.stdout.splitlines()[-1])
        print(name, json.dumps(result, indent=1), flush=True)
        if options.write:
            comparison.add("reliability", name, result)


if __name__ == "__main__":
    main()

"""Soak test: index runs over a changing folder, with concurrent searches, answers and a server under load.

    python benchmarks/soak.py --minutes 60 --out soak
    python benchmarks/soak.py --minutes 2 --every 10 --sample-every 2 --out soak

Each round changes, adds, deletes and renames some documents of a folder (seeded), runs `ragkit index` in a separate
process, and then checks a library process with an open knowledge base and `ragkit serve`: both must find the new words
in the right file and must never find deleted words again. Threads query both all the time, with pauses: searches,
extractive answers, streamed chats in sessions, streamed completions, some of which they abort, and uploads: a job
indexes each file, it must be found, a job removes it, and it must be gone. Every paragraph of a
changing document names its edition, so each answer shows its sources. `ragkit verify` runs every 15 minutes, and at
the end the chunks are compared with those of a fresh build.

Sampled every 10 s: resident memory, PSS, open files and threads of both long-lived processes; size on disk of the
index and of the records (the ledger, sessions and traces, whose number and age are limited), and the number of files.
Recorded per index run: its time and peak memory (getrusage). After a warm-up a line is fitted to each series
(Theil-Sen) and compared with its bound. `--out` receives soak.json and soak.png. The exit code is 1 if a bound is not
met, or if there was an error or a wrong answer.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from soak_clients import ROOT, Asked, Clients, Library, Seen, library
from soak_figures import WARM_UP_SECONDS, as_json, draw, table, verdict
from soak_folder import Folder, Step

MB = 1_000_000
RECORDS = {"ledger.sqlite": "ledger_mb", "server.": "server_mb"}
"""Files with records of queries; everything else in a knowledge base is its index."""
VERIFY_SECONDS = 900.0
FIND_TIMEOUT_SECONDS = 30.0
"""A reader must find new words within this time."""
LOCK_TIMEOUT_SECONDS = 120.0
"""A job must let an index run have the lock within this time."""
OLD_MARKS = 2
"""Number of words deleted in earlier rounds that each round searches again."""
COMMAND = (sys.executable, "-m", "ragkit")


class Soak:
    """One soak run, from the folder to the result."""

    def __init__(self, directory: Path, arguments: argparse.Namespace) -> None:
        self.kb = directory / "kb"
        self.folder = Folder(directory / "folder", ROOT / "data" / "sample", arguments.notes, arguments.seed)
        self.seconds = arguments.minutes * 60
        self.seen = Seen()
        self.samples: list[dict[str, float]] = []
        self.rounds: list[dict[str, float]] = []
        self.verified = 0
        self.locked = 0
        """How often an index run was told that a job holds the lock."""
        self._arguments = arguments
        self._directory = directory
        self._rng = random.Random(f"rounds-{arguments.seed}")
        self._gone: dict[str, float] = {}
        """Mark -> the time when the index run that removed it ended."""
        self._started_at = time.monotonic()
        self._stopped = threading.Event()

    def run(self) -> dict[str, Any]:
        """Run the soak test and return its result."""
        settings = ["--set", f"embed.name={self._arguments.embed}"]
        subprocess.run([*COMMAND, "index", str(self.folder.root), "--kb", str(self.kb), "-q", *settings], check=True)
        self.library = Library(self.kb, self._arguments.seed)
        serve = [*COMMAND, "serve", "--kb", str(self.kb), "--port", "0", "--json", "-q", "--rate", "100000"]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as self.server:
            assert self.server.stdout is not None
            port = int(json.loads(self.server.stdout.readline())["url"].rpartition(":")[2])
            self.clients = Clients(port, self._arguments.seed)
            self.clients.begin()
            self._started_at = time.monotonic()
            sampler = threading.Thread(target=self._keep_sampling, daemon=True)
            sampler.start()
            try:
                self._work()
            finally:
                self._stop(sampler)
        return self._result()

    # rounds

    def _work(self) -> None:
        verify_at = VERIFY_SECONDS
        while (started_at := self._now()) < self.seconds:
            self._round()
            if self._now() >= verify_at:
                self._verify()
                verify_at += VERIFY_SECONDS
            time.sleep(max(0.0, min(self._arguments.every - (self._now() - started_at), self.seconds - self._now())))

    def _round(self) -> None:
        """Change the folder, index it, and check that every reader sees the changes."""
        step = self.folder.step()
        started_at = self._now()
        output, code, peak_mb = self._index_when_unlocked()
        ended = self._now()
        if code != 0:
            self.seen.errors.append(f"index exited with {code}: {output[-300:]}")
            return
        report = json.loads(output)
        counts = {key: report["files"][key] for key in step.expected}
        if counts != step.expected:
            self.seen.wrong.append(f"an index run counted {counts}, expected {step.expected}")
        # from now on no answer may contain the deleted marks
        self._gone |= dict.fromkeys(step.gone, time.monotonic())
        seconds = self._check_new(step)
        self._check_gone(step)
        seconds_run = round(ended - started_at, 3)
        self.rounds.append({"at": started_at, "ended": ended, "seconds": seconds_run, "peak_mb": peak_mb,
                            "embedded": report["embedded"], "found_s": round(seconds, 3)})  # fmt: skip
        self._check_seen(self.library.drain())
        self._check_seen(self.clients.seen.drain())

    def _index_when_unlocked(self) -> tuple[str, int, float]:
        """Index the folder; while a job of the server holds the lock, try again."""
        deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
        while True:
            done = self._child([*COMMAND, "index", str(self.folder.root), "--kb", str(self.kb), "--json", "-q"])
            if done[1] == 0 or "is locked by" not in done[0] or time.monotonic() > deadline:
                return done
            self.locked += 1
            time.sleep(0.2)

    def _child(self, command: list[str]) -> tuple[str, int, float]:
        """Run a process; return its output, exit code and peak memory in MB."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stderr is not None
        with process.stdout as out, process.stderr as err:
            output = out.read()
            errors = err.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return (
            output if process.returncode == 0 else output + errors,
            process.returncode,
            round(used.ru_maxrss * 1024 / MB, 1),
        )

    def _check_new(self, step: Step) -> float:
        """Search the library and the server for each new word; return the seconds this took."""
        started_at = time.monotonic()
        for who, find in (("library", self.library.find), ("server", self.clients.find)):
            for mark, path in step.new.items():
                while not any(source == str(path) and mark in text for source, text in find(mark)):
                    if time.monotonic() - started_at > FIND_TIMEOUT_SECONDS:
                        self.seen.wrong.append(f"the {who} does not find {mark} in {path}")
                        break
                    time.sleep(0.05)
        return time.monotonic() - started_at

    def _check_gone(self, step: Step) -> None:
        """Search for words that were deleted in this round and in earlier ones."""
        old = self._rng.sample(sorted(self._gone), min(OLD_MARKS, len(self._gone)))
        for who, find in (("library", self.library.find), ("server", self.clients.find)):
            for mark in [*step.gone, *old]:
                self.seen.wrong += [
                    f"the {who} found {mark} in {source}" for source, text in find(mark) if mark in text
                ]

    def _check_seen(self, seen: Seen) -> None:
        """Check answers against the state of the folder at the time of the question."""
        self.seen.errors += seen.errors
        self.seen.wrong += seen.wrong
        self.seen.asked += seen.asked
        for asked in seen.asked:
            stale = [mark for mark in asked.marks if self._gone.get(mark, asked.started_at) < asked.started_at]
            if stale:
                seconds = asked.started_at - self._gone[stale[0]]
                self.seen.wrong.append(f"a {asked.who} returned {stale[0]} {seconds:.2f} s after its removal")
            if asked.unverified and not self._during_index_run(asked):
                self.seen.wrong.append(
                    f"a {asked.who} has {asked.unverified} citations that are not in the indexed text"
                )

    def _during_index_run(self, asked: Asked) -> bool:
        """Whether an index run overlaps the time of a question."""
        first, last = asked.started_at - self._started_at, asked.started_at - self._started_at + asked.ms / 1000
        return any(round_["at"] <= last and first <= round_["ended"] for round_ in self.rounds[-3:])

    def _verify(self) -> None:
        output, code, _ = self._child([*COMMAND, "verify", "--kb", str(self.kb)])
        self.verified += 1
        if code != 0:
            self.seen.errors.append(f"verify ended with {code}: {output[-300:]}")

    # samples

    def _now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started_at

    def _keep_sampling(self) -> None:
        processes = {"library": psutil.Process(self.library.process.pid), "server": psutil.Process(self.server.pid)}
        while not self._stopped.wait(self._arguments.sample_every):
            try:
                self.samples.append(self._sample(processes))
            except (psutil.Error, OSError) as error:
                self.seen.errors.append(f"cannot sample a process: {error}")

    def _sample(self, processes: dict[str, psutil.Process]) -> dict[str, float]:
        sample: dict[str, float] = {"at": round(self._now(), 2), "load": round(os.getloadavg()[0], 2)}
        for who, process in processes.items():
            memory = process.memory_full_info()
            sample[f"{who}_rss_mb"] = round(memory.rss / MB, 2)
            sample[f"{who}_pss_mb"] = round(memory.pss / MB, 2)
            sample[f"{who}_fds"] = process.num_fds()
            sample[f"{who}_threads"] = process.num_threads()
            sample[f"{who}_cpu_s"] = round(sum(process.cpu_times()[:2]), 2)
        return sample | size_of(self.kb)

    # shutdown

    def _stop(self, sampler: threading.Thread) -> None:
        """Stop all processes and check their exit codes."""
        self.clients.stop()
        self._check_seen(self.clients.seen.drain())
        self._check_seen(self.library.drain())
        if self.clients.running():
            self.seen.errors.append(f"{self.clients.running()} answers never ended in the server")
        self._stopped.set()
        sampler.join(60)
        self.server.send_signal(signal.SIGTERM)
        for who, code in (("library", self.library.stop()), ("server", self.server.wait(60))):
            if code != 0:
                self.seen.errors.append(f"the {who} ended with {code}")

    def _fresh(self) -> dict[str, float]:
        """Build the folder from scratch, compare the chunks, and return the size of the fresh index."""
        fresh = self._directory / "fresh"
        settings = ["--set", f"embed.name={self._arguments.embed}"]
        output, code, _ = self._child([*COMMAND, "index", str(self.folder.root), "--kb", str(fresh), "-q", *settings])
        if code != 0:
            self.seen.errors.append(f"the fresh build ended with {code}: {output[-300:]}")
        chunk_lists = [
            self._child([*COMMAND, "list", "--chunks", "--json", "--kb", str(kb)])[0] for kb in (self.kb, fresh)
        ]
        if sorted(chunk_lists[0].splitlines()) != sorted(chunk_lists[1].splitlines()):
            self.seen.wrong.append("the chunks differ from those of a fresh build")
        return {**size_of(fresh), "chunks": len(chunk_lists[1].splitlines())}

    def _result(self) -> dict[str, Any]:
        self._verify()
        arguments, asked = self._arguments, Counter(question.who for question in self.seen.asked)
        result: dict[str, Any] = {
            "minutes": minutes(self.seen.asked, self._started_at), "seconds": round(self.seconds, 1),
            "warm_up_s": min(WARM_UP_SECONDS, self.seconds / 4),
            "settings": {"seed": arguments.seed, "every": arguments.every, "notes": arguments.notes,
                         "embed": arguments.embed, "sample_every": arguments.sample_every},
            "asked": dict(asked), "left_in_mid_answer": self.clients.left, "sessions": self.clients.sessions,
            "jobs": self.clients.jobs, "locked": self.locked,
            "editions_gone": len(self._gone), "verified": self.verified, "fresh": self._fresh(),
            "errors": self.seen.errors, "wrong": self.seen.wrong, "rounds": self.rounds, "samples": self.samples,
            "versions": {"python": platform.python_version(),
                         **{name: version(name) for name in ("fastapi", "uvicorn", "numpy", "onnxruntime")}},
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        }  # fmt: skip
        return {**result, "verdict": as_json(verdict(result))}


def size_of(kb: Path) -> dict[str, float]:
    """Size of a knowledge base: MB of its index and of its records, and its number of files."""
    sizes = Counter(index_mb=0, ledger_mb=0, server_mb=0)
    files = 0
    for path in kb.rglob("*"):
        try:
            size = path.stat().st_size if path.is_file() else None
        except FileNotFoundError:
            continue
        if size is not None:
            name = path.relative_to(kb).parts[0]
            sizes[next((part for start, part in RECORDS.items() if name.startswith(start)), "index_mb")] += size
            files += 1
    megabytes = {part: size / MB for part, size in sizes.items()}
    return {**megabytes, "records_mb": megabytes["ledger_mb"] + megabytes["server_mb"], "kb_files": files}


def minutes(questions: list[Asked], started_at: float) -> list[dict[str, float]]:
    """For each minute: `at`, its middle in seconds, and the median milliseconds of each kind of question."""
    times: dict[int, dict[str, list[float]]] = {}
    for question in questions:
        minute = int((question.started_at - started_at) // 60)
        times.setdefault(minute, {}).setdefault(question.who, []).append(question.ms)
    return [
        {"at": number * 60 + 30, **{who: round(float(np.median(ms)), 2) for who, ms in sorted(kinds.items())}}
        for number, kinds in sorted(times.items())
    ]


def main() -> int:
    """Run the soak test; return 1 if a bound is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=20.0, help="Seconds from one index run to the next.")
    parser.add_argument("--sample-every", type=float, default=10.0, help="Seconds from one sample to the next.")
    parser.add_argument("--notes", type=int, default=60, help="Documents that may change.")
    parser.add_argument("--embed", default="minilm", help="The embedder: minilm (the shipped one) or hashing.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("soak"), help="A folder for soak.json and soak.png.")
    parser.add_argument("--json", action="store_true", help="The verdict as JSON instead of a table.")
    parser.add_argument("--library", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.library:
        library(arguments.library, str(arguments.seed))
        return 0
    with tempfile.TemporaryDirectory() as directory:
        result = Soak(Path(directory), arguments).run()
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "soak.json").write_text(json.dumps(result) + "\n", "utf-8")
    draw(result, arguments.out / "soak.png")
    findings = verdict(result)
    print(json.dumps([asdict(finding) for finding in findings]) if arguments.json else table(findings))
    for line in [*result["errors"][:5], *result["wrong"][:5]]:
        print(line, file=sys.stderr)
    return int(any(finding.held is False for finding in findings))


if __name__ == "__main__":
    sys.exit(main())

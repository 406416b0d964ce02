"""Work for an hour: index runs over a changing folder, beside them searches, answers and a server under load.

    python benchmarks/soak.py --minutes 60 --out soak
    python benchmarks/soak.py --minutes 2 --every 10 --sample-every 2 --out soak

Each round changes, adds, deletes and renames some documents of a folder (seeded), runs `ragkit index` as a process of
its own, and then holds a library process that keeps the knowledge base open, and `ragkit serve`, to it: the new words
must be found in the right file, the words that are gone must never be found again. Both are asked all the time by
threads with pauses: searches, extractive answers, streamed chats in sessions, streamed completions, some of which are
left in mid-answer. Every paragraph of a changing document names its edition, so that each answer shows what it was made
of. Each quarter of an hour `ragkit verify` runs, and at the end the chunks are held against those of a fresh build.

Every 10 s are sampled, of both long-lived processes: resident memory, PSS, open files and threads; of the knowledge
base: its size on disk, that of the index and that of the records (the ledger, sessions and traces, which are kept by
number and age) apart, and the number of its files. Of each index run: its time, and its peak memory as the system
counts it (getrusage). After a warm-up a line is fitted to each series (Theil-Sen) and held to its bound. `--out` gets
soak.json and soak.png. The exit code is 1 when a bound was not held, or anything failed or was answered wrongly.
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
"""What is kept of what was asked; everything else in a knowledge base is its index."""
VERIFY_SECONDS = 900.0
GIVE_UP_SECONDS = 30.0
"""A reader that has not found new words by then never will."""
OLD_MARKS = 2
"""Of the words that went in earlier rounds, so many are asked for again in each."""
COMMAND = (sys.executable, "-m", "ragkit")


class Soak:
    """One run, from the folder to the result."""

    def __init__(self, place: Path, arguments: argparse.Namespace) -> None:
        self.kb = place / "kb"
        self.folder = Folder(place / "folder", ROOT / "data" / "sample", arguments.notes, arguments.seed)
        self.seconds = arguments.minutes * 60
        self.seen = Seen()
        self.samples: list[dict[str, float]] = []
        self.rounds: list[dict[str, float]] = []
        self.verified = 0
        self._arguments = arguments
        self._place = place
        self._chance = random.Random(f"rounds-{arguments.seed}")
        self._gone: dict[str, float] = {}
        """Mark -> when the index run ended that took it out."""
        self._began = time.monotonic()
        self._over = threading.Event()

    def run(self) -> dict[str, Any]:
        """All of it."""
        settings = ["--set", f"embed.name={self._arguments.embed}"]
        subprocess.run([*COMMAND, "index", str(self.folder.root), "--kb", str(self.kb), "-q", *settings], check=True)
        self.library = Library(self.kb, self._arguments.seed)
        serve = [*COMMAND, "serve", "--kb", str(self.kb), "--port", "0", "--json", "-q", "--rate", "100000"]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as self.server:
            assert self.server.stdout is not None
            port = int(json.loads(self.server.stdout.readline())["url"].rpartition(":")[2])
            self.clients = Clients(port, self._arguments.seed)
            self.clients.begin()
            self._began = time.monotonic()
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
        while (began := self._now()) < self.seconds:
            self._round()
            if self._now() >= verify_at:
                self._verify()
                verify_at += VERIFY_SECONDS
            time.sleep(max(0.0, min(self._arguments.every - (self._now() - began), self.seconds - self._now())))

    def _round(self) -> None:
        """Change the folder, index it, and see that everyone has noticed."""
        step = self.folder.step()
        began = self._now()
        said, code, peak_mb = self._child(
            [*COMMAND, "index", str(self.folder.root), "--kb", str(self.kb), "--json", "-q"]
        )
        ended = self._now()
        if code != 0:
            self.seen.errors.append(f"index ended with {code}: {said[-300:]}")
            return
        report = json.loads(said)
        counts = {key: report["files"][key] for key in step.expected}
        if counts != step.expected:
            self.seen.wrong.append(f"an index run counted {counts}, wanted {step.expected}")
        # from now on nobody may give an answer of what is gone
        self._gone |= dict.fromkeys(step.gone, time.monotonic())
        found = self._check_new(step)
        self._check_gone(step)
        self.rounds.append({"at": began, "ended": ended, "seconds": round(ended - began, 3), "peak_mb": peak_mb,
                            "embedded": report["embedded"], "found_s": round(found, 3)})  # fmt: skip
        self._take_in(self.library.drain())
        self._take_in(self.clients.seen.drain())

    def _child(self, command: list[str]) -> tuple[str, int, float]:
        """What a process said, its exit code, and its peak memory in MB."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stderr is not None
        with process.stdout as out, process.stderr as err:
            said = out.read()
            told = err.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return (
            said if process.returncode == 0 else said + told,
            process.returncode,
            round(used.ru_maxrss * 1024 / MB, 1),
        )

    def _check_new(self, step: Step) -> float:
        """Ask the library and the server for each new word; returns after how many seconds the last was found."""
        began = time.monotonic()
        for who, find in (("library", self.library.find), ("server", self.clients.find)):
            for mark, path in step.new.items():
                while not any(source == str(path) and mark in text for source, text in find(mark)):
                    if time.monotonic() - began > GIVE_UP_SECONDS:
                        self.seen.wrong.append(f"the {who} does not find {mark} in {path}")
                        break
                    time.sleep(0.05)
        return time.monotonic() - began

    def _check_gone(self, step: Step) -> None:
        """Ask for words that are gone, now and long ago."""
        old = self._chance.sample(sorted(self._gone), min(OLD_MARKS, len(self._gone)))
        for who, find in (("library", self.library.find), ("server", self.clients.find)):
            for mark in [*step.gone, *old]:
                self.seen.wrong += [
                    f"the {who} found {mark} in {source}" for source, text in find(mark) if mark in text
                ]

    def _take_in(self, seen: Seen) -> None:
        """Hold what others asked to what was there when they did."""
        self.seen.errors += seen.errors
        self.seen.wrong += seen.wrong
        self.seen.asked += seen.asked
        for one in seen.asked:
            stale = [mark for mark in one.marks if self._gone.get(mark, one.began) < one.began]
            if stale:
                self.seen.wrong.append(f"a {one.who} gave {stale[0]} {one.began - self._gone[stale[0]]:.2f} s too late")
            if one.unverified and not self._beside_a_run(one):
                self.seen.wrong.append(f"a {one.who} has {one.unverified} citations that are not in the indexed text")

    def _beside_a_run(self, asked: Asked) -> bool:
        """Whether an index run was under way while an answer was made."""
        first, last = asked.began - self._began, asked.began - self._began + asked.ms / 1000
        return any(one["at"] <= last and first <= one["ended"] for one in self.rounds[-3:])

    def _verify(self) -> None:
        said, code, _ = self._child([*COMMAND, "verify", "--kb", str(self.kb)])
        self.verified += 1
        if code != 0:
            self.seen.errors.append(f"verify ended with {code}: {said[-300:]}")

    # samples

    def _now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def _keep_sampling(self) -> None:
        processes = {"library": psutil.Process(self.library.process.pid), "server": psutil.Process(self.server.pid)}
        while not self._over.wait(self._arguments.sample_every):
            try:
                self.samples.append(self._sample(processes))
            except (psutil.Error, OSError) as error:
                self.seen.errors.append(f"a process cannot be looked at: {error}")

    def _sample(self, processes: dict[str, psutil.Process]) -> dict[str, float]:
        found: dict[str, float] = {"at": round(self._now(), 2), "load": round(os.getloadavg()[0], 2)}
        for who, process in processes.items():
            memory = process.memory_full_info()
            found[f"{who}_rss_mb"] = round(memory.rss / MB, 2)
            found[f"{who}_pss_mb"] = round(memory.pss / MB, 2)
            found[f"{who}_fds"] = process.num_fds()
            found[f"{who}_threads"] = process.num_threads()
            found[f"{who}_cpu_s"] = round(sum(process.cpu_times()[:2]), 2)
        return found | size_of(self.kb)

    # the end

    def _stop(self, sampler: threading.Thread) -> None:
        """Let all of them end, and see that they do so well."""
        self.clients.stop()
        self._take_in(self.clients.seen.drain())
        self._take_in(self.library.drain())
        if self.clients.running():
            self.seen.errors.append(f"{self.clients.running()} answers never ended in the server")
        self._over.set()
        sampler.join(60)
        self.server.send_signal(signal.SIGTERM)
        for who, code in (("library", self.library.stop()), ("server", self.server.wait(60))):
            if code != 0:
                self.seen.errors.append(f"the {who} ended with {code}")

    def _fresh(self) -> dict[str, float]:
        """The size of a fresh build of the folder; its chunks must be those of the knowledge base."""
        fresh = self._place / "fresh"
        settings = ["--set", f"embed.name={self._arguments.embed}"]
        said, code, _ = self._child([*COMMAND, "index", str(self.folder.root), "--kb", str(fresh), "-q", *settings])
        if code != 0:
            self.seen.errors.append(f"the fresh build ended with {code}: {said[-300:]}")
        lists = [self._child([*COMMAND, "list", "--chunks", "--json", "--kb", str(kb)])[0] for kb in (self.kb, fresh)]
        if sorted(lists[0].splitlines()) != sorted(lists[1].splitlines()):
            self.seen.wrong.append("the chunks are not those of a fresh build")
        return {**size_of(fresh), "chunks": len(lists[1].splitlines())}

    def _result(self) -> dict[str, Any]:
        self._verify()
        arguments, asked = self._arguments, Counter(one.who for one in self.seen.asked)
        result: dict[str, Any] = {
            "minutes": minutes(self.seen.asked, self._began), "seconds": round(self.seconds, 1),
            "warm_up_s": min(WARM_UP_SECONDS, self.seconds / 4),
            "settings": {"seed": arguments.seed, "every": arguments.every, "notes": arguments.notes,
                         "embed": arguments.embed, "sample_every": arguments.sample_every},
            "asked": dict(asked), "left_in_mid_answer": self.clients.left, "sessions": self.clients.sessions,
            "editions_gone": len(self._gone), "verified": self.verified, "fresh": self._fresh(),
            "errors": self.seen.errors, "wrong": self.seen.wrong, "rounds": self.rounds, "samples": self.samples,
            "versions": {"python": platform.python_version(),
                         **{name: version(name) for name in ("fastapi", "uvicorn", "numpy", "onnxruntime")}},
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        }  # fmt: skip
        return {**result, "verdict": as_json(verdict(result))}


def size_of(kb: Path) -> dict[str, float]:
    """Of a knowledge base: MB of its index and of its records, and the number of its files."""
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
    found = {part: size / MB for part, size in sizes.items()}
    return {**found, "records_mb": found["ledger_mb"] + found["server_mb"], "kb_files": files}


def minutes(asked: list[Asked], began: float) -> list[dict[str, float]]:
    """For each minute the median of the milliseconds that each kind of question took, and `at` its middle (s)."""
    times: dict[int, dict[str, list[float]]] = {}
    for one in asked:
        times.setdefault(int((one.began - began) // 60), {}).setdefault(one.who, []).append(one.ms)
    return [
        {"at": number * 60 + 30, **{who: round(float(np.median(found)), 2) for who, found in sorted(kinds.items())}}
        for number, kinds in sorted(times.items())
    ]


def main() -> int:
    """Run it; 1 when a bound was not held."""
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
    with tempfile.TemporaryDirectory() as place:
        result = Soak(Path(place), arguments).run()
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "soak.json").write_text(json.dumps(result) + "\n", "utf-8")
    draw(result, arguments.out / "soak.png")
    findings = verdict(result)
    print(json.dumps([asdict(one) for one in findings]) if arguments.json else table(findings))
    for line in [*result["errors"][:5], *result["wrong"][:5]]:
        print(line, file=sys.stderr)
    return int(any(one.held is False for one in findings))


if __name__ == "__main__":
    sys.exit(main())

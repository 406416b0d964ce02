"""Peak memory of indexing generated text, by size: it must not grow with the folder.

    python benchmarks/index_memory.py --mb 50 --mb 1000 [--pipeline fast] [--workers 2] [--seed 1] [--file-kb 100]

Each size is indexed by `ragkit index` in a process of its own, into a new knowledge base. Every tenth of a second
the resident memory of that process and of all processes below it is read from /proc: `tree` is the peak of the sum
of their private and shared pages, each shared page counted once for each process that maps it; `pss` counts it once
in all; `main` is the peak of the process that writes. Pages of the catalog and the vector file that the system keeps
as its cache are in none of them. The text is made of a vocabulary with Zipf's frequencies; the seed decides it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

MB = 1_000_000
FILES_IN_A_FOLDER = 500
SECONDS = 0.1
PSS_EVERY = 10  # PSS is dear to read: once in so many looks


@dataclass
class Peak:
    """What one size took."""

    mb: float
    files: int
    chunks: int
    seconds: float
    cpu_seconds: float
    tree_mb: float
    pss_mb: float
    main_mb: float
    kb_mb: float
    stations: dict[str, float]


def write_text(folder: Path, megabytes: float, file_kb: int, seed: int) -> int:
    """Fill a folder with text; returns the number of files."""
    chance = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 10))) for _ in range(30_000)]
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(words))))
    written = number = 0
    while written < megabytes * MB:
        paragraphs: list[str] = []
        size = 0
        while size < file_kb * 1000:
            paragraphs.append(" ".join(chance.choices(words, cum_weights=weights, k=chance.randint(40, 120))) + ".")
            size += len(paragraphs[-1]) + 2
        text = "\n\n".join(paragraphs)
        place = folder / f"{number // FILES_IN_A_FOLDER:04}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:07}.txt").write_text(text, encoding="utf-8")
        written, number = written + len(text), number + 1
    return number


def tree(root: int) -> list[int]:
    """A process and all below it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [root]
    for process in found:
        found += parents.get(process, [])
    return found


def resident(process: int) -> int:
    """Bytes of memory that a process has mapped and resident; 0 once it is gone."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def proportional(process: int) -> int:
    """The same with each shared page divided by the number of processes that share it."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def index(folder: Path, kb: Path, asked: argparse.Namespace) -> Peak:
    """Index a folder and watch."""
    command = [sys.executable, "-m", "ragkit", "index", str(folder), "--kb", str(kb), "--pipeline", asked.pipeline]
    command += ["--json", "-q", *(["--jobs", str(asked.workers)] if asked.workers else [])]
    before = os.times()
    most = dict.fromkeys(("tree", "pss", "main"), 0)
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said)
        for look in itertools.count():
            if process.poll() is not None:
                break
            family = tree(process.pid)
            most["tree"] = max(most["tree"], sum(map(resident, family)))
            most["main"] = max(most["main"], resident(process.pid))
            if look % PSS_EVERY == 0:
                most["pss"] = max(most["pss"], sum(map(proportional, family)))
            time.sleep(SECONDS)
        said.seek(0)
        report = json.loads(said.read())
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    size = sum(path.stat().st_size for path in kb.iterdir() if path.is_file())
    text = sum(path.stat().st_size for path in folder.rglob("*.txt"))
    return Peak(
        mb=text / MB,
        files=report["files"]["added"],
        chunks=report["chunks"]["added"],
        seconds=report["seconds"],
        cpu_seconds=round(cpu, 1),
        tree_mb=round(most["tree"] / MB, 1),
        pss_mb=round(most["pss"] / MB, 1),
        main_mb=round(most["main"] / MB, 1),
        kb_mb=round(size / MB, 1),
        stations=report["stations"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, action="append", help="megabytes of text; may be repeated")
    parser.add_argument("--pipeline", default="fast")
    parser.add_argument("--workers", type=int, default=0, help="0: as the pipeline says")
    parser.add_argument("--file-kb", type=int, default=100, help="kilobytes of each file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    peaks: list[Peak] = []
    for megabytes in asked.mb or [50, 1000]:
        with tempfile.TemporaryDirectory(dir=asked.folder) as work:
            write_text(Path(work) / "text", megabytes, asked.file_kb, asked.seed)
            peaks.append(index(Path(work) / "text", Path(work) / "kb", asked))
        if not asked.json:
            peak = peaks[-1]
            print(
                f"{peak.mb:8.1f} MB, {peak.files:6} files, {peak.chunks:8,} chunks: peak {peak.tree_mb:6.1f} MB in all "
                f"({peak.pss_mb:.1f} with shared pages once), {peak.main_mb:6.1f} MB in the main process; "
                f"{peak.seconds:.0f} s, {peak.cpu_seconds:.0f} s CPU, stations {peak.stations}",
                flush=True,
            )
    if asked.json:
        print(json.dumps([asdict(peak) for peak in peaks]))
    elif len(peaks) > 1:
        print(f"the last over the first: {peaks[-1].tree_mb / peaks[0].tree_mb:.2f}")


if __name__ == "__main__":
    main()

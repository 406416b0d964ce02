"""Measure the peak memory of indexing generated text, by size: it must not grow with the folder.

    python benchmarks/index_memory.py --mb 50 --mb 1000 [--pipeline fast] [--workers 2] [--seed 1] [--file-kb 100]

`ragkit index` indexes each size in a separate process, into a new knowledge base. The benchmark reads the resident
memory of that process and its descendants from /proc every 0.1 s. `tree` is the peak of the sum of their private and
shared pages, with each shared page counted once per process that maps it; `pss` counts it once in total; `main` is
the peak of the process that writes. None of them includes the system's page cache of the catalog and the vector file.
The text is drawn from a vocabulary with Zipf's frequencies; the same seed gives the same text.
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
SAMPLE_SECONDS = 0.1
PSS_EVERY = 10  # samples; reading PSS is expensive


@dataclass
class Peak:
    """Peak memory and times for one size."""

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
    """Fill a folder with text and return the number of files."""
    rng = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 10))) for _ in range(30_000)]
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(words))))
    text_size = number = 0
    while text_size < megabytes * MB:
        paragraphs: list[str] = []
        size = 0
        while size < file_kb * 1000:
            paragraphs.append(" ".join(rng.choices(words, cum_weights=weights, k=rng.randint(40, 120))) + ".")
            size += len(paragraphs[-1]) + 2
        text = "\n\n".join(paragraphs)
        subfolder = folder / f"{number // FILES_IN_A_FOLDER:04}"
        subfolder.mkdir(parents=True, exist_ok=True)
        (subfolder / f"{number:07}.txt").write_text(text, encoding="utf-8")
        text_size, number = text_size + len(text), number + 1
    return number


def process_tree(root: int) -> list[int]:
    """A process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    processes = [root]
    for process in processes:
        processes += parents.get(process, [])
    return processes


def resident(process: int) -> int:
    """Resident memory of a process in bytes; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def proportional(process: int) -> int:
    """PSS of a process in bytes: each shared page is divided by the number of processes that share it."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def index(folder: Path, kb: Path, arguments: argparse.Namespace) -> Peak:
    """Index a folder and sample the memory of the processes."""
    command = [sys.executable, "-m", "ragkit", "index", str(folder), "--kb", str(kb), "--pipeline", arguments.pipeline]
    command += ["--json", "-q", *(["--jobs", str(arguments.workers)] if arguments.workers else [])]
    before = os.times()
    peaks = dict.fromkeys(("tree", "pss", "main"), 0)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output)
        for sample in itertools.count():
            if process.poll() is not None:
                break
            processes = process_tree(process.pid)
            peaks["tree"] = max(peaks["tree"], sum(map(resident, processes)))
            peaks["main"] = max(peaks["main"], resident(process.pid))
            if sample % PSS_EVERY == 0:
                peaks["pss"] = max(peaks["pss"], sum(map(proportional, processes)))
            time.sleep(SAMPLE_SECONDS)
        output.seek(0)
        report = json.loads(output.read())
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
        tree_mb=round(peaks["tree"] / MB, 1),
        pss_mb=round(peaks["pss"] / MB, 1),
        main_mb=round(peaks["main"] / MB, 1),
        kb_mb=round(size / MB, 1),
        stations=report["stations"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, action="append", help="megabytes of text; may be repeated")
    parser.add_argument("--pipeline", default="fast")
    parser.add_argument("--workers", type=int, default=0, help="0: the pipeline's number of workers")
    parser.add_argument("--file-kb", type=int, default=100, help="kilobytes of each file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="working directory; default: a temporary folder")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    peaks: list[Peak] = []
    for megabytes in arguments.mb or [50, 1000]:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as work:
            write_text(Path(work) / "text", megabytes, arguments.file_kb, arguments.seed)
            peaks.append(index(Path(work) / "text", Path(work) / "kb", arguments))
        if not arguments.json:
            peak = peaks[-1]
            print(
                f"{peak.mb:8.1f} MB, {peak.files:6} files, {peak.chunks:8,} chunks: peak {peak.tree_mb:6.1f} MB "
                f"(PSS {peak.pss_mb:.1f}), {peak.main_mb:6.1f} MB in the main process; "
                f"{peak.seconds:.0f} s, {peak.cpu_seconds:.0f} s CPU, stations {peak.stations}",
                flush=True,
            )
    if arguments.json:
        print(json.dumps([asdict(peak) for peak in peaks]))
    elif len(peaks) > 1:
        print(f"last / first peak: {peaks[-1].tree_mb / peaks[0].tree_mb:.2f}")


if __name__ == "__main__":
    main()

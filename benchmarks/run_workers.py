"""Index runs by 1 and 2 local workers, and on a Ray cluster by 1, 2 and 4: times, stations, and the same index.

    python benchmarks/run_workers.py [--mb 20] [--pipeline fast] [--local 1 --local 2] [--ray 1 --ray 2 --ray 4]
                                     [--rounds 1] [--seed 1]

Every run is `ragkit index` in a process of its own, into a new knowledge base, over the same generated text. The
cluster is started once, before the clock runs, on this machine; each run joins it, which is part of its time.
`cpu` is that of the process that writes and of its local workers; the cluster's own CPU seconds are given apart.
Stations are seconds of work added up over all workers. The index of every run is compared with that of the first:
the output of `ragkit list --chunks --json`, line for line, and the vectors, byte for byte. Medians over the rounds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
from index_memory import write_text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


@dataclass
class Run:
    """One index run."""

    name: str
    wall: float
    """Seconds from the start of the process to its end."""
    inside: float
    """Seconds that the report gives: without the start of Python."""
    cpu: float
    cluster_cpu: float
    chunks: int
    stations: dict[str, float]
    digest: str
    """Of all chunks and vectors."""


class RayCluster:
    """A cluster on this machine, for as long as the block lasts."""

    def __init__(self, cpus: int) -> None:
        self._cpus = cpus

    def __enter__(self) -> RayCluster:
        import psutil
        from ray.cluster_utils import Cluster

        head = {"num_cpus": self._cpus, "object_store_memory": 400 * 2**20, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._me = psutil.Process()
        return self

    def __exit__(self, *error: object) -> None:
        self._cluster.shutdown()

    @property
    def address(self) -> str:
        """`host:port` of the head."""
        return str(self._cluster.address)

    def cpu(self) -> float:
        """CPU seconds of every process of the cluster that is alive."""
        import psutil

        total = 0.0
        for process in self._me.children(recursive=True):
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            total += times.user + times.system
        return total


def index(name: str, folder: Path, kb: Path, settings: list[str], cluster: RayCluster | None) -> Run:
    """One run; `settings` are those of the command line."""
    command = [sys.executable, "-m", "ragkit", "index", str(folder), "--kb", str(kb), "--json", "-q", *settings]
    before, began, there = os.times(), time.perf_counter(), cluster.cpu() if cluster else 0.0
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    wall, after, then = time.perf_counter() - began, os.times(), cluster.cpu() if cluster else 0.0
    report = json.loads(said.stdout)
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    listed = subprocess.run(
        [sys.executable, "-m", "ragkit", "list", "--chunks", "--json", "--kb", str(kb)], check=True, capture_output=True
    )
    digest = hashlib.sha256(listed.stdout)
    for vectors in sorted(kb.glob("vectors-*.f32")):
        digest.update(vectors.read_bytes()[64:])  # behind the header, which holds a random id
    return Run(
        name,
        round(wall, 2),
        report["seconds"],
        round(cpu, 2),
        round(then - there, 2),
        report["chunks"]["added"],
        report["stations"],
        digest.hexdigest()[:16],
    )


def median(runs: list[Run]) -> Run:
    """The run whose wall time is the median."""
    middle = statistics.median_low([run.wall for run in runs])
    return next(run for run in runs if run.wall == middle)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, default=20)
    parser.add_argument("--pipeline", default="fast")
    parser.add_argument("--local", type=int, action="append")
    parser.add_argument("--ray", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--file-kb", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    local, on_ray = asked.local or [1, 2], [n for n in asked.ray or [1, 2, 4] if n]  # --ray 0: none
    runs: dict[str, list[Run]] = {}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "text"
        write_text(folder, asked.mb, asked.file_kb, asked.seed)
        base = ["--pipeline", asked.pipeline]
        cluster: AbstractContextManager[RayCluster | None] = RayCluster(max(on_ray)) if on_ray else nullcontext()
        with cluster as there:
            for number in range(asked.rounds):
                ways: list[tuple[str, list[str], RayCluster | None]] = []
                ways += [(f"local {n}", ["--set", f"run.workers={n}"], None) for n in local]
                if there is not None:
                    address = ["--set", "run.name=ray", "--set", f'run.address="{there.address}"']
                    ways += [(f"ray {n}", [*address, "--set", f"run.workers={n}"], there) for n in on_ray]
                for name, settings, where in ways:
                    kb = Path(work) / f"{name.replace(' ', '-')}-{number}"
                    runs.setdefault(name, []).append(index(name, folder, kb, [*base, *settings], where))
    rows = [median(found) for found in runs.values()]
    same = len({run.digest for found in runs.values() for run in found}) == 1
    if asked.json:
        told = {"mb": asked.mb, "cores": os.cpu_count(), "same": same, "runs": [asdict(row) for row in rows]}
        print(json.dumps(told))
    else:
        print(f"{asked.mb:g} MB, {rows[0].chunks:,} chunks, {os.cpu_count()} cores, pipeline {asked.pipeline}")
        for row in rows:
            stations = "  ".join(f"{station} {seconds:.1f}" for station, seconds in row.stations.items())
            times = (
                f"{row.wall:7.1f} s ({row.inside:.1f} inside), CPU {row.cpu:.1f} + {row.cluster_cpu:.1f} of the cluster"
            )
            print(f"{row.name:8} {times};  {stations}")
        print("all made the same index" if same else "NOT THE SAME INDEX: " + str({r.name: r.digest for r in rows}))
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()

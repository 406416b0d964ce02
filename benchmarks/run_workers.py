"""Time index runs with 1 and 2 local workers and with 1, 2 and 4 Ray workers; check that all build the same index.

    python benchmarks/run_workers.py [--mb 20] [--pipeline fast] [--local 1 --local 2] [--ray 1 --ray 2 --ray 4]
                                     [--rounds 1] [--seed 1]

Every run is `ragkit index` in a separate process, into a new knowledge base, over the same generated text. The
cluster starts once on this machine, before the timed runs; the time of each run includes joining it.
`cpu` covers the process that writes and its local workers; the CPU seconds of the cluster are separate.
Stations are seconds of work, summed over all workers. Each index is compared with the first one:
the output of `ragkit list --chunks --json` line by line, and the vectors byte by byte. Medians over the rounds.
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
    """Seconds from the report, without Python's start-up."""
    cpu: float
    cluster_cpu: float
    chunks: int
    stations: dict[str, float]
    digest: str
    """Digest of all chunks and vectors."""


class RayCluster:
    """Context manager for a Ray cluster on this machine."""

    def __init__(self, cpus: int) -> None:
        self._cpus = cpus

    def __enter__(self) -> RayCluster:
        import psutil
        from ray.cluster_utils import Cluster

        head = {"num_cpus": self._cpus, "object_store_memory": 400 * 2**20, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._process = psutil.Process()
        return self

    def __exit__(self, *error: object) -> None:
        self._cluster.shutdown()

    @property
    def address(self) -> str:
        """`host:port` of the head."""
        return str(self._cluster.address)

    def cpu(self) -> float:
        """CPU seconds of all live processes of the cluster."""
        import psutil

        total = 0.0
        for process in self._process.children(recursive=True):
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            total += times.user + times.system
        return total


def index(name: str, folder: Path, kb: Path, settings: list[str], cluster: RayCluster | None) -> Run:
    """Run `ragkit index` once; `settings` are command line options."""
    command = [sys.executable, "-m", "ragkit", "index", str(folder), "--kb", str(kb), "--json", "-q", *settings]
    times_before, started_at, cluster_before = os.times(), time.perf_counter(), cluster.cpu() if cluster else 0.0
    process = subprocess.run(command, check=True, capture_output=True, text=True)
    wall, times_after, cluster_after = time.perf_counter() - started_at, os.times(), cluster.cpu() if cluster else 0.0
    report = json.loads(process.stdout)
    cpu = times_after.children_user + times_after.children_system
    cpu -= times_before.children_user + times_before.children_system
    chunk_list = subprocess.run(
        [sys.executable, "-m", "ragkit", "list", "--chunks", "--json", "--kb", str(kb)], check=True, capture_output=True
    )
    digest = hashlib.sha256(chunk_list.stdout)
    for vectors in sorted(kb.glob("vectors-*.f32")):
        digest.update(vectors.read_bytes()[64:])  # skip the header, which contains a random id
    return Run(
        name,
        round(wall, 2),
        report["seconds"],
        round(cpu, 2),
        round(cluster_after - cluster_before, 2),
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
    arguments = parser.parse_args()
    local, on_ray = arguments.local or [1, 2], [n for n in arguments.ray or [1, 2, 4] if n]  # --ray 0: none
    runs: dict[str, list[Run]] = {}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "text"
        write_text(folder, arguments.mb, arguments.file_kb, arguments.seed)
        base = ["--pipeline", arguments.pipeline]
        cluster: AbstractContextManager[RayCluster | None] = RayCluster(max(on_ray)) if on_ray else nullcontext()
        with cluster as ray_cluster:
            for number in range(arguments.rounds):
                variants: list[tuple[str, list[str], RayCluster | None]] = []
                variants += [(f"local {n}", ["--set", f"run.workers={n}"], None) for n in local]
                if ray_cluster is not None:
                    address = ["--set", "run.name=ray", "--set", f'run.address="{ray_cluster.address}"']
                    variants += [(f"ray {n}", [*address, "--set", f"run.workers={n}"], ray_cluster) for n in on_ray]
                for name, settings, run_cluster in variants:
                    kb = Path(work) / f"{name.replace(' ', '-')}-{number}"
                    runs.setdefault(name, []).append(index(name, folder, kb, [*base, *settings], run_cluster))
    rows = [median(results) for results in runs.values()]
    same = len({run.digest for results in runs.values() for run in results}) == 1
    if arguments.json:
        report = {"mb": arguments.mb, "cores": os.cpu_count(), "same": same, "runs": [asdict(row) for row in rows]}
        print(json.dumps(report))
    else:
        print(f"{arguments.mb:g} MB, {rows[0].chunks:,} chunks, {os.cpu_count()} cores, pipeline {arguments.pipeline}")
        for row in rows:
            stations = "  ".join(f"{station} {seconds:.1f}" for station, seconds in row.stations.items())
            times = (
                f"{row.wall:7.1f} s ({row.inside:.1f} reported), CPU {row.cpu:.1f} + {row.cluster_cpu:.1f} (cluster)"
            )
            print(f"{row.name:8} {times};  {stations}")
        print("all indexes are identical" if same else "INDEXES DIFFER: " + str({r.name: r.digest for r in rows}))
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()

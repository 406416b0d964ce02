"""Two figures of `ragkit bench` held against another harness: VectorDBBench's own serial search on the same rows.

    uv venv vdbb && uv pip install --python vdbb/bin/python vectordb-bench==2.0.0 lancedb faiss-cpu
    python benchmarks/outside_harness.py --other vdbb/bin/python

It makes rows and has both put them into `faiss` (flat) and `lancedb` (exact): the worker process of `ragkit bench`, and
VectorDBBench in a Python of its own, LanceDB through the client that VectorDBBench ships, faiss, for which it ships
none, through one that is written here to its interface. Then each asks the same queries in turns of a second or two,
on the same core, with a new first one each time, after the same number of queries that are not counted: whatever else
the machine does hits both alike. Exits with 1 where the median latency or the recall differs by more than 15 %; with
`--busy`, processor time counts instead of latency, as the time for which others had the core says nothing.

What is compared is not quite the same: ragkit hands out texts and metadata, VectorDBBench ids alone; the difference is
small where a search takes milliseconds, so there are 100,000 rows. VectorDBBench rounds its median to 0.1 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

TOLERANCE = 0.15
WARM_UP = 10
TOP_K = 10
BATCH = 1000
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
STORES = {"faiss": {"method": "flat"}, "lancedb": {"method": "exact"}}
PACKAGES = ("faiss-cpu", "lancedb", "numpy")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", type=Path, help="the Python that VectorDBBench is installed for")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=50, help="in each turn")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument(
        "--busy", action="store_true", help="judge by processor time: the machine does other things too"
    )
    parser.add_argument("--inside", nargs=2, metavar=("STORE", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        inside(given.inside[0], Path(given.inside[1]))
        return 0
    return outside(given)


def outside(given: argparse.Namespace) -> int:
    """Have both measure each store in turns, and print some lines a store."""
    import numpy as np

    from ragkit.bench import ground_truth
    from ragkit.bench.datasets import generate_dataset

    print("here: " + ", ".join(f"{name} {version(name)}" for name in PACKAGES))
    code = 0
    with tempfile.TemporaryDirectory(prefix="ragkit-outside-") as scratch:
        folder = Path(scratch)
        data = generate_dataset(folder, given.rows, given.dim, queries=given.queries)
        ground_truth.save_ground_truth(folder, ground_truth.compute_ground_truth(data, (), TOP_K))
        rows = np.array(data.rows[: data.base_count])  # a hundredth of the rows is kept back by `ragkit bench`
        np.save(folder / "nearest.npy", np.argsort(-(data.queries @ rows.T), axis=1)[:, :TOP_K])
        np.save(folder / "base.npy", rows)
        np.save(folder / "asked.npy", data.queries)
        for store in STORES:
            sides = {"ragkit": Ragkit(store, folder, data, given.queries), "other": Other(store, folder, given.other)}
            try:
                figures = in_turns(sides, given.rounds)
            finally:
                for side in sides.values():
                    side.end()
            code |= shown(store, figures, "cpu_ms" if given.busy else "p50_ms")
    return code


def in_turns(sides: dict[str, Ragkit | Other], rounds: int) -> dict[str, list[float]]:
    """The figures of each round, by side and name."""
    figures: dict[str, list[float]] = {}
    order = list(sides.items())
    for _ in range(rounds):
        for name, side in order:
            for figure, value in side.round().items():
                figures.setdefault(f"{name} {figure}", []).append(value)
        order.reverse()
    return figures


def shown(store: str, figures: dict[str, list[float]], judged: str) -> int:
    """Some lines; 1 where the harnesses disagree."""
    middle = {name: statistics.median(values) for name, values in figures.items()}
    recalls = middle["ragkit recall"], middle["other recall"]
    for name in ("p50_ms", "cpu_ms"):
        ours, theirs = middle[f"ragkit {name}"], middle[f"other {name}"]
        rounds = (", ".join(f"{value:.2f}" for value in figures[f"{one} {name}"]) for one in ("ragkit", "other"))
        print(f"{store:8} {name}: ragkit {ours:.2f}, VectorDBBench {theirs:.2f} ({ours / theirs - 1:+.1%})")
        print(f"         of each round: {' and '.join(rounds)}")
    ours, theirs = middle[f"ragkit {judged}"], middle[f"other {judged}"]
    agree = abs(ours / theirs - 1) <= TOLERANCE and abs(recalls[0] - recalls[1]) <= TOLERANCE
    print(f"         recall@10: {recalls[0]:.4f}, {recalls[1]:.4f}: {'agree' if agree else 'DIFFER'}", flush=True)
    return int(not agree)


class Ragkit:
    """A store in the process that `ragkit bench` gives it."""

    def __init__(self, store: str, folder: Path, data: object, queries: int) -> None:
        from ragkit.bench.datasets import Dataset
        from ragkit.bench.measure import BenchJob
        from ragkit.bench.store_process import StoreProcess

        assert isinstance(data, Dataset)
        options = {**STORES[store], "path": str(folder / f"ragkit-{store}")}
        job = BenchJob(
            store, options, str(folder), data.name, data.base_count, data.seed, TOP_K, queries, queries,
            round_seconds=600, warm_up=WARM_UP, batch=BATCH, threads=1, pinned_core=max(os.sched_getaffinity(0)),
        )  # fmt: skip
        self._process = StoreProcess(job, folder / f"job-{store}")
        for method in ("load_backend", "build"):
            self._process.request(method, 1800)

    def round(self) -> dict[str, float]:
        """The figures of one turn."""
        told = self._process.request("measure_queries", 600, setting={})
        return {name: float(str(told[name])) for name in ("p50_ms", "recall", "cpu_ms")}

    def end(self) -> None:
        """End the process."""
        self._process.terminate()


class Other:
    """The same store by VectorDBBench in its own Python."""

    def __init__(self, store: str, folder: Path, python: Path) -> None:
        command = [str(python), __file__, "--inside", store, str(folder)]
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | ONE_THREAD
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        print("VectorDBBench: " + self._line(), flush=True)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the other Python ended: what it said stands above")
        return line.strip()

    def round(self) -> dict[str, float]:
        """The figures of one turn."""
        assert self._process.stdin is not None
        self._process.stdin.write("round\n")
        self._process.stdin.flush()
        figures: dict[str, float] = json.loads(self._line())
        return figures

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def inside(store: str, folder: Path) -> None:
    """In the other Python: fill, say what is installed, then a turn of VectorDBBench's serial search for each line."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # its log goes to standard output
    import logging

    import numpy as np
    from vectordb_bench.backend.runner.serial_runner import SerialSearchRunner

    logging.disable(logging.INFO)
    rows, queries, nearest = (np.load(folder / f"{name}.npy") for name in ("base", "asked", "nearest"))
    place = folder / f"other-{store}"
    client = faiss_client(rows.shape[1]) if store == "faiss" else lancedb_client(rows.shape[1], str(place))
    with client.init():
        for first in range(0, len(rows), BATCH):
            numbers = list(range(first, min(first + BATCH, len(rows))))
            client.insert_embeddings(rows[numbers].tolist(), numbers)
        client.optimize()
    every, ground_truth = [query.tolist() for query in queries], nearest.tolist()
    runner = SerialSearchRunner(client, test_data=every, ground_truth=ground_truth, k=TOP_K)
    spent = counted(runner)
    print(", ".join(f"{name} {version(name)}" for name in ("vectordb-bench", *PACKAGES)), file=answers)
    for _ in sys.stdin:
        runner.search((every[:WARM_UP], ground_truth[:WARM_UP]))
        spent.clear()
        recall, _, _, _, p50, _ = runner.search((every, ground_truth))
        told = {"p50_ms": float(p50) * 1e3, "recall": float(recall), "cpu_ms": 1e3 * sum(spent) / len(spent)}
        print(json.dumps(told), file=answers)


def counted(runner) -> list[float]:
    """Notes the processor time of what stands inside the runner's own timer, and of nothing else."""
    spent: list[float] = []
    ask = runner._search_func if hasattr(runner, "_search_func") else runner._search_embedding

    def asked(*arguments, **named):
        begun = time.process_time()
        found = ask(*arguments, **named)
        spent.append(time.process_time() - begun)
        return found

    runner._search_func = asked
    return spent


def lancedb_client(dimension: int, place: str):
    """The client that VectorDBBench ships, without an index; rows are of length 1, so the product is the cosine."""
    from vectordb_bench.backend.clients.api import MetricType
    from vectordb_bench.backend.clients.lancedb.config import LanceDBConfig, LanceDBNoIndexConfig
    from vectordb_bench.backend.clients.lancedb.lancedb import LanceDB

    case = LanceDBNoIndexConfig(metric_type=MetricType.IP)
    return LanceDB(dimension, LanceDBConfig(uri=place).to_dict(), case, drop_old=True)


def faiss_client(dimension: int):
    """A flat index of faiss behind VectorDBBench's interface."""
    from contextlib import contextmanager

    import faiss
    import numpy as np
    from vectordb_bench.backend.clients.api import VectorDB

    class Faiss(VectorDB):
        name = "faiss"

        def __init__(self) -> None:
            self._index = faiss.IndexFlatIP(dimension)

        @contextmanager
        def init(self):
            yield

        def insert_embeddings(self, embeddings, metadata, labels_data=None, **_):
            self._index.add(np.array(embeddings, np.float32))
            return len(metadata), None

        def search_embedding(self, query, k=100, **_):
            return self._index.search(np.array([query], np.float32), k)[1][0].tolist()

        def optimize(self, data_size=None):
            pass

        def prepare_filter(self, filters):
            pass

    return Faiss()


if __name__ == "__main__":
    sys.exit(main())

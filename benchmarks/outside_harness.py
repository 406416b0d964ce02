"""Compare `ragkit bench` with another harness: VectorDBBench's serial search on the same rows.

    uv venv vdbb && uv pip install --python vdbb/bin/python vectordb-bench==2.0.0 lancedb faiss-cpu
    python benchmarks/outside_harness.py --other vdbb/bin/python

Both harnesses insert the same generated rows into `faiss` (flat) and `lancedb` (exact): the worker process of
`ragkit bench`, and VectorDBBench in a separate Python. VectorDBBench uses its own client for LanceDB; it has none for
faiss, so this script implements one. Then both run the same queries in turns of a second or two, on the same core,
after the same number of warm-up queries; the first harness alternates, so that load from other programs affects both
equally. Exits with 1 if the median latency or the recall differs by more than 15 %; `--busy` compares processor time
instead of latency.

The results are not identical: ragkit returns texts and metadata, VectorDBBench only ids. The difference is small if a
search takes milliseconds, hence the 100,000 rows. VectorDBBench rounds its median to 0.1 ms.
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
    parser.add_argument("--other", type=Path, help="the Python with VectorDBBench")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=50, help="queries in each turn")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--busy", action="store_true", help="compare processor time, for a machine under other load")
    parser.add_argument("--inside", nargs=2, metavar=("STORE", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        run_vectordbbench(arguments.inside[0], Path(arguments.inside[1]))
        return 0
    return compare(arguments)


def compare(arguments: argparse.Namespace) -> int:
    """Measure each store with both harnesses in turn and print the results."""
    import numpy as np

    from ragkit.bench import ground_truth
    from ragkit.bench.datasets import generate_dataset

    print("ragkit side: " + ", ".join(f"{name} {version(name)}" for name in PACKAGES))
    code = 0
    with tempfile.TemporaryDirectory(prefix="ragkit-outside-") as scratch:
        folder = Path(scratch)
        data = generate_dataset(folder, arguments.rows, arguments.dim, queries=arguments.queries)
        ground_truth.save_ground_truth(folder, ground_truth.compute_ground_truth(data, (), TOP_K))
        rows = np.array(data.rows[: data.base_count])  # `ragkit bench` reserves 1 % of the rows
        np.save(folder / "nearest.npy", np.argsort(-(data.queries @ rows.T), axis=1)[:, :TOP_K])
        np.save(folder / "base.npy", rows)
        np.save(folder / "queries.npy", data.queries)
        for store in STORES:
            sides = {
                "ragkit": Ragkit(store, folder, data, arguments.queries),
                "other": Other(store, folder, arguments.other),
            }
            try:
                figures = run_rounds(sides, arguments.rounds)
            finally:
                for side in sides.values():
                    side.end()
            code |= print_figures(store, figures, "cpu_ms" if arguments.busy else "p50_ms")
    return code


def run_rounds(sides: dict[str, Ragkit | Other], rounds: int) -> dict[str, list[float]]:
    """The figures of each round, by side and metric."""
    figures: dict[str, list[float]] = {}
    order = list(sides.items())
    for _ in range(rounds):
        for name, side in order:
            for figure, value in side.round().items():
                figures.setdefault(f"{name} {figure}", []).append(value)
        order.reverse()
    return figures


def print_figures(store: str, figures: dict[str, list[float]], metric: str) -> int:
    """Print the figures of one store; return 1 if the harnesses disagree."""
    medians = {name: statistics.median(values) for name, values in figures.items()}
    recalls = medians["ragkit recall"], medians["other recall"]
    for name in ("p50_ms", "cpu_ms"):
        ours, theirs = medians[f"ragkit {name}"], medians[f"other {name}"]
        rounds = (", ".join(f"{value:.2f}" for value in figures[f"{side} {name}"]) for side in ("ragkit", "other"))
        print(f"{store:8} {name}: ragkit {ours:.2f}, VectorDBBench {theirs:.2f} ({ours / theirs - 1:+.1%})")
        print(f"         by round: {' and '.join(rounds)}")
    ours, theirs = medians[f"ragkit {metric}"], medians[f"other {metric}"]
    agree = abs(ours / theirs - 1) <= TOLERANCE and abs(recalls[0] - recalls[1]) <= TOLERANCE
    print(f"         recall@10: {recalls[0]:.4f}, {recalls[1]:.4f}: {'agree' if agree else 'DIFFER'}", flush=True)
    return int(not agree)


class Ragkit:
    """A store in the worker process of `ragkit bench`."""

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
        reply = self._process.request("measure_queries", 600, setting={})
        return {name: float(str(reply[name])) for name in ("p50_ms", "recall", "cpu_ms")}

    def end(self) -> None:
        """End the process."""
        self._process.terminate()


class Other:
    """The same store in VectorDBBench, in its own Python."""

    def __init__(self, store: str, folder: Path, python: Path) -> None:
        command = [str(python), __file__, "--inside", store, str(folder)]
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | ONE_THREAD
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        print("VectorDBBench: " + self._line(), flush=True)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the other Python ended; see its output above")
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


def run_vectordbbench(store: str, folder: Path) -> None:
    """In the other Python: insert the rows, print the versions, then run one serial search per line on stdin."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # VectorDBBench logs to standard output
    import logging

    import numpy as np
    from vectordb_bench.backend.runner.serial_runner import SerialSearchRunner

    logging.disable(logging.INFO)
    rows, queries, nearest = (np.load(folder / f"{name}.npy") for name in ("base", "queries", "nearest"))
    path = folder / f"other-{store}"
    client = faiss_client(rows.shape[1]) if store == "faiss" else lancedb_client(rows.shape[1], str(path))
    with client.init():
        for first in range(0, len(rows), BATCH):
            numbers = list(range(first, min(first + BATCH, len(rows))))
            client.insert_embeddings(rows[numbers].tolist(), numbers)
        client.optimize()
    query_lists, ground_truth = [query.tolist() for query in queries], nearest.tolist()
    runner = SerialSearchRunner(client, test_data=query_lists, ground_truth=ground_truth, k=TOP_K)
    cpu_seconds = record_cpu_seconds(runner)
    print(", ".join(f"{name} {version(name)}" for name in ("vectordb-bench", *PACKAGES)), file=answers)
    for _ in sys.stdin:
        runner.search((query_lists[:WARM_UP], ground_truth[:WARM_UP]))
        cpu_seconds.clear()
        recall, _, _, _, p50, _ = runner.search((query_lists, ground_truth))
        figures = {
            "p50_ms": float(p50) * 1e3,
            "recall": float(recall),
            "cpu_ms": 1e3 * sum(cpu_seconds) / len(cpu_seconds),
        }
        print(json.dumps(figures), file=answers)


def record_cpu_seconds(runner) -> list[float]:
    """Wrap the runner's search and record its processor time, exactly what the runner's own timer covers."""
    cpu_seconds: list[float] = []
    search = runner._search_func if hasattr(runner, "_search_func") else runner._search_embedding

    def timed(*arguments, **options):
        started_at = time.process_time()
        result = search(*arguments, **options)
        cpu_seconds.append(time.process_time() - started_at)
        return result

    runner._search_func = timed
    return cpu_seconds


def lancedb_client(dimension: int, uri: str):
    """VectorDBBench's own client, without an index; rows have length 1, so the inner product is the cosine."""
    from vectordb_bench.backend.clients.api import MetricType
    from vectordb_bench.backend.clients.lancedb.config import LanceDBConfig, LanceDBNoIndexConfig
    from vectordb_bench.backend.clients.lancedb.lancedb import LanceDB

    case = LanceDBNoIndexConfig(metric_type=MetricType.IP)
    return LanceDB(dimension, LanceDBConfig(uri=uri).to_dict(), case, drop_old=True)


def faiss_client(dimension: int):
    """A flat faiss index with VectorDBBench's client interface."""
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

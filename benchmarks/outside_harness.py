"""Two figures of `ragkit bench` held against another harness: VectorDBBench's own serial search on the same rows.

    uv venv vdbb && uv pip install --python vdbb/bin/python vectordb-bench==2.0.0 lancedb faiss-cpu
    python benchmarks/outside_harness.py --other vdbb/bin/python

It makes rows, has `ragkit bench` measure `faiss` (flat) and `lancedb` (exact) on them, and then VectorDBBench, in a
Python of its own: LanceDB through the client that VectorDBBench ships; faiss, for which it ships none, through a client
that is written here to its interface. Runs of the two alternate. Both pin their process to one core. Exits with 1 where
the median latency or the recall differs by more than 15 %; with `--busy`, processor time counts instead of latency.

What is compared is not quite the same: ragkit hands out texts and metadata, VectorDBBench ids alone; the difference is
small where a search takes milliseconds, so there are 100,000 rows.
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
from pathlib import Path

TOLERANCE = 0.15
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
STORES = {
    "faiss": "{name: faiss, options: {method: flat}}",
    "lancedb": "{name: lancedb, options: {method: exact}}",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", type=Path, help="the Python that VectorDBBench is installed for")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--busy", action="store_true", help="judge by processor time: the machine does other things too"
    )
    parser.add_argument("--inside", nargs=2, metavar=("STORE", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        print(json.dumps(inside(given.inside[0], Path(given.inside[1]))))
        return 0
    return outside(given)


def outside(given: argparse.Namespace) -> int:
    """Measure with both, in turn, and print a line a store."""
    import h5py
    import numpy as np

    from ragkit.bench.datasets import generate

    with tempfile.TemporaryDirectory(prefix="ragkit-outside-") as scratch:
        folder = Path(scratch)
        data = generate(folder, given.rows, given.dim, queries=given.queries)
        with h5py.File(folder / "rows.hdf5", "w") as file:
            file["train"], file["test"] = data.rows, data.queries
        # a hundredth of a file's rows is added only after all searches
        base = len(data.rows) - len(data.rows) // 100
        np.save(folder / "nearest.npy", np.argsort(-(data.queries @ data.rows[:base].T), axis=1)[:, :10])
        np.save(folder / "base.npy", np.array(data.rows[:base]))
        found: dict[str, dict[str, list[float]]] = {store: {} for store in STORES}
        for _ in range(given.rounds):
            for store, figures in found.items():
                for harness, measured in (
                    ("ragkit", ragkit_bench(store, folder, given.queries)),
                    ("other", other_harness(given.other, store, folder)),
                ):
                    for name in ("p50_ms", "recall", "cpu_ms"):
                        figures.setdefault(f"{harness} {name}", []).append(measured[name])
    return shown(found, "cpu_ms" if given.busy else "p50_ms")


def shown(found: dict[str, dict[str, list[float]]], judged: str) -> int:
    """A line a store; 1 where the harnesses disagree."""
    code = 0
    for store, figures in found.items():
        middle = {name: statistics.median(values) for name, values in figures.items()}
        ours, theirs = middle[f"ragkit {judged}"], middle[f"other {judged}"]
        recalls = middle["ragkit recall"], middle["other recall"]
        agree = abs(ours / theirs - 1) <= TOLERANCE and abs(recalls[0] - recalls[1]) <= TOLERANCE
        code |= not agree
        print(
            f"{store:8} {judged}: ragkit {ours:.2f}, VectorDBBench {theirs:.2f} ({ours / theirs - 1:+.1%});"
            f" recall@10: {recalls[0]:.4f}, {recalls[1]:.4f}: {'agree' if agree else 'DIFFER'}"
        )
        for name in ("p50_ms", "cpu_ms"):
            rounds = (", ".join(f"{value:.2f}" for value in figures[f"{one} {name}"]) for one in ("ragkit", "other"))
            print(f"         {name} of each round: {' and '.join(rounds)}")
    return code


def ragkit_bench(store: str, folder: Path, queries: int) -> dict[str, float]:
    """The figures of one store, as the command gives them."""
    settings = folder / f"{store}.yaml"
    settings.write_text(
        f"stores: [{STORES[store]}]\nrounds: 1\nqueries: {queries}\nround_seconds: 120\nshares: []\nthreads: 1\n"
        "filtered_queries: 20\nstore_seconds: 900\n"
    )
    command = [sys.executable, "-m", "ragkit", "bench", "--settings", str(settings), "--json", "-q"]
    said = subprocess.run([*command, "--hdf5", str(folder / "rows.hdf5")], check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(said.stdout)["stores"][0]["figures"]
    return figures


def other_harness(python: Path, store: str, folder: Path) -> dict[str, float]:
    """The figures of the same store, by VectorDBBench in its own Python."""
    command = [str(python), __file__, "--inside", store, str(folder)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | ONE_THREAD
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env)
    figures: dict[str, float] = json.loads(said.stdout.splitlines()[-1])
    return figures


def inside(store: str, folder: Path) -> dict[str, float]:
    """In the other Python: VectorDBBench's serial search, whose times come rounded to 0.1 ms."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import numpy as np
    from vectordb_bench.backend.runner.serial_runner import SerialSearchRunner

    rows, queries, nearest = (np.load(folder / f"{name}.npy") for name in ("base", "queries", "nearest"))
    with tempfile.TemporaryDirectory(dir=folder) as place:
        client = faiss_client(rows.shape[1]) if store == "faiss" else lancedb_client(rows.shape[1], place)
        with client.init():
            for first in range(0, len(rows), 1000):
                numbers = list(range(first, min(first + 1000, len(rows))))
                client.insert_embeddings(rows[numbers].tolist(), numbers)
            client.optimize()
        every, truth = [query.tolist() for query in queries], nearest.tolist()
        runner = SerialSearchRunner(client, test_data=every, ground_truth=truth, k=10)
        runner.search((every[:20], truth[:20]))  # warm-up
        cpu = time.process_time()
        recall, _, _, _, p50, _ = runner.search((every, truth))
        cpu = (time.process_time() - cpu) / len(every)
    return {"p50_ms": float(p50) * 1e3, "recall": float(recall), "cpu_ms": cpu * 1e3}


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

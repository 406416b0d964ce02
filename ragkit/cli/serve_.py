"""`ragkit serve`: serve a web UI and an OpenAI-compatible API."""

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
"""Environment variable with the settings for worker processes, as JSON, without tokens."""
SERVED_TOOLS = ("calculator", "web_search")
POSITIVE = click.FloatRange(min=0, min_open=True)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8321, show_default=True, type=click.IntRange(0, 65535), help="0: any free port.")
@click.option("--model", "models", multiple=True, metavar="PROVIDER:MODEL",
              help="Model (default: that of the pipeline). Repeat to offer more models.")  # fmt: skip
@click.option("--tool", "tools", multiple=True, type=click.Choice(SERVED_TOOLS), metavar="NAME",
              help="Tool of the server's agent: calculator or web_search (DuckDuckGo). Repeatable.")  # fmt: skip
@click.option("--any-model", is_flag=True, help="Answer requests for unknown models with the default model.")
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help=f"Bearer tokens, one per line (also {TOKEN_ENV}). Required unless on loopback.")  # fmt: skip
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Additional allowed Host name.")
@click.option("--allow-origin", "origins", multiple=True, metavar="URL", help="Allowed CORS origin.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Number of worker processes.")
@click.option("--max-running", type=click.IntRange(min=1), help="Maximum running answers (default: 8).")
@click.option("--max-waiting", type=click.IntRange(min=0), help="Maximum waiting answers (default: 64).")
@click.option("--max-seconds", "answer_seconds", type=POSITIVE, help="Timeout of one answer (default: 120).")
@click.option("--max-iterations", type=click.IntRange(min=1),
              help="Maximum requests to the model for one answer (default: 10).")  # fmt: skip
@click.option("--max-cost", "answer_usd", type=POSITIVE, metavar="USD",
              help="Maximum cost of one answer (default: 0.25).")  # fmt: skip
@click.option("--rate", "requests_per_minute", type=click.IntRange(min=1),
              help="Requests per minute and token (default: 600).")  # fmt: skip
@click.option("--grace", "shutdown_seconds", type=POSITIVE, metavar="SECONDS",
              help="Time for running answers to finish at shutdown (default: 10).")  # fmt: skip
@click.option("--keep-days", type=POSITIVE, help="Retention of sessions and traces in days (default: 90).")
@with_common_options
def command(
    context: CliContext,
    /,
    host: str,
    port: int,
    models: tuple[str, ...],
    tools: tuple[str, ...],
    any_model: bool,
    token_file: Path | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    workers: int,
    keep_days: float | None,
    **overrides: Any,
) -> None:
    """Serve a web UI, an OpenAI-compatible API under /v1, sessions and traces.

    \b
        ragkit serve
        ragkit serve --model openai:gpt-4o-mini --port 8000
        ragkit serve --tool calculator --tool web_search
        RAGKIT_SERVER_TOKEN=... ragkit serve --host 0.0.0.0 --workers 4
    """
    try:
        from ragkit.agent.tools.served import get_builtin_tool
        from ragkit.server.serve import run, run_workers, socket_url, split_limits
        from ragkit.server.settings import Retention, ServerLimits, ServerSettings
    except ImportError as error:
        if isinstance(error, RagkitError):
            raise
        raise MissingExtra("`ragkit serve`", "server") from error
    limits = ServerLimits(**{name: value for name, value in overrides.items() if value is not None})
    retention = Retention() if keep_days is None else Retention(days=keep_days)
    tokens = load_tokens(context, token_file)
    settings = ServerSettings(
        host, port, tokens, hosts, origins, models, tools, any_model, split_limits(limits, workers), retention
    )
    with context.open_knowledge_base() as kb:
        for model in models or (None,):
            kb.agent(model)  # fail now, not at the first request, if a model cannot be used
        for name in tools:
            get_builtin_tool(name)  # likewise, if it needs a package
        sock = bind_socket(settings)
        context.log(f"serving {context.kb} at {socket_url(sock)} (press Ctrl-C to stop)")
        if context.json:
            context.write_json({"url": socket_url(sock), "kb": str(context.kb)})
        configure_logging(context)
        if workers == 1:
            run(create_application(kb, settings), settings, sock, last=True)
            return
    os.environ[TOKEN_ENV] = "\n".join(settings.tokens)
    worker = {"kb": str(context.kb), "config": context.config, "quiet": context.quiet}
    os.environ[WORKER_ENV] = json.dumps({**worker, "settings": {**asdict(settings), "tokens": []}})
    run_workers("ragkit.cli.serve_:create_worker_application", settings, sock, workers)


def create_application(kb: KnowledgeBase, settings: ServerSettings, *, alone: bool = True) -> FastAPI:
    """The application for a knowledge base, with MCP at /mcp if it is installed.

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
    """The application of a worker process, configured by WORKER_ENV."""
    from pydantic import TypeAdapter

    from ragkit.server.settings import ServerSettings

    worker = json.loads(os.environ[WORKER_ENV])
    context = CliContext(Path(worker["kb"]), worker["config"], worker["quiet"], verbose=False, json=False)
    tokens = load_tokens(context, None)
    settings = TypeAdapter(ServerSettings).validate_python({**worker["settings"], "tokens": tokens})
    configure_logging(context)
    return create_application(context.open_knowledge_base(), settings, alone=False)


def bind_socket(settings: ServerSettings) -> socket.socket:
    """The listening socket. Raises InvalidOption if the address cannot be used."""
    from ragkit.server.serve import create_socket

    try:
        return create_socket(settings)
    except OSError as error:
        address = f"{settings.host}:{settings.port}"
        expected = f"a free address of this machine ({error.strerror}), such as with --port 0"
        raise InvalidOption("address", address, expected) from error


def load_tokens(context: CliContext, file: Path | None) -> tuple[str, ...]:
    """The bearer tokens of the environment and a file. Logs a note if other users can read the file."""
    if file and file.stat().st_mode & 0o077:
        context.log(f"note: {file} is readable by other users: chmod 600 {file}")
    text = os.environ.get(TOKEN_ENV, "") + "\n" + (file.read_text("utf-8") if file else "")
    return tuple(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


def configure_logging(context: CliContext) -> None:
    """Log to stderr; with -q, warnings and errors only."""
    from ragkit.server.logs import log_to_stderr

    log_to_stderr("WARNING" if context.quiet else "INFO")

"""`ragkit serve`: serve a web UI and an OpenAI-compatible API."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragkit.cli.common import CliContext, with_common_options
from ragkit.errors import InvalidOption, MissingExtra, NotAKnowledgeBase, RagkitError
from ragkit.knowledge_base.knowledge_base import KnowledgeBase

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ragkit.server.base_folder import BaseFolder
    from ragkit.server.settings import ServerSettings

TOKEN_ENV = "RAGKIT_SERVER_TOKEN"  # noqa: S105 - the name of a variable
PROXY_SECRET_ENV = "RAGKIT_PROXY_SECRET"  # noqa: S105 - the name of a variable
STATE_FILE = "server.sqlite"
"""A directory with this file was served before; without it, only an empty one may be filled."""
WORKER_ENV = "RAGKIT_SERVER_WORKER"
"""Environment variable with the settings for worker processes, as JSON, without tokens."""
SOCKET_ENV = "RAGKIT_SERVER_SOCKET"
"""Environment variable with the number of the listening socket, for a server that starts again."""
SERVED_TOOLS = ("calculator", "web_search")
POSITIVE = click.FloatRange(min=0, min_open=True)


@click.command()
@click.option("--host", default="127.0.0.1", help="Address to listen on (default: 127.0.0.1).")
@click.option("--port", default=8321, type=click.IntRange(0, 65535), metavar="N",
              help="Port to listen on (default: 8321); 0: any free port.")  # fmt: skip
@click.option("--model", "models", multiple=True, metavar="PROVIDER:MODEL",
              help="Model (default: that of the pipeline). Repeat to offer more models.")  # fmt: skip
@click.option("--tool", "tools", multiple=True, type=click.Choice(SERVED_TOOLS), metavar="NAME",
              help="Tool of the server's agent: calculator or web_search (DuckDuckGo). Repeatable.")  # fmt: skip
@click.option(
    "--accept-unknown-models",
    "any_model",
    is_flag=True,
    help="Answer requests for unknown models with the default model.",
)
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help=f"Bearer tokens, one per line (also {TOKEN_ENV}). Required unless on loopback.")  # fmt: skip
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Additional allowed Host name.")
@click.option("--allow-origin", "origins", multiple=True, metavar="URL", help="Allowed CORS origin.")
@click.option("--root", "roots", multiple=True, type=click.Path(exists=True, file_okay=False, resolve_path=True),
              metavar="DIR", help="Folder below which local clients may add folders; repeatable.")  # fmt: skip
@click.option("--kb-folder", type=click.Path(file_okay=False, resolve_path=True, path_type=Path), metavar="DIR",
              help="Serve the knowledge bases of a folder, which the owner may change in the page.")  # fmt: skip
@click.option("--watch-interval", "watch_seconds", type=POSITIVE, metavar="SECONDS",
              help="Look at the sources this often, and index what has changed.")  # fmt: skip
@click.option("--upload-quota", "upload_bytes", type=click.IntRange(min=1), metavar="BYTES",
              help="Maximum bytes of all uploaded files (default: 2,000,000,000).")  # fmt: skip
@click.option("--max-index-cost", "index_usd", type=POSITIVE, metavar="USD",
              help="Estimated cost of an index job above which it must be confirmed (default: 1).")  # fmt: skip
@click.option("--otel", is_flag=True,
              help="Export traces with OpenTelemetry (also where its variables OTEL_... say where to).")  # fmt: skip
@click.option("--workers", default=1, type=click.IntRange(1, 64), metavar="N",
              help="Number of worker processes (default: 1).")  # fmt: skip
@click.option("--max-running", type=click.IntRange(min=1), help="Maximum running answers (default: 16).")
@click.option("--max-waiting", type=click.IntRange(min=0), help="Maximum waiting answers (default: 128).")
@click.option("--max-connections", type=click.IntRange(min=1), help="Maximum open connections (default: 1000).")
@click.option("--max-client-connections", "max_connections_per_client", type=click.IntRange(min=1),
              help="Maximum open connections of one address (default: 250).")  # fmt: skip
@click.option("--max-seconds", "answer_seconds", type=POSITIVE, help="Timeout of one answer (default: 120).")
@click.option("--max-question", "question_chars", type=click.IntRange(min=1), metavar="CHARACTERS",
              help="Maximum characters of a question (default: 20,000).")  # fmt: skip
@click.option("--max-iterations", type=click.IntRange(min=1),
              help="Maximum requests to the model for one answer (default: 10).")  # fmt: skip
@click.option("--max-cost", "answer_usd", type=POSITIVE, metavar="USD",
              help="Maximum cost of one answer (default: 0.25).")  # fmt: skip
@click.option("--rate", "requests_per_minute", type=click.IntRange(min=1),
              help="Requests per minute and token (default: 600).")  # fmt: skip
@click.option("--shutdown-timeout", "shutdown_seconds", type=POSITIVE, metavar="SECONDS",
              help="Time for running answers to finish at shutdown (default: 10).")  # fmt: skip
@click.option("--no-cache", is_flag=True, help="Answer a question anew, also if it was asked before.")
@click.option("--keep-days", type=POSITIVE, help="Retention of sessions and traces in days (default: 90).")
@click.option("--keep-sessions", type=click.IntRange(min=1),
              help="Maximum conversations of one user (default: 10,000).")  # fmt: skip
@click.option("--keep-mb", type=POSITIVE, metavar="MB",
              help="Maximum size of the conversations of one user (default: 1000).")  # fmt: skip
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
    roots: tuple[str, ...],
    kb_folder: Path | None,
    watch_seconds: float | None,
    otel: bool,
    workers: int,
    no_cache: bool,
    keep_days: float | None,
    keep_sessions: int | None,
    keep_mb: float | None,
    **overrides: Any,
) -> None:
    """Serve a web UI, an OpenAI-compatible API under /v1, sessions and traces.

    \b
        ragkit serve
        ragkit serve --model openai:gpt-4o-mini --port 8000
        ragkit serve --tool calculator --tool web_search
        ragkit serve --kb notes=.ragkit --kb team=postgresql://db.example/team
        ragkit serve --kb-folder bases/
        RAGKIT_SERVER_TOKEN=... ragkit serve --host 0.0.0.0 --workers 4
    """
    try:
        from ragkit.agent.tools.served import get_builtin_tool
        from ragkit.server.base_folder import BaseFolder
        from ragkit.server.serve import run, run_workers, socket_url, split_limits
        from ragkit.server.settings import Retention, ServerLimits, ServerSettings
    except ImportError as error:
        if isinstance(error, RagkitError):
            raise
        raise MissingExtra("`ragkit serve`", "server") from error
    base_folder = None if kb_folder is None else BaseFolder(kb_folder)
    if base_folder is not None:
        current = click.get_current_context()
        if workers > 1 or current.params.get("kb_") or (current.obj or {}).get("kb"):
            raise click.UsageError("--kb-folder goes without --kb, and with one worker")
        named = {name: str(directory) for name, directory in base_folder.open().items()}
        context = replace(context, kb=Path(next(iter(named.values()))), address="", bases=named)
    if no_cache:
        overrides["cached_answers"] = 0
    limits = ServerLimits(**{name: value for name, value in overrides.items() if value is not None})
    kept: dict[str, Any] = {"days": keep_days, "max_sessions": keep_sessions}
    kept["max_bytes"] = None if keep_mb is None else max(1, round(keep_mb * 1e6))
    retention = Retention(**{name: value for name, value in kept.items() if value is not None})
    tokens = load_tokens(context, token_file)
    shares = split_limits(limits, workers, one_rate=counts_together(context))
    settings = ServerSettings(
        host, port, tokens, hosts, origins, models, tools, roots, watch_seconds or 0.0,
        otel or is_otel_requested(), any_model, shares, retention, os.environ.get(PROXY_SECRET_ENV, ""),
    )  # fmt: skip
    with ExitStack() as stack:
        bases = {name: stack.enter_context(open_or_create(one)) for name, one in named_contexts(context).items()}
        for kb in bases.values():
            for model in models or (None,):
                kb.agent(model)  # fail now, not at the first request, if a model cannot be used
        for name in tools:
            get_builtin_tool(name)  # likewise, if it needs a package
        again = SOCKET_ENV in os.environ
        sock = bind_socket(settings)
        places = ", ".join(f"{name}={one.place}".lstrip("=") for name, one in named_contexts(context).items())
        context.log(f"serving {places} at {socket_url(sock)} (press Ctrl-C to stop)")
        if context.json and not again:
            context.write_json({"url": socket_url(sock), "kb": context.place})
        configure_logging(context)
        if workers == 1:
            listening = None if base_folder is None else os.dup(sock.fileno())  # the server closes its own
            application = create_application(bases, settings, base_folder=base_folder)
            signals = run(application, settings, sock, last=base_folder is None)
    if workers == 1:
        if base_folder is not None and listening is not None and base_folder.ends_server and signals == 1:  # its own
            start_again(listening)
        return
    os.environ[TOKEN_ENV] = "\n".join(settings.tokens)
    own_places = dict(context.bases) or {"": context.address or str(context.kb)}
    public = {name: value for name, value in asdict(settings).items() if name not in ("tokens", "proxy_secret")}
    worker = {"bases": own_places, "config": context.config, "quiet": context.quiet, "settings": public}
    os.environ[WORKER_ENV] = json.dumps(worker)
    run_workers("ragkit.cli.commands.serve:create_worker_application", settings, sock, workers)


def start_again(listening: int) -> None:
    """Replace this process by a new one of the same command, which takes over the listening socket."""
    os.set_inheritable(listening, True)
    os.execve(sys.executable, sys.orig_argv, {**os.environ, SOCKET_ENV: str(listening)})  # noqa: S606 - its own command


def counts_together(context: CliContext) -> bool:
    """Whether the state of the server, that of its first knowledge base, is in a database."""
    return bool(next(iter(named_contexts(context).values())).address)


def is_otel_requested() -> bool:
    """Whether the variables of OpenTelemetry say where traces go, and it is installed."""
    with suppress(MissingExtra):
        from ragkit.agent.exporters.otel import is_requested

        return is_requested(os.environ)
    return False


def named_contexts(context: CliContext) -> dict[str, CliContext]:
    """The context of each knowledge base by name; of one without a name, by ''."""
    return {
        name: CliContext.for_place(place, context.config, quiet=context.quiet, verbose=context.verbose, json=False)
        for name, place in context.bases.items()
    } or {"": context}


def create_application(
    bases: Mapping[str, KnowledgeBase],
    settings: ServerSettings,
    *,
    alone: bool = True,
    base_folder: BaseFolder | None = None,
) -> FastAPI:
    """The application for knowledge bases by name, with MCP at /mcp if it is installed.

    `alone`: no other process serves the same port. `base_folder`: where owners may change them.
    """
    from ragkit.server.app import Mount, create_app
    from ragkit.server.bases import Base

    kb = next(iter(bases.values()))
    named = None if "" in bases else bases
    mounts = []
    with suppress(MissingExtra):
        from ragkit.server.mcp.http import MCP_PATH, create_mcp_endpoint

        endpoint = create_mcp_endpoint(kb, settings, named, stateless=not alone)
        mounts.append(Mount(MCP_PATH, endpoint, endpoint.lifespan, exact=True))
    for base in bases.values():
        base.location.follow("server")
    served = None if named is None else {name: Base(base, base.path) for name, base in named.items()}
    return create_app(kb, kb.path, settings, mounts, served, base_folder)


def create_worker_application() -> FastAPI:
    """The application of a worker process, configured by WORKER_ENV."""
    from pydantic import TypeAdapter

    from ragkit.server.settings import ServerSettings

    worker = json.loads(os.environ[WORKER_ENV])
    contexts = {
        name: CliContext.for_place(place, worker["config"], quiet=worker["quiet"], verbose=False, json=False)
        for name, place in worker["bases"].items()
    }
    context = next(iter(contexts.values()))
    tokens = load_tokens(context, None)
    settings = TypeAdapter(ServerSettings).validate_python(
        {**worker["settings"], "tokens": tokens, "proxy_secret": os.environ.get(PROXY_SECRET_ENV, "")}
    )
    configure_logging(context)
    return create_application({name: open_or_create(one) for name, one in contexts.items()}, settings, alone=False)


def open_or_create(context: CliContext) -> KnowledgeBase:
    """The knowledge base, or an empty directory that clients fill; a database must hold one.

    Raises NotAKnowledgeBase, SettingsMismatch.
    """
    is_directory = context.kb.is_dir()
    is_other = any(context.kb.iterdir()) and not (context.kb / STATE_FILE).exists() if is_directory else False
    if context.address or is_other or (context.kb.exists() and not is_directory):
        return context.open_knowledge_base()
    kb = KnowledgeBase.open(context.kb, context.load_pipeline())
    try:
        kb.location.require_exists()
    except NotAKnowledgeBase:
        context.kb.mkdir(parents=True, exist_ok=True, mode=0o700)
        context.log(f"{context.kb} is not a knowledge base yet: upload files on the page, or `ragkit index FOLDER`")
    return kb


def bind_socket(settings: ServerSettings) -> socket.socket:
    """The listening socket. Raises InvalidOption if the address cannot be used."""
    from ragkit.server.serve import create_socket

    inherited = os.environ.pop(SOCKET_ENV, "")
    if inherited:
        return socket.socket(fileno=int(inherited))
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
    from ragkit.server.logs import log_everything

    log_everything("WARNING" if context.quiet else "INFO")

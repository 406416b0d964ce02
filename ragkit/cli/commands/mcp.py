"""`ragkit mcp`: serve the knowledge base to MCP clients, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragkit.cli.commands.serve import PROXY_SECRET_ENV, TOKEN_ENV, bind_socket, configure_logging, load_tokens
from ragkit.cli.common import CliContext, format_count, with_common_options
from ragkit.cli.costs import max_cost_option
from ragkit.index.report import IndexReport
from ragkit.masking import HIDDEN
from ragkit.records import JSON

if TYPE_CHECKING:
    from ragkit.server.mcp.server import McpServer
    from ragkit.server.principals import AccessControl
    from ragkit.server.settings import ServerSettings


@click.command()
@click.option("--http", is_flag=True, help="Serve over streamable HTTP instead of stdin and stdout.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: address to listen on.")
@click.option("--port", default=8322, show_default=True, type=click.IntRange(0, 65535), help="0: any free port.")
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help=f"Bearer tokens, one per line (also {TOKEN_ENV}). Required unless on loopback.")  # fmt: skip
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Additional allowed Host name.")
@click.option("--allow-origin", "origins", multiple=True, metavar="URL", help="Allowed CORS origin.")
@click.option("--allow-index", is_flag=True, help="Allow clients to update the index from its sources.")
@click.option("--model", metavar="PROVIDER:MODEL", help="Model of `ask` (default: that of the pipeline).")
@max_cost_option("Maximum cost of one answer")
@click.option("--client-config", is_flag=True, help="Print the configuration for an MCP client and exit.")
@with_common_options
def command(
    context: CliContext,
    http: bool,
    host: str,
    port: int,
    token_file: Path | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    allow_index: bool,
    model: str | None,
    max_cost: float | None,
    client_config: bool,
) -> None:
    """Serve the knowledge base to MCP clients: assistants, editors, agents. Read-only by default.

    \b
        ragkit mcp --client-config
        ragkit mcp --kb ~/notes/.ragkit
        ragkit mcp --http
    """
    if client_config:
        extra = [*(["--allow-index"] if allow_index else []), *(["--model", model] if model else [])]
        context.write_json(_client_config(context, extra))
        return
    # imported here, because --client-config works without the SDK
    from ragkit.server.mcp.server import McpServer
    from ragkit.server.mcp.tools import McpAskOptions, McpTools
    from ragkit.server.principals import AccessControl, restrict
    from ragkit.server.settings import ServerSettings

    with context.open_knowledge_base() as kb:
        with kb.session() as session:
            session.require_ready()
        kb.agent(model)  # fail now, not at the first question, if the model cannot be used
        kb.location.follow()
        index = (lambda: _run_index(context)) if allow_index else None
        options = McpAskOptions(model, max_cost)
        if http:
            secret = os.environ.get(PROXY_SECRET_ENV, "")
            tokens = load_tokens(context, token_file)
            settings = ServerSettings(host, port, tokens, hosts, origins, proxy_secret=secret)
            server = McpServer(McpTools(restrict(kb, ""), options, index))
            _serve_http(context, server, settings, AccessControl({"": kb.location.access}, secret))
            return
        server = McpServer(McpTools(kb, options, index))
        context.log(
            f"{format_count(kb.status().documents, 'document')} of {context.place} over stdin and stdout", level=1
        )
        if sys.stdin.isatty():
            context.log(
                "MCP clients start this command themselves: see `ragkit mcp --client-config`; press Ctrl-C to stop"
            )
        asyncio.run(server.serve_stdio())


def _serve_http(context: CliContext, server: McpServer, settings: ServerSettings, access: AccessControl) -> None:
    from ragkit.server.mcp.http import MCP_PATH, create_mcp_app
    from ragkit.server.serve import run, socket_url

    sock = bind_socket(settings)
    address = f"{socket_url(sock)}{MCP_PATH}"
    context.log(f"serving {context.place} at {address} (press Ctrl-C to stop)")
    if context.json:
        context.write_json({"url": address, "kb": context.place})
    configure_logging(context)
    run(create_mcp_app(server, settings, access), settings, sock, last=True)


def _run_index(context: CliContext) -> IndexReport:
    """Update the index from its sources, with its own instance: searches continue meanwhile."""
    with context.open_knowledge_base() as kb:
        return kb.index()


def _address_without_password(context: CliContext) -> str:
    """The knowledge base in a configuration: a password is left to `~/.pgpass` or the environment."""
    if not context.address:
        return str(context.kb.resolve())
    return context.place.replace(f":{HIDDEN}@", "@")


def _client_config(context: CliContext, extra: list[str]) -> dict[str, JSON]:
    """The configuration with which most MCP clients start this server."""
    program = shutil.which("ragkit")
    executable = [program] if program else [sys.executable, "-m", "ragkit"]
    config = ["--config", str(Path(context.config).resolve())] if context.config else []
    arguments: list[JSON] = [*executable[1:], "mcp", "--kb", _address_without_password(context), *config, *extra]
    return {"mcpServers": {"ragkit": {"command": executable[0], "args": arguments}}}

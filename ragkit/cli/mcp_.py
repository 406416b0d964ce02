"""`ragkit mcp`: the knowledge base for MCP clients, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragkit.cli.common import CliContext, format_count, with_common_options
from ragkit.cli.costs import max_cost_option
from ragkit.cli.serve_ import TOKEN_ENV, bind_socket, configure_logging, load_tokens
from ragkit.index.report import IndexReport
from ragkit.records import JSON

if TYPE_CHECKING:
    from ragkit.server.mcp import McpServer
    from ragkit.server.settings import ServerSettings


@click.command()
@click.option("--http", is_flag=True, help="Serve over streamable HTTP instead of stdin and stdout.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: the address to listen on.")
@click.option("--port", default=8322, show_default=True, type=click.IntRange(0, 65535), help="0: any free one.")
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help=f"Bearer tokens, one a line (also {TOKEN_ENV}). Needed beyond loopback.")  # fmt: skip
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A further name that it is asked for by.")
@click.option("--allow-origin", "origins", multiple=True, metavar="URL", help="A site whose pages may ask.")
@click.option("--allow-index", is_flag=True, help="Let clients bring the index in line with its own sources.")
@click.option("--model", metavar="PROVIDER:MODEL", help="Who answers `ask` (default: as the pipeline says).")
@max_cost_option("Do not begin an answer that is likely to cost more, and stop it when it does")
@click.option("--client-config", is_flag=True, help="Print what goes into an MCP client's settings, and end.")
@with_common_options
def command(
    shell: CliContext,
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
    """Serve the knowledge base to MCP clients: assistants, editors, agents. They can read it, and no more.

    \b
        ragkit mcp --client-config
        ragkit mcp --kb ~/notes/.ragkit
        ragkit mcp --http
    """
    if client_config:
        extra = [*(["--allow-index"] if allow_index else []), *(["--model", model] if model else [])]
        shell.write_json(_client_config(shell, extra))
        return
    # imported here, because --client-config works without the SDK
    from ragkit.server.mcp import McpServer
    from ragkit.server.mcp_tools import McpAskOptions, McpTools
    from ragkit.server.settings import ServerSettings

    with shell.open_knowledge_base() as kb:
        kb.require_ready()
        kb.agent(model)  # a model that cannot be asked is met now, not by the first question
        index = (lambda: _run_index(shell)) if allow_index else None
        server = McpServer(McpTools(kb, McpAskOptions(model, max_cost), index))
        if http:
            settings = ServerSettings(host, port, load_tokens(shell, token_file), hosts, origins)
            _serve_http(shell, server, settings)
            return
        shell.log(f"{format_count(kb.status().documents, 'document')} of {shell.kb} over stdin and stdout", level=1)
        if sys.stdin.isatty():
            shell.log("an MCP client starts this by itself: `ragkit mcp --client-config` says how; Ctrl-C ends it")
        asyncio.run(server.serve_stdio())


def _serve_http(shell: CliContext, server: McpServer, settings: ServerSettings) -> None:
    from ragkit.server.mcp_http import MCP_PATH, create_mcp_app
    from ragkit.server.serve import run, socket_url

    sock = bind_socket(settings)
    address = f"{socket_url(sock)}{MCP_PATH}"
    shell.log(f"{shell.kb} is served at {address} (Ctrl-C stops it)")
    if shell.json:
        shell.write_json({"url": address, "kb": str(shell.kb)})
    configure_logging(shell)
    run(create_mcp_app(server, settings), settings, sock, last=True)


def _run_index(shell: CliContext) -> IndexReport:
    """Bring the knowledge base in line with the sources that it has. Its own instance: searches go on beside it."""
    with shell.open_knowledge_base() as kb:
        return kb.index(*kb.status().sources)


def _client_config(shell: CliContext, extra: list[str]) -> dict[str, JSON]:
    """The entry that most MCP clients take: how to start this server for this knowledge base."""
    program = shutil.which("ragkit")
    start = [program] if program else [sys.executable, "-m", "ragkit"]
    config = ["--config", str(Path(shell.config).resolve())] if shell.config else []
    arguments: list[JSON] = [*start[1:], "mcp", "--kb", str(shell.kb.resolve()), *config, *extra]
    return {"mcpServers": {"ragkit": {"command": start[0], "args": arguments}}}

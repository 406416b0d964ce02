"""`ragkit rm`: take files and folders out of the knowledge base."""

from __future__ import annotations

import click

from ragkit.cli import EXIT_ERROR
from ragkit.cli.common import CliContext, format_count, with_common_options


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@with_common_options
def command(shell: CliContext, sources: tuple[str, ...]) -> int:
    """Take files out, and folders with all below them. The files themselves are not touched."""
    with shell.open_knowledge_base() as kb:
        removed = kb.remove(*sources)
    if shell.json:
        shell.write_json({"kb": str(shell.kb), "removed": removed})
    else:
        shell.write(f"{format_count(removed, 'document')} removed")
    if not removed:
        shell.log("nothing of that name is in it: see ragkit list")
    return 0 if removed else EXIT_ERROR

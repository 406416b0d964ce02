"""`ragkit rm`: take files and folders out of the knowledge base."""

from __future__ import annotations

import click

from ragkit.cli import EXIT_ERROR
from ragkit.cli.common import Shell, figures, verb


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@verb
def command(shell: Shell, sources: tuple[str, ...]) -> int:
    """Take files out, and folders with all below them. The files themselves are not touched."""
    with shell.open() as kb:
        removed = kb.remove(*sources)
    if shell.json:
        shell.out_json({"kb": str(shell.kb), "removed": removed})
    else:
        shell.out(f"{figures(removed, 'document')} removed")
    if not removed:
        shell.say("nothing of that name is in it: see ragkit list")
    return 0 if removed else EXIT_ERROR

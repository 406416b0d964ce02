"""`ragkit clear`: take everything out of the knowledge base."""

from __future__ import annotations

import sys

import click

from ragkit.cli.common import Shell, figures, verb


@click.command()
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@verb
def command(shell: Shell, yes: bool) -> None:
    """Take every document and vector out. The files themselves are not touched."""
    with shell.open() as kb:
        count = kb.status().documents
        if count and not yes:
            if not sys.stdin.isatty():
                raise click.UsageError(f"{figures(count, 'document')} would go: say --yes")
            click.confirm(f"take {figures(count, 'document')} out of {shell.kb}?", abort=True, err=True)
        kb.clear()
    if shell.json:
        shell.out_json({"kb": str(shell.kb), "removed": count})
    else:
        shell.out(f"{figures(count, 'document')} removed")

"""`ragkit clear`: take everything out of the knowledge base."""

from __future__ import annotations

import sys

import click

from ragkit.cli.common import CliContext, format_count, with_common_options


@click.command()
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@with_common_options
def command(shell: CliContext, yes: bool) -> None:
    """Take every document and vector out. The files themselves are not touched."""
    with shell.open_knowledge_base() as kb:
        count = kb.status().documents
        if count and not yes:
            if not sys.stdin.isatty():
                raise click.UsageError(f"{format_count(count, 'document')} would go: say --yes")
            click.confirm(f"take {format_count(count, 'document')} out of {shell.kb}?", abort=True, err=True)
        kb.clear()
    if shell.json:
        shell.write_json({"kb": str(shell.kb), "removed": count})
    else:
        shell.write(f"{format_count(count, 'document')} removed")

"""`ragkit clear`: remove all documents from the knowledge base."""

from __future__ import annotations

import sys

import click

from ragkit.cli.common import CliContext, format_count, with_common_options


@click.command()
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@with_common_options
def command(context: CliContext, yes: bool) -> None:
    """Remove all documents and vectors from the index. Source files are not touched."""
    with context.open_knowledge_base() as kb:
        count = kb.status().documents
        if count and not yes:
            if not sys.stdin.isatty():
                raise click.UsageError(f"{format_count(count, 'document')} would be removed: confirm with --yes")
            click.confirm(f"remove {format_count(count, 'document')} from {context.place}?", abort=True, err=True)
        kb.clear()
    if context.json:
        context.write_json({"kb": context.place, "removed": count})
    else:
        context.write(f"{format_count(count, 'document')} removed")

"""`ragkit remove`: remove files and folders from the index."""

from __future__ import annotations

import click

from ragkit.cli import EXIT_ERROR
from ragkit.cli.common import CliContext, format_count, with_common_options


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@with_common_options
def command(context: CliContext, sources: tuple[str, ...]) -> int:
    """Remove files, and folders with everything below them, from the index. Source files are not touched."""
    with context.open_knowledge_base() as kb:
        removed = kb.remove(*sources)
    if context.json:
        context.write_json({"kb": context.place, "removed": removed})
    else:
        context.write(f"{format_count(removed, 'document')} removed")
    if not removed:
        context.log("no documents match: see ragkit list")
    return 0 if removed else EXIT_ERROR

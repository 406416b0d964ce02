"""`ragkit status`: show what the knowledge base holds."""

from __future__ import annotations

import click

from ragkit.cli.common import CliContext, format_count, format_size, with_common_options
from ragkit.index.source_ids import display_name


@click.command()
@with_common_options
def command(context: CliContext) -> None:
    """Show what the knowledge base holds, and the settings it was built with."""
    with context.open_knowledge_base() as kb:
        status = kb.status()
    if context.json:
        context.write_json(status.to_json())
        return
    context.write(f"{status.kb}: {format_count(status.documents, 'document')}, {format_count(status.chunks, 'chunk')}, "
              f"{format_size(status.bytes)} on disk")  # fmt: skip
    if status.failed:
        context.write(f"{format_count(status.failed, 'file')} could not be read: see ragkit list --failed")
    context.write(f"sources: {', '.join(display_name(source) for source in status.sources) or 'none'}")
    split, embed = status.settings["split"], status.settings["embed"]
    assert isinstance(split, dict) and isinstance(embed, dict)  # noqa: S101 - sections of the settings
    context.write(f"chunks: {split['name']}, {split.get('chunk_size')} {split.get('unit')} with "
              f"overlap {split.get('chunk_overlap')}; embedder: {embed['fingerprint']}; "
              f"store: {kb.pipeline.store.name}")  # fmt: skip
    if status.stale:
        context.write(f"{format_count(status.stale, 'file')} changed since the last run: run ragkit index")

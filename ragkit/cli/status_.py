"""`ragkit status`: what is in the knowledge base."""

from __future__ import annotations

import click

from ragkit.cli.common import CliContext, format_count, format_size, with_common_options
from ragkit.index.source_ids import display_name


@click.command()
@with_common_options
def command(shell: CliContext) -> None:
    """Say what is in the knowledge base, and what it was built with."""
    with shell.open_knowledge_base() as kb:
        status = kb.status()
    if shell.json:
        shell.write_json(status.to_json())
        return
    shell.write(f"{status.kb}: {format_count(status.documents, 'document')}, {format_count(status.chunks, 'chunk')}, "
              f"{format_size(status.bytes)} on disk")  # fmt: skip
    if status.failed:
        shell.write(f"{format_count(status.failed, 'file')} could not be read: ragkit list --failed")
    shell.write(f"sources: {', '.join(display_name(source) for source in status.sources) or 'none'}")
    split, embed = status.settings["split"], status.settings["embed"]
    assert isinstance(split, dict) and isinstance(embed, dict)  # noqa: S101 - a recipe's own
    shell.write(f"chunks: {split['name']}, {split.get('chunk_size')} {split.get('unit')} with "
              f"{split.get('chunk_overlap')} of overlap; embedder: {embed['fingerprint']}; "
              f"store: {kb.pipeline.store.name}")  # fmt: skip
    if status.stale:
        shell.write(f"{format_count(status.stale, 'file')} changed since it was built: ragkit index")

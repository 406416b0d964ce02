"""`ragkit status`: what is in the knowledge base."""

from __future__ import annotations

import click

from ragkit.cli.common import Shell, figures, size, verb
from ragkit.index.names import shown


@click.command()
@verb
def command(shell: Shell) -> None:
    """Say what is in the knowledge base, and what it was built with."""
    with shell.open() as kb:
        status = kb.status()
    if shell.json:
        shell.out_json(status.to_json())
        return
    shell.out(f"{status.kb}: {figures(status.documents, 'document')}, {figures(status.chunks, 'chunk')}, "
              f"{size(status.bytes)} on disk")  # fmt: skip
    if status.failed:
        shell.out(f"{figures(status.failed, 'file')} could not be read: ragkit list --failed")
    shell.out(f"sources: {', '.join(shown(source) for source in status.sources) or 'none'}")
    split, embed = status.settings["split"], status.settings["embed"]
    assert isinstance(split, dict) and isinstance(embed, dict)  # noqa: S101 - a recipe's own
    shell.out(f"chunks: {split['name']}, {split.get('chunk_size')} {split.get('unit')} with "
              f"{split.get('chunk_overlap')} of overlap; embedder: {embed['fingerprint']}; "
              f"store: {kb.pipeline.store.name}")  # fmt: skip
    if status.stale:
        shell.out(f"{figures(status.stale, 'file')} changed since it was built: ragkit index")

"""`ragkit status`: show what the knowledge base holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ragkit.cli.common import CliContext, format_count, format_size, with_common_options
from ragkit.index.sources.ids import display_name

if TYPE_CHECKING:
    from ragkit.index.catalog.postgres_replicas import DatabaseStatus


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
    if status.database is not None:
        write_database(context, status.database)
    if status.embedded < status.chunks:
        context.write(f"{status.embedded:,} of {status.chunks:,} chunks embedded: searches embed what they need, "
                      "`ragkit index` all of them")  # fmt: skip
    if status.language_note:
        context.write(status.language_note)
    if status.failed:
        context.write(f"{format_count(status.failed, 'file')} could not be read: see ragkit list --failed")
    context.write(f"sources: {', '.join(display_name(source) for source in status.sources) or 'none'}")
    split, embed = status.settings["split"], status.settings["embed"]
    assert isinstance(split, dict) and isinstance(embed, dict)  # noqa: S101 - sections of the settings
    context.write(f"chunks: {split['name']}, {split.get('chunk_size')} {split.get('unit')} with "
              f"overlap {split.get('chunk_overlap')}; embedder: {embed['fingerprint']}; "
              f"store: {kb.pipeline.store.name}")  # fmt: skip
    if status.stale:
        context.write(f"{format_count(status.stale, 'file')} changed or deleted since the last run: run ragkit index")
    others = sorted(path.name for path in kb.location.path.glob("store-*") if path.name != f"store-{status.store}")
    if others:
        context.write(f"left by other stores: {', '.join(others)} (ragkit copy --to goes back; else delete them)")


def write_database(context: CliContext, database: DatabaseStatus) -> None:
    """Write where the knowledge base is, how far the local copy is behind, and who uses it."""
    late = f"{format_count(database.generations_behind, 'publication')} and {database.seconds_behind:.0f} s behind"
    lag = late if database.generations_behind else "up to date"
    context.write(f"database: {database.name} on {database.host}, schema {database.schema}; "
                  f"publication {database.publication}, this copy is {lag}")  # fmt: skip
    for replica in database.replicas:
        count = replica.generations_behind
        behind = f", {format_count(count, 'publication')} behind" if count else ""
        seen = f"seen {replica.seen_seconds:.0f} s ago"
        context.write(f"{replica.kind}: process {replica.pid} on {replica.host}, {seen}{behind}")

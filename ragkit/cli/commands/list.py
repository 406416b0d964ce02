"""`ragkit list`: documents, chunks or failures, one per line."""

from __future__ import annotations

import click

from ragkit.cli.common import CliContext, chunk_json, format_location, with_common_options
from ragkit.index.sources.ids import display_name
from ragkit.records import JSON

PREVIEW_CHARS = 80


@click.command()
@click.option("--chunks", is_flag=True, help="List chunks.")
@click.option("--failed", is_flag=True, help="List files that could not be indexed.")
@with_common_options
def command(context: CliContext, chunks: bool, failed: bool) -> None:
    """List documents, chunks or failures. With --json, one JSON object per line."""
    with context.open_knowledge_base() as kb, kb.session() as session:
        if chunks:
            for chunk in session.chunks():
                if context.json:
                    context.write_json(chunk_json(chunk))
                else:
                    preview = " ".join(chunk.text.split())[:PREVIEW_CHARS]
                    context.write(f"{chunk.id}  {format_location(chunk)}  {preview}")
        elif failed:
            for row in session.failures():
                failure: dict[str, JSON] = {"source": display_name(row.source), "error": row.reason, "hint": row.hint}
                text = f"{failure['source']}: {row.reason} ({row.hint})"
                context.write_json(failure) if context.json else context.write(text)
        else:
            for source, title, count in session.documents():
                line: dict[str, JSON] = {"source": display_name(source), "title": title, "chunks": count}
                text = f"{count:6}  {display_name(source)}  {title}"
                context.write_json(line) if context.json else context.write(text)

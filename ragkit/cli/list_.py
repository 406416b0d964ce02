"""`ragkit list`: documents, chunks or failures, a line each."""

from __future__ import annotations

import click

from ragkit.cli.common import CliContext, chunk_json, format_location, with_common_options
from ragkit.index.source_ids import display_name
from ragkit.records import JSON

PREVIEW_CHARS = 80


@click.command()
@click.option("--chunks", is_flag=True, help="A line a chunk.")
@click.option("--failed", is_flag=True, help="The files that could not be indexed.")
@with_common_options
def command(shell: CliContext, chunks: bool, failed: bool) -> None:
    """List documents, chunks or failures. With --json, one JSON object a line."""
    with shell.open_knowledge_base() as kb:
        if chunks:
            for chunk in kb.chunks():
                if shell.json:
                    shell.write_json(chunk_json(chunk))
                else:
                    shell.write(f"{chunk.id}  {format_location(chunk)}  {' '.join(chunk.text.split())[:PREVIEW_CHARS]}")
        elif failed:
            for row in kb.failures():
                found: dict[str, JSON] = {"source": display_name(row.source), "error": row.reason, "hint": row.hint}
                shell.write_json(found) if shell.json else shell.write(f"{found['source']}: {row.reason} ({row.hint})")
        else:
            for source, title, count in kb.documents():
                line: dict[str, JSON] = {"source": display_name(source), "title": title, "chunks": count}
                shell.write_json(line) if shell.json else shell.write(f"{count:6}  {display_name(source)}  {title}")

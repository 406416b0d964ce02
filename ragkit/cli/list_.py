"""`ragkit list`: documents, chunks or failures, a line each."""

from __future__ import annotations

import click

from ragkit.cli.common import Shell, chunk_json, place, verb
from ragkit.index.names import shown
from ragkit.records import JSON

PREVIEW = 80


@click.command()
@click.option("--chunks", is_flag=True, help="A line a chunk.")
@click.option("--failed", is_flag=True, help="The files that could not be indexed.")
@verb
def command(shell: Shell, chunks: bool, failed: bool) -> None:
    """List documents, chunks or failures. With --json, one JSON object a line."""
    with shell.open() as kb:
        if chunks:
            for chunk in kb.chunks():
                if shell.json:
                    shell.out_json(chunk_json(chunk))
                else:
                    shell.out(f"{chunk.id}  {place(chunk)}  {' '.join(chunk.text.split())[:PREVIEW]}")
        elif failed:
            for row in kb.failures():
                found: dict[str, JSON] = {"source": shown(row.source), "error": row.reason, "hint": row.hint}
                shell.out_json(found) if shell.json else shell.out(f"{found['source']}: {row.reason} ({row.hint})")
        else:
            for source, title, count in kb.documents():
                line: dict[str, JSON] = {"source": shown(source), "title": title, "chunks": count}
                shell.out_json(line) if shell.json else shell.out(f"{count:6}  {shown(source)}  {title}")

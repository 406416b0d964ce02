"""`ragkit show`: a chunk, or a document as its loader read it."""

from __future__ import annotations

from pathlib import Path

import click

from ragkit.cli import EXIT_ERROR
from ragkit.cli.common import Shell, chunk_json, place, verb
from ragkit.index.names import shown, source_name
from ragkit.index.web import is_url, normal


@click.command()
@click.argument("id", metavar="ID|SOURCE")
@verb
def command(shell: Shell, id: str) -> int:
    """Show the chunk with this id, or the text of a document as it was indexed."""
    with shell.open() as kb:
        chunk = kb.chunk(id)
        document = None if chunk else kb.document(id) or kb.document(_name(id))
    if chunk is not None:
        if shell.json:
            shell.out_json(chunk_json(chunk))
        else:
            shell.out(f"{click.style(place(chunk), bold=True)}  {chunk.header}\n\n{chunk.text}")
        return 0
    if document is None:
        shell.say(f"error: {id!r} is neither the id of a chunk nor an indexed file: see ragkit list")
        return EXIT_ERROR
    if shell.json:
        shell.out_json({
            "id": document.id, "source": shown(document.source), "title": document.title, "format": document.format,
            "text": document.text, "metadata": dict(document.metadata),
        })  # fmt: skip
    else:
        shell.out(document.text)
    return 0


def _name(written: str) -> str:
    """The name of a source as a person writes it."""
    return normal(written) if is_url(written) else source_name(Path(written).resolve())

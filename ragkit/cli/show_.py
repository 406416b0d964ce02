"""`ragkit show`: a chunk, or a document as its loader read it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

from ragkit.cli import EXIT_ERROR
from ragkit.cli.common import CliContext, chunk_json, format_location, with_common_options
from ragkit.errors import LoadError
from ragkit.index.source_ids import display_name, source_id
from ragkit.index.web_pages import is_url, normalize_url


@click.command()
@click.argument("id", metavar="ID|SOURCE")
@with_common_options
def command(shell: CliContext, id: str) -> int:
    """Show the chunk with this id, or the text of a document as it was indexed."""
    name = id.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")  # bytes as sources have them
    with shell.open_knowledge_base() as kb:
        chunk = kb.chunk(name)
        document = None if chunk else next(filter(None, map(kb.document, _candidate_sources(name))), None)
    if chunk is not None:
        if shell.json:
            shell.write_json(chunk_json(chunk))
        else:
            shell.write(f"{click.style(format_location(chunk), bold=True)}  {chunk.header}\n\n{chunk.text}")
        return 0
    if document is None:
        shell.log(f"error: {id!r} is neither the id of a chunk nor an indexed file: see ragkit list")
        return EXIT_ERROR
    if shell.json:
        shell.write_json({
            "id": document.id, "source": display_name(document.source), "title": document.title, "format": document.format,
            "text": document.text, "metadata": dict(document.metadata),
        })  # fmt: skip
    else:
        shell.write(document.text)
    return 0


def _candidate_sources(written: str) -> Iterator[str]:
    """The names that a source may have, as a person writes it. They are looked up; no file is opened."""
    yield written
    if is_url(written):
        with suppress(LoadError):  # no URL after all
            yield normalize_url(written)
        return
    yield source_id(Path(os.path.abspath(written)))  # noqa: PTH100 - a link may stand there by now
    with suppress(OSError, RuntimeError, ValueError):  # a loop of links; a name that no file can have
        yield source_id(Path(written).resolve())

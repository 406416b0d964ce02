"""`ragkit show`: show a chunk or the indexed text of a document."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

from ragkit.cli import EXIT_ERROR
from ragkit.cli.common import CliContext, chunk_json, format_location, with_common_options
from ragkit.errors import LoadError
from ragkit.index.sources.ids import display_name, source_id
from ragkit.index.sources.web_pages import is_url, normalize_url


@click.command()
@click.argument("id", metavar="ID|SOURCE")
@with_common_options
def command(context: CliContext, id: str) -> int:
    """Show the chunk with this id, or the indexed text of a document."""
    name = id.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")  # as in source ids
    with context.open_knowledge_base() as kb, kb.session() as session:
        chunk = session.chunk(name)
        document = None if chunk else next(filter(None, map(session.document, _candidate_sources(name))), None)
    if chunk is not None:
        if context.json:
            context.write_json(chunk_json(chunk))
        else:
            context.write(f"{click.style(format_location(chunk), bold=True)}  {chunk.header}\n\n{chunk.text}")
        return 0
    if document is None:
        context.log(f"error: {id!r} is neither a chunk id nor an indexed file: see ragkit list")
        return EXIT_ERROR
    if context.json:
        context.write_json({
            "id": document.id, "source": display_name(document.source), "title": document.title,
            "format": document.format, "text": document.text, "metadata": dict(document.metadata),
        })  # fmt: skip
    else:
        context.write(document.text)
    return 0


def _candidate_sources(name: str) -> Iterator[str]:
    """The source ids that `name` may refer to. No file is opened."""
    yield name
    if is_url(name):
        with suppress(LoadError):  # not a valid URL
            yield normalize_url(name)
        return
    yield source_id(Path(os.path.abspath(name)))  # noqa: PTH100 - do not follow links
    with suppress(OSError, RuntimeError, ValueError):  # a loop of links, or an invalid file name
        yield source_id(Path(name).resolve())

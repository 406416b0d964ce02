"""`ragkit worker`: embed texts for index runs of other machines."""

from __future__ import annotations

import signal
from contextlib import closing
from threading import Event
from types import FrameType

import click

from ragkit.cli.common import CliContext, format_count, with_common_options
from ragkit.errors import InvalidOption


@click.command()
@click.option("--pipeline", metavar="FILE|NAME", help="Pipeline file, or name of a built-in pipeline.")
@click.option("--idle", type=click.FloatRange(min=0), metavar="SECONDS", help="Exit after this long without work.")
@with_common_options
def command(context: CliContext, pipeline: str | None, idle: float | None) -> None:
    """Embed texts for the index runs of a knowledge base in PostgreSQL, until Ctrl-C.

    Start any number of workers, on any machines: `ragkit index` shares its texts with them. A worker needs the database
    and the embedder, and no access to the documents.

    \b
        ragkit worker --kb 'postgresql://me@db.example.org/docs'
        ragkit worker --idle 60
    """
    if not context.address:
        expected = "the address of a database: a directory has no workers besides `ragkit index --jobs N`"
        raise InvalidOption("--kb", str(context.kb), expected)
    from ragkit.index.catalog.database_url import DatabaseUrl
    from ragkit.index.catalog.postgres import PostgresCatalog
    from ragkit.index.embedding_worker import EmbeddingWorker, run_worker
    from ragkit.pipeline.assemble import PipelineComponents
    from ragkit.pipeline.settings import Pipeline

    url = DatabaseUrl.parse(context.address)
    with closing(PostgresCatalog(url)) as database:
        database.create()
        stored = database.read_meta("pipeline")
    selected = context.load_pipeline(pipeline) or (Pipeline.from_yaml(stored) if stored else Pipeline.load("default"))
    stop = Event()

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    with EmbeddingWorker(url, PipelineComponents(selected).embedder, selected.name) as worker:
        context.log(f"waiting for texts of {context.place} (press Ctrl-C to stop)")
        embedded = run_worker(worker, stop, idle)
    if context.json:
        context.write_json({"embedded": embedded})
    else:
        context.write(f"{format_count(embedded, 'text')} embedded")

"""`ragkit sources`: the sources of a knowledge base with their last run."""

from __future__ import annotations

import click

from ragkit.cli.common import CliContext, format_count, with_common_options
from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.source_status import SourceStatus, read_source_statuses


@click.command()
@click.option("--pipeline", metavar="FILE|NAME", help="Pipeline file, or name of a built-in pipeline.")
@with_common_options
def command(context: CliContext, pipeline: str | None) -> None:
    """List the sources that `ragkit index` brings up to date. With --json, one JSON object per line."""
    with context.open_or_create(context.load_pipeline(pipeline), check=False) as kb:
        statuses = read_source_statuses(kb)
    for status in statuses:
        if context.json:
            context.write_json(status.to_json())
        else:
            context.write(_format(status))
    if not statuses:
        context.log("no sources: `ragkit index FOLDER`, or `sources:` in the pipeline file, adds some")


def _format(status: SourceStatus) -> str:
    head = f"{display_name(status.source)}  {status.kind}  {format_count(status.documents, 'document')}"
    run = status.last_run
    if run is None:
        return f"{head}  never run"
    failed = f", {run.failed} failed: {run.error}" if run.failed else ""
    return (
        f"{head}  {run.time}, {run.listed} listed, {run.fetched} fetched{failed}"
        if run.listed or failed
        else (f"{head}  {run.time}")
    )

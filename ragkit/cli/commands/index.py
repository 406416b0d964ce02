"""`ragkit index`: index files, folders and web pages."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from ragkit.cli import EXIT_PARTIAL_FAILURE
from ragkit.cli.common import CliContext, format_count, with_common_options
from ragkit.cli.costs import format_usd, max_cost_option
from ragkit.cli.progress import IndexProgress
from ragkit.cli.terminal import echo
from ragkit.errors import BudgetExceeded, BudgetTooSmall
from ragkit.index.catalog.directory import read_marker_roots
from ragkit.index.report import ContextEstimate, EmbeddingEstimate, IndexReport
from ragkit.index.sources.added_documents import ADDED_ROOT
from ragkit.index.sources.ids import display_name
from ragkit.index.sources.web_pages import is_url
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.load.process.parser_state import reduce_gc
from ragkit.load.sources import SOURCES
from ragkit.records import JSON

MAX_SHOWN_FAILURES = 20
MAX_SHOWN_SKIPPED = 3


class SourceParamType(click.Path):
    """An existing folder or file, or a URL."""

    name = "source"

    def __init__(self) -> None:
        super().__init__(exists=True)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return URLs unchanged; check that paths exist."""
        if is_url(value) or _is_source_name(value):
            return value
        if not os.path.lexists(value):
            self.fail(f"{value!r} does not exist. To remove documents that came from it: ragkit remove {value!r}")
        return super().convert(value, param, ctx)


def _is_source_name(value: str | os.PathLike[str]) -> bool:
    """Whether a value is the name of a configured source, such as `s3:bucket`, or of what a program has added."""
    kind = str(value).partition(":")[0]
    return not os.path.lexists(value) and ((":" in str(value) and kind in SOURCES) or value == ADDED_ROOT)


@click.command()
@click.argument("sources", nargs=-1, metavar="[SOURCE...]", type=SourceParamType())
@click.option("--pipeline", metavar="FILE|NAME", help="Pipeline file, or name of a built-in pipeline.")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Override a setting of the pipeline.")
@click.option("--include", multiple=True, metavar="GLOB", help="Index only matching files; repeatable.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Skip matching files; repeatable.")
@click.option("--dry-run", is_flag=True, help="Show the plan with tokens and cost, without changes.")
@max_cost_option("Maximum cost; checked against the estimate before the start")
@click.option("--retry-failed", is_flag=True, help="Retry files that failed before.")
@click.option("--rebuild", is_flag=True, help="Accept changed settings and rebuild the index.")
@click.option("--accept-deletions", is_flag=True, help="Remove more than a third of a configured source's documents.")
@click.option(
    "--wait/--no-wait",
    "wait",
    default=True,
    help="Embed everything before the end (the default), or end when the documents are searchable.",
)
@click.option("--watch", is_flag=True, help="Watch the sources and index every change.")
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Number of worker processes that load and split files."
)
@with_common_options
def command(
    context: CliContext,
    sources: tuple[str, ...],
    pipeline: str | None,
    overrides: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    dry_run: bool,
    max_cost: float | None,
    retry_failed: bool,
    rebuild: bool,
    accept_deletions: bool,
    wait: bool,
    watch: bool,
    jobs: int | None,
) -> int:
    """Index files, folders, web pages and configured sources; without SOURCE all that are known.

    Unchanged files are skipped, and deleted files of the given sources are removed. Other sources are not
    changed. A URL is fetched on every run that names it; its copy is stored in the knowledge base.

    With `embed: {when: question}`, the default, the documents are searchable before they are embedded. The same
    command then embeds them; Ctrl-C leaves the rest to searches, which embed what they need, and to the next run.

    \b
        ragkit index docs/
        ragkit index docs/ notes.md --exclude '*.log'
        ragkit index https://www.example.org/manual.html
        ragkit index                        # all of them, and the `sources:` of ragkit.yaml
    """
    if watch and (dry_run or not sources):
        raise click.UsageError("--watch requires a folder or file, and cannot be combined with --dry-run")
    if watch and any(map(is_url, sources)):
        raise click.UsageError("--watch does not support URLs: index web pages without --watch")
    with (
        context.open_or_create(context.load_pipeline(pipeline, overrides), check=not rebuild) as kb,
        IndexProgress(context) as progress,
    ):
        if not sources and not rebuild and not kb.pipeline.sources and not read_marker_roots(kb.path):
            raise click.UsageError("missing source: ragkit index docs/")
        run = IndexOptions(
            dry_run,
            retry_failed,
            rebuild,
            include,
            exclude,
            jobs or 0,
            accept_deletions=accept_deletions,
            keep_patterns=not sources and not include and not exclude,
            max_cost_usd=max_cost,
            on_event=progress.handle_event,
            searchable_first=not watch,
            wait=wait,
        )
        if watch:
            from ragkit.cli.watch_output import watch_sources

            show = partial(_print_result, context, progress)
            return watch_sources(context, kb, [Path(source) for source in sources], run, show)
        reduce_gc()  # one run, whose rows live until they are written
        try:
            report = kb.index(*sources, options=run)
        except BudgetExceeded as error:
            if not isinstance(error, BudgetTooSmall):
                progress.log("what was paid for is kept: run the same command to resume")
            raise
    _print_result(context, progress, report)
    return EXIT_PARTIAL_FAILURE if report.failures else 0


def _print_result(context: CliContext, progress: IndexProgress, report: IndexReport) -> None:
    progress.stop()
    if context.json:
        context.write_json(_report_json(report))
    elif not context.quiet:
        _print_report(context, report)
    else:
        _print_failures(context, report)


def _report_json(report: IndexReport) -> dict[str, JSON]:
    """The report as JSON, with display names of sources."""
    failures = tuple(replace(failure, source=display_name(failure.source)) for failure in report.failures)
    skipped = tuple((display_name(source), reason) for source, reason in report.skipped)
    return replace(report, failures=failures, skipped=skipped).to_json()


def _print_report(context: CliContext, report: IndexReport) -> None:
    for note in report.notes:
        context.log(f"note: {note}")
    c = report.chunks
    context.write(f"{'dry run: ' if report.dry_run else ''}{report.file_changes()}")
    if report.estimate is not None:
        about = "" if report.estimate.exact else "about "
        tokens = f"{about}{format_count(report.tokens, 'token')}"
        price = _format_price(report.estimate)
        context.write(f"{format_count(report.embedded, 'chunk')} to embed, {tokens}, {price}")
        for contexts in report.context_estimates:
            context.write(_format_contexts(contexts))
    elif report.unembedded:
        context.write(f"{format_count(c['added'], 'chunk')} added, {c['removed']} removed; searchable after "
                      f"{report.seconds:.1f} s; {format_count(report.unembedded, 'chunk')} to embed: searches embed "
                      "what they need, `ragkit index` all of them")  # fmt: skip
    elif report.embedded or c["added"] or c["removed"]:
        rate = f", {report.embedded / report.seconds:.0f}/s" if report.embedded and report.seconds else ""
        cost = report.usage.get("total_cost_usd")
        written = f"{format_count(report.contexts, 'context')} written, " if report.contexts else ""
        price = "" if cost == 0 else f", {format_usd(cost if isinstance(cost, float) else None)}"
        context.write(f"{format_count(c['added'], 'chunk')} added, {c['removed']} removed; "
                  f"{written}{report.embedded:,} embedded in {report.seconds:.1f} s{rate}{price}")  # fmt: skip
    _print_skipped(context, report)
    _print_failures(context, report)


def _print_skipped(context: CliContext, report: IndexReport) -> None:
    """Print one line per reason with the first files; with -v one line per file."""
    by_reason: dict[str, list[str]] = {}
    for source, reason in report.skipped:
        by_reason.setdefault(reason, []).append(display_name(source))
    for reason, sources in by_reason.items():
        if context.verbose:
            for source in sources:
                context.log(f"skipped {source}: {reason}")
            continue
        hidden = len(sources) - MAX_SHOWN_SKIPPED
        more = f" and {hidden:,} more (-v lists them)" if hidden > 0 else ""
        context.log(f"skipped {', '.join(sources[:MAX_SHOWN_SKIPPED])}{more}: {reason}")


def _format_price(estimate: EmbeddingEstimate) -> str:
    """`at no cost`, `about $0.0004 (openai:text-embedding-3-small)`, `price unknown (...)`."""
    if estimate.cost_usd == 0:
        return "at no cost"
    about = "" if estimate.exact or estimate.cost_usd is None else "about "
    return f"{about}{format_usd(estimate.cost_usd)} ({estimate.model})"


def _format_contexts(estimate: ContextEstimate) -> str:
    """`12 contexts to write, about 5,000 tokens, at most about $0.0020 (openai:gpt-4.1-mini)`."""
    tokens = format_count(estimate.prompt_tokens + estimate.completion_tokens, "token")
    price = f"{'at most about ' if estimate.cost_usd else ''}{format_usd(estimate.cost_usd)}"
    return f"{format_count(estimate.requests, 'context')} to write, about {tokens}, {price} ({estimate.model})"


def _print_failures(context: CliContext, report: IndexReport) -> None:
    """Print one line per failed file, even with -q: they are errors."""
    for failure in report.failures[:MAX_SHOWN_FAILURES]:
        hint = f" ({failure.hint})" if failure.hint else ""
        echo(f"failed {display_name(failure.source)}: {failure.error}{hint}", err=True)
    if len(report.failures) > MAX_SHOWN_FAILURES:
        echo(f"... and {len(report.failures) - MAX_SHOWN_FAILURES} more: ragkit list --failed", err=True)
    if any(os.path.lexists(failure.source) for failure in report.failures):
        context.log("fix them, and run again with --retry-failed")

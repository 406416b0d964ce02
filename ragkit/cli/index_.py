"""`ragkit index`: bring the knowledge base in line with folders and files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click

from ragkit.cli import EXIT_PARTIAL_FAILURE
from ragkit.cli.common import CliContext, format_count, with_common_options
from ragkit.cli.costs import format_usd, max_cost_option
from ragkit.cli.progress import IndexProgress
from ragkit.cli.terminal import echo
from ragkit.errors import BudgetExceeded, BudgetTooSmall
from ragkit.index.report import EmbeddingEstimate, IndexReport
from ragkit.index.source_ids import display_name
from ragkit.index.web_pages import is_url
from ragkit.knowledge_base.indexing import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.records import JSON

MAX_SHOWN_FAILURES = 20
MAX_SHOWN_SKIPPED = 3


class SourceParamType(click.Path):
    """A folder or file that exists, or a URL."""

    name = "source"

    def __init__(self) -> None:
        super().__init__(exists=True)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """The source as it was written."""
        return value if is_url(value) else super().convert(value, param, ctx)


@click.command()
@click.argument("sources", nargs=-1, metavar="SOURCE...", type=SourceParamType())
@click.option("--pipeline", metavar="FILE|NAME", help="A pipeline file, or the name of a ready-made one.")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Change one setting of the pipeline.")
@click.option("--include", multiple=True, metavar="GLOB", help="Only files that match; may be repeated.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out files that match; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, with tokens and price, and change nothing.")
@max_cost_option("Do not begin what is likely to cost more, and stop when it does")
@click.option("--retry-failed", is_flag=True, help="Take up files again that failed before.")
@click.option("--rebuild", is_flag=True, help="Accept other settings, and do everything again.")
@click.option("--watch", is_flag=True, help="Stay, and index again whenever something changes.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Workers that read and split files.")
@with_common_options
def command(
    shell: CliContext,
    sources: tuple[str, ...],
    pipeline: str | None,
    overrides: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    dry_run: bool,
    max_cost: float | None,
    retry_failed: bool,
    rebuild: bool,
    watch: bool,
    jobs: int | None,
) -> int:
    """Bring the knowledge base in line with folders, files and pages of the web.

    Unchanged files cost nothing; what is gone from a named source is removed; a source that is not named
    stays as it is. A URL is fetched each time that it is named, and its copy kept in the knowledge base.

    \b
        ragkit index docs/
        ragkit index docs/ notes.md --exclude '*.log'
        ragkit index https://www.example.org/manual.html
    """
    if not sources and not rebuild:
        raise click.UsageError("name a folder or a file: ragkit index docs/")
    if watch and (dry_run or not sources):
        raise click.UsageError("--watch needs a folder or a file, and does not go with --dry-run")
    if watch and any(map(is_url, sources)):
        raise click.UsageError("--watch looks at folders and files: index a page by itself")
    chosen = shell.load_pipeline(pipeline, overrides)
    kb = KnowledgeBase.open(shell.kb, chosen, check=not rebuild)
    with IndexProgress(shell) as progress:
        run = IndexOptions(dry_run, retry_failed, rebuild, include, exclude, jobs or 0, max_cost, progress.handle_event)
        if watch:
            from ragkit.cli.watch import watch_sources

            return watch_sources(
                shell,
                kb,
                [Path(source) for source in sources],
                run,
                lambda report: _print_result(shell, report, progress),
            )
        try:
            report = kb.index(*sources, options=run)
        except BudgetExceeded as error:
            if not isinstance(error, BudgetTooSmall):
                shell.log("what was embedded is kept: the same command goes on from there")
            raise
    _print_result(shell, report, progress)
    return EXIT_PARTIAL_FAILURE if report.failures else 0


def _print_result(shell: CliContext, report: IndexReport, progress: IndexProgress) -> None:
    progress.stop()
    if shell.json:
        shell.write_json(_report_json(report))
    elif not shell.quiet:
        _print_report(shell, report)
    else:
        _print_failures(shell, report)


def _report_json(report: IndexReport) -> dict[str, JSON]:
    """The report as JSON, with names of sources as a person reads them."""
    failures = tuple(replace(failure, source=display_name(failure.source)) for failure in report.failures)
    skipped = tuple((display_name(source), reason) for source, reason in report.skipped)
    return replace(report, failures=failures, skipped=skipped).to_json()


def _print_report(shell: CliContext, report: IndexReport) -> None:
    for note in report.notes:
        shell.log(f"note: {note}")
    f, c = report.files, report.chunks
    changes = ", ".join(f"{f[key]} {key}" for key in ("added", "updated", "removed") if f[key]) or "nothing changed"
    if not any(f.values()):
        changes = "no file was found"
    rest = ", ".join(f"{f[key]} {key}" for key in ("unchanged", "skipped", "failed") if f[key])
    shell.write(f"{'would be: ' if report.dry_run else ''}{changes}" + (f" ({rest})" if rest else ""))
    if report.estimate is not None:
        about = "" if report.estimate.exact else "about "
        shell.write(f"{format_count(report.embedded, 'chunk')} to embed, {about}{format_count(report.tokens, 'token')}, "
                  f"{_format_price(report.estimate)}")  # fmt: skip
    elif report.embedded or c["added"] or c["removed"]:
        rate = f", {report.embedded / report.seconds:.0f} a second" if report.embedded and report.seconds else ""
        cost = report.usage.get("total_cost_usd")
        price = "" if cost == 0 else f", {format_usd(cost if isinstance(cost, float) else None)}"
        shell.write(f"{format_count(c['added'], 'chunk')} added, {c['removed']} removed; "
                  f"{report.embedded:,} embedded in {report.seconds:.1f} s{rate}{price}")  # fmt: skip
    _print_skipped(shell, report)
    _print_failures(shell, report)


def _print_skipped(shell: CliContext, report: IndexReport) -> None:
    """A line for each reason, with the first files that it holds for; with -v a line for each file."""
    by_reason: dict[str, list[str]] = {}
    for source, reason in report.skipped:
        by_reason.setdefault(reason, []).append(display_name(source))
    for reason, sources in by_reason.items():
        if shell.verbose:
            for source in sources:
                shell.log(f"skipped {source}: {reason}")
            continue
        more = (
            ""
            if len(sources) <= MAX_SHOWN_SKIPPED
            else f" and {len(sources) - MAX_SHOWN_SKIPPED:,} more (-v names them)"
        )
        shell.log(f"skipped {', '.join(sources[:MAX_SHOWN_SKIPPED])}{more}: {reason}")


def _format_price(estimate: EmbeddingEstimate) -> str:
    """`at no cost`, `about $0.0004 (openai:text-embedding-3-small)`, `price unknown (...)`."""
    if estimate.cost_usd == 0:
        return "at no cost"
    about = "" if estimate.exact or estimate.cost_usd is None else "about "
    return f"{about}{format_usd(estimate.cost_usd)} ({estimate.model})"


def _print_failures(shell: CliContext, report: IndexReport) -> None:
    """A line for each failed file, with -q too: they are errors."""
    for failure in report.failures[:MAX_SHOWN_FAILURES]:
        hint = f" ({failure.hint})" if failure.hint else ""
        echo(f"failed {display_name(failure.source)}: {failure.error}{hint}", err=True)
    if len(report.failures) > MAX_SHOWN_FAILURES:
        echo(f"... and {len(report.failures) - MAX_SHOWN_FAILURES} more: ragkit list --failed", err=True)
    if any(not is_url(failure.source) for failure in report.failures):
        shell.log("once they are mended, or with more room, try them again with --retry-failed")

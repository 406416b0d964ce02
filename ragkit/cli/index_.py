"""`ragkit index`: bring the knowledge base in line with folders and files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from ragkit.cli import EXIT_SOME_FAILED
from ragkit.cli.common import Shell, figures, verb
from ragkit.cli.money import dollars, max_cost_option
from ragkit.cli.progress import Progress
from ragkit.errors import BudgetExceeded, BudgetTooSmall
from ragkit.index.names import shown
from ragkit.index.report import Estimate, IndexReport
from ragkit.pipeline.knowledge_base import KnowledgeBase
from ragkit.pipeline.writing import IndexRun
from ragkit.records import JSON

SHOWN_FAILURES = 20


@click.command()
@click.argument("sources", nargs=-1, metavar="SOURCE...", type=click.Path(exists=True, path_type=Path))
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
@verb
def command(
    shell: Shell,
    sources: tuple[Path, ...],
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
    """Bring the knowledge base in line with folders and files.

    Unchanged files cost nothing; what is gone from a named source is removed; a source that is not named
    stays as it is.

    \b
        ragkit index docs/
        ragkit index docs/ notes.md --exclude '*.log'
    """
    if not sources and not rebuild:
        raise click.UsageError("name a folder or a file: ragkit index docs/")
    if watch and (dry_run or not sources):
        raise click.UsageError("--watch needs a folder or a file, and does not go with --dry-run")
    chosen = shell.pipeline(pipeline, overrides)
    kb = KnowledgeBase.open(shell.kb, chosen, check=not rebuild)
    with Progress(shell) as progress:
        run = IndexRun(dry_run, retry_failed, rebuild, include, exclude, jobs or 0, max_cost, progress.event)
        if watch:
            from ragkit.cli.watch import watch_sources  # noqa: PLC0415 - other runs need no watcher

            return watch_sources(shell, kb, sources, run, lambda report: _show(shell, report, progress))
        try:
            report = kb.index(*sources, run=run)
        except BudgetExceeded as error:
            if not isinstance(error, BudgetTooSmall):
                shell.say("what was embedded is kept: the same command goes on from there")
            raise
    _show(shell, report, progress)
    return EXIT_SOME_FAILED if report.failures else 0


def _show(shell: Shell, report: IndexReport, progress: Progress) -> None:
    progress.end()
    if shell.json:
        shell.out_json(_relative(report))
    elif not shell.quiet:
        _print(shell, report)
    else:
        _print_failures(shell, report)


def _relative(report: IndexReport) -> dict[str, JSON]:
    """The report as JSON, with names of sources as a person reads them."""
    failures = tuple(replace(failure, source=shown(failure.source)) for failure in report.failures)
    skipped = tuple((shown(source), reason) for source, reason in report.skipped)
    return replace(report, failures=failures, skipped=skipped).to_json()


def _print(shell: Shell, report: IndexReport) -> None:
    for note in report.notes:
        shell.say(f"note: {note}")
    f, c = report.files, report.chunks
    changes = ", ".join(f"{f[key]} {key}" for key in ("added", "updated", "removed") if f[key]) or "nothing changed"
    rest = ", ".join(f"{f[key]} {key}" for key in ("unchanged", "skipped", "failed") if f[key])
    shell.out(f"{'would be: ' if report.dry_run else ''}{changes}" + (f" ({rest})" if rest else ""))
    if report.estimate is not None:
        about = "" if report.estimate.exact else "about "
        shell.out(f"{figures(report.embedded, 'chunk')} to embed, {about}{figures(report.tokens, 'token')}, "
                  f"{_price(report.estimate)}")  # fmt: skip
    elif report.embedded or c["added"] or c["removed"]:
        rate = f", {report.embedded / report.seconds:.0f} a second" if report.embedded and report.seconds else ""
        cost = report.usage.get("total_cost_usd")
        price = "" if cost == 0 else f", {dollars(cost if isinstance(cost, float) else None)}"
        shell.out(f"{figures(c['added'], 'chunk')} added, {c['removed']} removed; "
                  f"{report.embedded:,} embedded in {report.seconds:.1f} s{rate}{price}")  # fmt: skip
    for source, reason in report.skipped:
        shell.say(f"skipped {shown(source)}: {reason}", level=1)
    _print_failures(shell, report)


def _price(estimate: Estimate) -> str:
    """`at no cost`, `about $0.0004 (openai:text-embedding-3-small)`, `price unknown (...)`."""
    if estimate.cost_usd == 0:
        return "at no cost"
    about = "" if estimate.exact or estimate.cost_usd is None else "about "
    return f"{about}{dollars(estimate.cost_usd)} ({estimate.model})"


def _print_failures(shell: Shell, report: IndexReport) -> None:
    """A line for each failed file, with -q too: they are errors."""
    for failure in report.failures[:SHOWN_FAILURES]:
        hint = f" ({failure.hint})" if failure.hint else ""
        click.echo(f"failed {shown(failure.source)}: {failure.error}{hint}", err=True)
    if len(report.failures) > SHOWN_FAILURES:
        click.echo(f"... and {len(report.failures) - SHOWN_FAILURES} more: ragkit list --failed", err=True)
    if report.failures:
        shell.say("once they are mended, or with more room, try them again with --retry-failed")

"""`ragkit index`: bring the knowledge base in line with folders and files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click

from ragkit.cli import EXIT_SOME_FAILED
from ragkit.cli.common import Shell, figures, verb
from ragkit.cli.money import dollars, max_cost_option
from ragkit.cli.progress import Progress
from ragkit.cli.terminal import echo
from ragkit.errors import BudgetExceeded, BudgetTooSmall
from ragkit.index.names import shown
from ragkit.index.report import Estimate, IndexReport
from ragkit.index.web import is_url
from ragkit.pipeline.knowledge_base import KnowledgeBase
from ragkit.pipeline.writing import IndexRun
from ragkit.records import JSON

SHOWN_FAILURES = 20
SHOWN_SKIPPED = 3


class Source(click.Path):
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
@click.argument("sources", nargs=-1, metavar="SOURCE...", type=Source())
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
    chosen = shell.pipeline(pipeline, overrides)
    kb = KnowledgeBase.open(shell.kb, chosen, check=not rebuild)
    with Progress(shell) as progress:
        run = IndexRun(dry_run, retry_failed, rebuild, include, exclude, jobs or 0, max_cost, progress.event)
        if watch:
            from ragkit.cli.watch import watch_sources  # noqa: PLC0415 - other runs need no watcher

            return watch_sources(
                shell, kb, [Path(source) for source in sources], run, lambda report: _show(shell, report, progress)
            )
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
    if not any(f.values()):
        changes = "no file was found"
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
    _print_skipped(shell, report)
    _print_failures(shell, report)


def _print_skipped(shell: Shell, report: IndexReport) -> None:
    """A line for each reason, with the first files that it holds for; with -v a line for each file."""
    by_reason: dict[str, list[str]] = {}
    for source, reason in report.skipped:
        by_reason.setdefault(reason, []).append(shown(source))
    for reason, sources in by_reason.items():
        if shell.verbose:
            for source in sources:
                shell.say(f"skipped {source}: {reason}")
            continue
        more = "" if len(sources) <= SHOWN_SKIPPED else f" and {len(sources) - SHOWN_SKIPPED:,} more (-v names them)"
        shell.say(f"skipped {', '.join(sources[:SHOWN_SKIPPED])}{more}: {reason}")


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
        echo(f"failed {shown(failure.source)}: {failure.error}{hint}", err=True)
    if len(report.failures) > SHOWN_FAILURES:
        echo(f"... and {len(report.failures) - SHOWN_FAILURES} more: ragkit list --failed", err=True)
    if any(not is_url(failure.source) for failure in report.failures):
        shell.say("once they are mended, or with more room, try them again with --retry-failed")

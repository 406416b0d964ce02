"""`ragkit copy`: copy the knowledge base to another vector store without embedding again."""

from __future__ import annotations

from pathlib import Path

import click

from ragkit.cli import EXIT_VERIFY_FAILED
from ragkit.cli.common import CliContext, format_count, with_common_options
from ragkit.cli.progress import ProgressBar
from ragkit.knowledge_base.copying.to_store import CopyOptions, CopyReport
from ragkit.pipeline.merge import display_path
from ragkit.pipeline.settings import Pipeline


@click.command()
@click.option("--to", "store", metavar="STORE", help="New store (default: that of ragkit.yaml).")
@click.option("--to-kb", "target", metavar="DIR|URL", help="Copy the whole knowledge base to a directory or database.")
@click.option("--set", "overrides", multiple=True, metavar="STORE.X=Y", help="Set an option of the new store.")
@click.option("--overwrite", is_flag=True, help="Clear the new store first if it holds other data.")
@click.option("--drop-old", is_flag=True, help="Clear the old store after the new one is verified.")
@with_common_options
def command(
    context: CliContext,
    store: str | None,
    target: str | None,
    overrides: tuple[str, ...],
    overwrite: bool,
    drop_old: bool,
) -> int:
    """Copy the knowledge base to another vector store without embedding again. An interrupted run resumes.

    All documents and vectors are verified against the catalog before the new store is used. Searches, answers and
    index runs then use it, unless a pipeline file names another one. `${NAME}` in an option remains a variable.

    \b
        ragkit copy --to qdrant
        ragkit copy --to pgvector --set 'store.dsn=${DATABASE_URL}' --set store.table=handbook

    With --to-kb, documents, chunks and vectors are copied to another knowledge base; this one stays as it is.

    \b
        ragkit copy --to-kb 'postgresql://me@db.example.org/docs?schema=manuals'
        ragkit copy --kb 'postgresql://me@db.example.org/docs?schema=manuals' --to-kb backup
    """
    if target is not None:
        if store or overrides or drop_old:
            raise click.UsageError("--to-kb copies the whole knowledge base: use it without --to, --set and --drop-old")
        return _copy_knowledge_base(context, target, overwrite=overwrite)
    settings = _store_overrides(store, overrides)
    with context.open_knowledge_base(overrides=settings) as kb:
        with ProgressBar(context) as bar:

            def show(done: int, total: int) -> None:
                bar.update(done, total, f"{done:,} of {total:,} chunks copied", description="copied")

            report = kb.copy(CopyOptions(overwrite, drop_old, show))
        note = "" if report.problems or not settings else _conflict_note(context, kb.pipeline)
    if context.json:
        notes = [*report.notes, *([note] if note else [])]
        context.write_json({**report.to_json(), "notes": notes})
    else:
        _print(context, report)
        if note:
            context.log(f"note: {note}")
    return EXIT_VERIFY_FAILED if report.problems else 0


def _copy_knowledge_base(context: CliContext, target: str, *, overwrite: bool) -> int:
    with context.open_knowledge_base() as kb:
        report = kb.copy_to(target, overwrite=overwrite)
    if context.json:
        context.write_json(report.to_json())
        return 0
    for note in report.notes:
        context.log(f"note: {note}")
    chunks = format_count(report.copied, "chunk")
    context.write(f"{report.store}: {chunks} copied, nothing embedded, {report.seconds:.1f} s")
    return 0


def _store_overrides(store: str | None, overrides: tuple[str, ...]) -> tuple[str, ...]:
    for override in overrides:
        if not override.startswith("store."):
            raise click.UsageError(f"{override.partition('=')[0]!r} is not a store option: use --set store.x=y")
    return (*((f"store.name={store}",) if store else ()), *overrides)


def _conflict_note(context: CliContext, used: Pipeline) -> str:
    """How to change the active pipeline file if it names another store than the new one."""
    file = context.load_pipeline()
    if file is None or not file.has_own_store or file.store == used.store:
        return ""
    lines = used.to_yaml().split("store:\n")[1].split("\nretrieve:")[0]
    options = ", ".join(line.strip() for line in lines.splitlines())
    name = display_path(Path(file.path)) if file.path else file.name
    return f"{name} takes precedence and names the store {file.store.name!r}: set `store: {{{options}}}` there"


def _print(context: CliContext, report: CopyReport) -> None:
    for note in report.notes:
        context.log(f"note: {note}")
    comparison = report.comparison
    if comparison is None:
        context.write(f"{report.store}: searches use the catalog itself, {format_count(report.chunks, 'chunk')}")
        return
    present = report.chunks - report.copied
    rest = f", {present:,} already present" if present else ""
    context.write(f"{report.store}: {format_count(report.copied, 'chunk')} copied{rest}, nothing embedded, "
              f"{report.seconds:.1f} s")  # fmt: skip
    for problem in report.problems:
        context.log(f"error: {report.store} {problem}")
    if report.problems:
        context.log(f"{report.kb} still uses its store {report.previous_store!r}")
        return
    context.write(f"verified: {comparison.stored:,} of {comparison.expected:,} documents, "
              f"checksum {comparison.stored_checksum}, "
              f"vector distance <= {comparison.max_vector_distance:.1g}, recall {report.recall:.1%} over "
              f"{report.searches_compared} searches")  # fmt: skip

"""`ragkit copy`: move the knowledge base to another vector store; nothing is embedded again."""

from __future__ import annotations

from pathlib import Path

import click

from ragkit.cli import EXIT_VERIFY_FAILED
from ragkit.cli.common import CliContext, format_count, with_common_options
from ragkit.cli.progress import CountProgress
from ragkit.knowledge_base.migrate import CopyOptions, CopyReport
from ragkit.pipeline.merge import display_path
from ragkit.pipeline.settings import Pipeline


@click.command()
@click.option("--to", "store", metavar="STORE", help="The new store (default: the one that ragkit.yaml names).")
@click.option("--set", "overrides", multiple=True, metavar="STORE.X=Y", help="An option of the new store.")
@click.option("--overwrite", is_flag=True, help="Empty the new store first if it holds something else.")
@click.option("--drop-old", is_flag=True, help="Empty the old store, once the new one is verified.")
@with_common_options
def command(shell: CliContext, store: str | None, overrides: tuple[str, ...], overwrite: bool, drop_old: bool) -> int:
    """Move the knowledge base to another vector store. Nothing is embedded again; a run cut off goes on.

    Every document and vector is held against the catalog before the new store is used. Searches, answers and
    index runs then use it, unless a pipeline file names another. `${NAME}` in an option stays a variable.

    \b
        ragkit copy --to qdrant
        ragkit copy --to pgvector --set 'store.dsn=${DATABASE_URL}' --set store.table=handbook
    """
    settings = _store_overrides(store, overrides)
    with shell.open_knowledge_base(overrides=settings) as kb:
        with CountProgress(shell, "chunks", "copied") as counting:
            report = kb.copy(CopyOptions(overwrite, drop_old, counting.update))
        note = "" if report.problems or not settings else _conflict_note(shell, kb.pipeline)
    if shell.json:
        notes = [*report.notes, *([note] if note else [])]
        shell.write_json({**report.to_json(), "notes": notes})
    else:
        _print(shell, report)
        if note:
            shell.log(f"note: {note}")
    return EXIT_VERIFY_FAILED if report.problems else 0


def _store_overrides(store: str | None, overrides: tuple[str, ...]) -> tuple[str, ...]:
    for one in overrides:
        if not one.startswith("store."):
            raise click.UsageError(f"{one.partition('=')[0]!r} is no option of a store: --set store.x=y")
    return (*((f"store.name={store}",) if store else ()), *overrides)


def _conflict_note(shell: CliContext, used: Pipeline) -> str:
    """What to write into the pipeline file in force, where it names another store than the one copied to."""
    file = shell.load_pipeline()
    if file is None or not file.has_own_store or file.store == used.store:
        return ""
    lines = used.to_yaml().split("store:\n")[1].split("\nretrieve:")[0]
    told = ", ".join(line.strip() for line in lines.splitlines())
    name = display_path(Path(file.path)) if file.path else file.name
    return f"{name} names the store {file.store.name!r}, and a file decides: write `store: {{{told}}}` there"


def _print(shell: CliContext, report: CopyReport) -> None:
    for note in report.notes:
        shell.log(f"note: {note}")
    held = report.comparison
    if held is None:
        shell.write(f"{report.store}: the catalog itself is searched, {format_count(report.chunks, 'chunk')}")
        return
    there = report.chunks - report.copied
    rest = f", {there:,} were there" if there else ""
    shell.write(f"{report.store}: {format_count(report.copied, 'chunk')} copied{rest}, nothing embedded, "
              f"{report.seconds:.1f} s")  # fmt: skip
    for problem in report.problems:
        shell.log(f"error: {report.store} {problem}")
    if report.problems:
        shell.log(f"{report.kb} was left with its store {report.previous_store!r}")
        return
    shell.write(f"verified: {held.stored:,} of {held.expected:,} documents, checksum {held.stored_checksum}, "
              f"vectors to {held.max_vector_distance:.1g}, {report.searches_compared} searches find {report.recall:.1%} "
              "of the nearest")  # fmt: skip

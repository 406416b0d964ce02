"""Output of `ragkit index --watch`: one line per changed file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ragkit.cli import EXIT_INTERRUPTED
from ragkit.cli.common import CliContext, format_count
from ragkit.index.report import IndexReport
from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.knowledge_base.watch import IndexCompleted, IndexFailed, watch_and_index


def watch_sources(
    context: CliContext,
    kb: KnowledgeBase,
    sources: Sequence[Path],
    run: IndexOptions,
    show: Callable[[IndexReport], None],
) -> int:
    """Index after every change until Ctrl-C; returns the exit code.

    `show` prints the report of the first run, and with --json that of every run.
    """
    first = True
    try:
        for outcome in watch_and_index(kb, [source.resolve() for source in sources], run):
            if isinstance(outcome, IndexFailed):
                context.log(f"{_now()} error: {outcome.error}; retrying")
                continue
            if first or context.json:
                show(outcome.report)
            else:
                _print_changes(context, outcome)
            if first:
                context.log(f"watching {', '.join(map(str, sources))} (press Ctrl-C to stop)")
            first = False
    except KeyboardInterrupt:
        context.log("stopped watching; completed work is kept")
    return EXIT_INTERRUPTED


def _print_changes(context: CliContext, run: IndexCompleted) -> None:
    for note in run.report.notes:
        context.log(f"note: {note}")
    for source in run.removed_sources:
        context.write(f"{_now()} removed {display_name(source)}")
    for file in run.files_read:
        if file.error:
            context.write(f"{_now()} failed {display_name(file.source)}: {file.error}")
        else:
            context.write(f"{_now()} indexed {display_name(file.source)}, {format_count(file.chunks, 'chunk')}")


def _now() -> str:
    return time.strftime("%H:%M:%S")

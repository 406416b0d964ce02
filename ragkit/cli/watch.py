"""How `ragkit index --watch` tells of its runs: a line for each file that changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ragkit.cli import EXIT_INTERRUPTED
from ragkit.cli.common import CliContext, format_count
from ragkit.index.report import IndexReport
from ragkit.index.source_ids import display_name
from ragkit.knowledge_base.indexing import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.knowledge_base.watch import IndexCompleted, IndexFailed, watch_and_index


def watch_sources(
    shell: CliContext,
    kb: KnowledgeBase,
    sources: Sequence[Path],
    run: IndexOptions,
    show: Callable[[IndexReport], None],
) -> int:
    """Index after every change until Ctrl-C, which ends it between two steps of a run; returns the exit code.

    `show` tells of the first run, and with --json of every one.
    """
    first = True
    try:
        for outcome in watch_and_index(kb, [source.resolve() for source in sources], run):
            if isinstance(outcome, IndexFailed):
                shell.log(f"{_now()} error: {outcome.error}; trying again")
                continue
            if first or shell.json:
                show(outcome.report)
            else:
                _print_changes(shell, outcome)
            if first:
                shell.log(f"watching {', '.join(map(str, sources))}: Ctrl-C ends it")
            first = False
    except KeyboardInterrupt:
        shell.log("no longer watching; what was done is kept")
    return EXIT_INTERRUPTED


def _print_changes(shell: CliContext, ran: IndexCompleted) -> None:
    for note in ran.report.notes:
        shell.log(f"note: {note}")
    for source in ran.removed_sources:
        shell.write(f"{_now()} removed {display_name(source)}")
    for file in ran.files_read:
        if file.error:
            shell.write(f"{_now()} failed {display_name(file.source)}: {file.error}")
        else:
            shell.write(f"{_now()} indexed {display_name(file.source)}, {format_count(file.chunks, 'chunk')}")


def _now() -> str:
    return time.strftime("%H:%M:%S")

"""How `ragkit index --watch` tells of its runs: a line for each file that changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ragkit.cli import EXIT_INTERRUPTED
from ragkit.cli.common import Shell, figures
from ragkit.index.names import shown
from ragkit.index.report import IndexReport
from ragkit.pipeline.knowledge_base import KnowledgeBase
from ragkit.pipeline.watching import Failed, Ran, watched
from ragkit.pipeline.writing import IndexRun


def watch_sources(
    shell: Shell, kb: KnowledgeBase, sources: Sequence[Path], run: IndexRun, show: Callable[[IndexReport], None]
) -> int:
    """Index after every change until Ctrl-C, which ends it between two steps of a run; returns the exit code.

    `show` tells of the first run, and with --json of every one.
    """
    first = True
    try:
        for outcome in watched(kb, [source.resolve() for source in sources], run):
            if isinstance(outcome, Failed):
                shell.say(f"{_now()} error: {outcome.error}; trying again")
                continue
            if first or shell.json:
                show(outcome.report)
            else:
                _print_changes(shell, outcome)
            if first:
                shell.say(f"watching {', '.join(map(str, sources))}: Ctrl-C ends it")
            first = False
    except KeyboardInterrupt:
        shell.say("no longer watching; what was done is kept")
    return EXIT_INTERRUPTED


def _print_changes(shell: Shell, ran: Ran) -> None:
    for note in ran.report.notes:
        shell.say(f"note: {note}")
    for source in ran.removed:
        shell.out(f"{_now()} removed {shown(source)}")
    for file in ran.read:
        if file.problem:
            shell.out(f"{_now()} failed {shown(file.source)}: {file.problem}")
        else:
            shell.out(f"{_now()} indexed {shown(file.source)}, {figures(file.chunks, 'chunk')}")


def _now() -> str:
    return time.strftime("%H:%M:%S")

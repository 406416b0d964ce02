"""Checks of what a store promises across openings, processes and crashes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ragkit.store.base import Store
from ragkit.testing.subject import (
    Contents,
    Subject,
    check_contents,
    check_search,
    documents_of,
    fill,
    palette,
    same,
)
from ragkit.testing.writer import BATCH, batch

EXAMPLES_PER_KILL = 50
"""A writer is killed once for so many examples that are asked for."""


def what_was_added_is_there_after_reopening(subject: Subject) -> None:
    store = subject.open()
    contents = fill(store, documents_of("abcde", {"v": 1}), palette()[:5])
    store.delete(["a"])
    del contents["a"]
    store.close()
    for _ in range(2):
        store = subject.open()
        check_contents(store, contents)
        check_search(store, contents, palette()[1], 3, {"v": 1})
        contents |= fill(store, documents_of("bz", {"v": 2}), palette()[5:7])
        store.close()
    store = subject.open()
    check_contents(store, contents)
    store.close()


def a_second_handle_follows_while_all_is_replaced(subject: Subject) -> None:
    """Long enough that whatever a store does about its garbage happens while the other handle is open."""
    store, other = subject.open(), subject.open()
    contents: Contents = {}
    for n in range(5):
        rows = palette()[[(n + place) % 12 for place in range(150)]]
        contents = fill(store, documents_of([f"{place:03}" for place in range(150)], {"v": n}), rows)
        check_search(store, contents, palette()[n], 20)
        check_search(other, contents, palette()[n], 20, {"v": n})
    store.close()
    other.close()
    store = subject.open()
    check_contents(store, contents)
    store.close()


def a_writer_that_is_killed_leaves_whole_batches(subject: Subject) -> None:
    """kill -9 at random moments: the store opens, and holds every batch that was acknowledged, and no half ones."""
    chance = random.Random(11)
    acknowledged = -1
    for _ in range(max(1, subject.examples // EXAMPLES_PER_KILL)):
        with _writer(subject, 10_000) as (process, lines):
            acknowledged = int(lines.readline())  # it is up and writing
            time.sleep(chance.uniform(0, 0.05))
            os.kill(process.pid, signal.SIGKILL)
            acknowledged = max([acknowledged, *(int(line) for line in lines if line.endswith("\n"))])
        store = subject.open()
        _check_batches(store, acknowledged)
        store.close()


def _check_batches(store: Store, acknowledged: int) -> None:
    held = {name: int(str(document.metadata["batch"])) for name, document, _ in store.scan()}
    last = max(held.values())
    if last not in {acknowledged, acknowledged + 1}:
        raise AssertionError(f"batch {acknowledged} was acknowledged, and the last one that is there is {last}")
    wanted = {document.id: number for number in range(last + 1) for document in batch(number)[0]}
    same(held, wanted, "batch of each document")
    same(len(held), (last + 2) * BATCH // 2, "documents")


def another_process_sees_what_is_committed(subject: Subject) -> None:
    store = subject.open()
    same(store.search(palette()[0], 5), [], "results")
    for batches in (1, 2):
        with _writer(subject, batches) as (process, lines):
            last = int(lines.readlines()[-1])
            same(process.wait(), 0, "exit status of the writer")
        documents, rows = batch(last)
        found = store.search(rows[3], 1)
        same([result.document for result in found], [documents[3]], "documents found")
        same(store.count(), (last + 2) * BATCH // 2, "count")
    store.add_documents(*batch(3))
    same(store.count(), 5 * BATCH // 2, "count")
    store.close()


@contextmanager
def _writer(subject: Subject, batches: int) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    command = [sys.executable, "-m", "ragkit.testing.writer", subject.name, str(subject.directory), str(batches)]
    here = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603
        try:
            if process.stdout is None:
                raise AssertionError("the writer has no output")
            yield process, process.stdout
        finally:
            process.kill()


PERSISTENT_CHECKS = (what_was_added_is_there_after_reopening, a_writer_that_is_killed_leaves_whole_batches)
"""What is asked of a store that says `persistent`."""

SHARED_CHECKS = (another_process_sees_what_is_committed, a_second_handle_follows_while_all_is_replaced)
"""What is asked of a store that says `shared`."""

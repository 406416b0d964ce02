"""Conformance checks of persistence: reopening, several processes, crashes."""

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
from ragkit.testing.store_under_test import (
    StoreContents,
    StoreUnderTest,
    assert_equal,
    check_contents,
    check_search,
    fill_store,
    make_documents,
    sample_vectors,
)
from ragkit.testing.writer import BATCH_SIZE, make_batch

EXAMPLES_PER_KILL = 50
"""Number of examples per killed writer."""


def documents_persist_after_reopening(subject: StoreUnderTest) -> None:
    store = subject.open()
    contents = fill_store(store, make_documents("abcde", {"v": 1}), sample_vectors()[:5])
    store.delete(["a"])
    del contents["a"]
    store.close()
    for _ in range(2):
        store = subject.open()
        check_contents(store, contents)
        check_search(store, contents, sample_vectors()[1], 3, {"v": 1})
        contents |= fill_store(store, make_documents("bz", {"v": 2}), sample_vectors()[5:7])
        store.close()
    store = subject.open()
    check_contents(store, contents)
    store.close()


def a_second_handle_sees_replaced_documents(subject: StoreUnderTest) -> None:
    """Enough writes to trigger compaction while the other handle is open."""
    store, second = subject.open(), subject.open()
    contents: StoreContents = {}
    for n in range(5):
        rows = sample_vectors()[[(n + position) % 12 for position in range(150)]]
        contents = fill_store(store, make_documents([f"{position:03}" for position in range(150)], {"v": n}), rows)
        check_search(store, contents, sample_vectors()[n], 20)
        check_search(second, contents, sample_vectors()[n], 20, {"v": n})
    store.close()
    second.close()
    store = subject.open()
    check_contents(store, contents)
    store.close()


def a_killed_writer_leaves_whole_batches(subject: StoreUnderTest) -> None:
    """After kill -9 at random moments, the store opens with every acknowledged batch, and no partial ones."""
    rng = random.Random(11)
    acknowledged = -1
    for _ in range(max(1, subject.examples // EXAMPLES_PER_KILL)):
        with _run_writer(subject, 10_000) as (process, lines):
            acknowledged = int(lines.readline())  # the writer has started
            time.sleep(rng.uniform(0, 0.05))
            os.kill(process.pid, signal.SIGKILL)
            acknowledged = max([acknowledged, *(int(line) for line in lines if line.endswith("\n"))])
        store = subject.open()
        _check_batches(store, acknowledged)
        store.close()


def _check_batches(store: Store, acknowledged: int) -> None:
    stored = {name: int(str(document.metadata["batch"])) for name, document, _ in store.scan()}
    last = max(stored.values())
    if last not in {acknowledged, acknowledged + 1}:
        raise AssertionError(f"batch {acknowledged} was acknowledged, but the last stored batch is {last}")
    expected = {document.id: number for number in range(last + 1) for document in make_batch(number)[0]}
    assert_equal(stored, expected, "batch of each document")
    assert_equal(len(stored), (last + 2) * BATCH_SIZE // 2, "documents")


def another_process_sees_committed_documents(subject: StoreUnderTest) -> None:
    store = subject.open()
    assert_equal(store.search(sample_vectors()[0], 5), [], "results")
    for batches in (1, 2):
        with _run_writer(subject, batches) as (process, lines):
            last = int(lines.readlines()[-1])
            assert_equal(process.wait(), 0, "exit status of the writer")
        documents, rows = make_batch(last)
        results = store.search(rows[3], 1)
        assert_equal([result.document for result in results], [documents[3]], "documents found")
        assert_equal(store.count(), (last + 2) * BATCH_SIZE // 2, "count")
    store.add_documents(*make_batch(3))
    assert_equal(store.count(), 5 * BATCH_SIZE // 2, "count")
    store.close()


@contextmanager
def _run_writer(subject: StoreUnderTest, batches: int) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    command = [sys.executable, "-m", "ragkit.testing.writer", subject.name, str(subject.directory), str(batches)]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603
        try:
            if process.stdout is None:
                raise AssertionError("the writer has no output")
            yield process, process.stdout
        finally:
            process.kill()


PERSISTENT_CHECKS = (documents_persist_after_reopening, a_killed_writer_leaves_whole_batches)
"""The checks of a store that declares `persistent`."""

SHARED_CHECKS = (another_process_sees_committed_documents, a_second_handle_sees_replaced_documents)
"""The checks of a store that declares `shared`."""

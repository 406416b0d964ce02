"""`ragkit index --watch` in its own process, stopped by Ctrl-C."""

from __future__ import annotations

import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from ragkit.index.catalog.lock import WriterLock
from tests.cli.conftest import Ragkit, start

PATIENCE = 60.0


class Watching:
    """A running `ragkit index --watch` and its output."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: queue.Queue[str] = queue.Queue()
        streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
        self.readers = [threading.Thread(target=self._read, args=(stream,)) for stream in streams]
        for reader in self.readers:
            reader.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._add(line)

    def _add(self, line: str) -> None:
        self.lines.put(re.sub(r"^\d\d:\d\d:\d\d ", "", line.rstrip("\n")))

    def until(self, *expected: str) -> None:
        """Wait for these lines, in any order; skip others."""
        missing = set(expected)
        deadline = time.monotonic() + PATIENCE
        lines: list[str] = []
        while missing:
            try:
                lines.append(self.lines.get(timeout=max(0.01, deadline - time.monotonic())))
            except queue.Empty:
                raise AssertionError(f"missing lines: {sorted(missing)}; printed: {lines}") from None
            missing.discard(lines[-1])

    def interrupt(self) -> int:
        """Send Ctrl-C and return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=PATIENCE)

    def end(self) -> None:
        """Kill it if it is running."""
        self.process.kill()
        self.process.wait()
        for reader in self.readers:
            reader.join()


Watch = Callable[..., Watching]


@pytest.fixture
def docs(workplace: Path, hashing: Path) -> Path:
    folder = workplace / "docs"
    folder.mkdir()
    (folder / "garden.txt").write_text("The hedge is cut in August.\n")
    return folder


@pytest.fixture
def watch(workplace: Path) -> Iterator[Watch]:
    """Starts `ragkit index --watch`, and kills it at the end of the test."""
    started: list[Watching] = []

    def begin(*arguments: str | Path) -> Watching:
        started.append(Watching(start("index", *arguments, "--watch", cwd=workplace)))
        return started[-1]

    yield begin
    for item in started:
        item.end()


def test_every_change_is_a_line_and_ctrl_c_ends_it_cleanly(docs: Path, watch: Watch, ragkit: Ragkit) -> None:
    running = watch("docs")
    running.until("1 added", "watching docs (press Ctrl-C to stop)")
    (docs / "house.txt").write_text("The boiler is swept in May.\n")
    running.until("indexed docs/house.txt, 1 chunk")
    (docs / "garden.txt").write_text("The hedge is cut in July.\n")
    running.until("indexed docs/garden.txt, 1 chunk")
    (docs / "house.txt").unlink()
    (docs / "sub").mkdir()
    (docs / "sub" / "shed.txt").write_text("The saw hangs on a nail.\n")
    running.until("removed docs/house.txt", "indexed docs/sub/shed.txt, 1 chunk")
    assert running.interrupt() == 130
    running.until("stopped watching; completed work is kept")
    assert [line["source"] for line in ragkit("list", "--json").lines] == ["docs/garden.txt", "docs/sub/shed.txt"]
    assert ragkit("verify", "--json").json["problems"] == []


def test_many_changes_at_once_are_one_run_and_a_knowledge_base_inside_the_folder_is_ignored(
    docs: Path, watch: Watch, ragkit: Ragkit
) -> None:
    running = watch("docs", "--kb", "docs/.kb", "--json")
    for _ in range(2):
        line = running.lines.get(timeout=PATIENCE)
        if line.startswith("{"):
            break
    for number in range(40):
        (docs / f"note{number}.txt").write_text(f"Note {number}\n")
    added = 0
    runs = 0
    while added < 40:
        result = re.search(r'"added": (\d+), "updated"', running.lines.get(timeout=PATIENCE))
        added += int(result[1]) if result else 0
        runs += 1
    assert runs <= 3
    time.sleep(2.5)
    assert running.lines.empty(), "its own writing is no change"
    assert running.interrupt() == 130


def test_a_file_that_is_named_by_itself_is_watched_too(docs: Path, watch: Watch) -> None:
    running = watch("docs/garden.txt")
    running.until("1 added")
    new = docs / "new"
    new.write_text("The hedge is cut in June.\n")
    new.replace(docs / "garden.txt")
    running.until("indexed docs/garden.txt, 1 chunk")


def test_a_lock_or_a_folder_that_disappears_for_a_while_does_not_end_the_watch(
    docs: Path, watch: Watch, workplace: Path, ragkit: Ragkit
) -> None:
    running = watch("docs")
    running.until("1 added")
    with WriterLock(workplace / ".ragkit", timeout_s=10):
        (docs / "late.txt").write_text("Written while another process writes.\n")
        line = running.lines.get(timeout=PATIENCE)
        while "error" not in line:
            line = running.lines.get(timeout=PATIENCE)
        assert re.fullmatch(r"error: .*\.ragkit is locked by process \d+ on .*; retrying", line)
    running.until("indexed docs/late.txt, 1 chunk")
    assert running.interrupt() == 130


def test_an_unreadable_file_is_reported_and_the_watch_continues(docs: Path, watch: Watch) -> None:
    running = watch("docs")
    running.until("1 added")
    (docs / "broken.pdf").write_bytes(b"%PDF-1.7\nnot a valid file\n")
    line = ""
    while not line.startswith("failed docs/broken.pdf: "):
        line = running.lines.get(timeout=PATIENCE)
    (docs / "fine.txt").write_text("This one can be read.\n")
    running.until("indexed docs/fine.txt, 1 chunk")


def test_watch_and_dry_run_cannot_be_combined(docs: Path, ragkit: Ragkit) -> None:
    result = ragkit("index", "docs", "--watch", "--dry-run", code=2)
    assert "--watch requires a folder or file, and cannot be combined with --dry-run" in result.err


def test_exhausted_inotify_watches_are_an_error_with_a_hint(
    docs: Path, ragkit: Ragkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*paths: Path, **options: object) -> Iterator[set[object]]:
        raise OSError("OS file watch limit reached")
        yield set()

    monkeypatch.setattr("ragkit.knowledge_base.watch.watch", full)
    result = ragkit("index", "docs", "--watch", code=1)
    assert result.err.endswith("(OS file watch limit reached): raise fs.inotify.max_user_watches, or set"
                             " WATCHFILES_FORCE_POLLING=true\n")  # fmt: skip

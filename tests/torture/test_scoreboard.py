"""What is counted, and what is covered."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

from ragkit.load import LOADERS
from ragkit.load.router import Router
from ragkit.load.sources import SOURCES
from tests.torture import sources
from tests.torture.formats import FORMATS, SETTINGS, FormatsFolder, format_file
from tests.torture.kinds import FULL, NAMES
from tests.torture.run import Plan, run_all
from tests.torture.scoreboard import (
    Board,
    Cell,
    Cells,
    add_cells,
    read_board,
    release_table,
    summary,
    table,
    tree_name,
    write_board,
)
from tests.torture.sources import SourcesFolder

KILLS = "kill -9"
OTHER_LOADERS = {"folder", "pypdf", "unstructured"}
"""Loaders that read no file, or files that another one reads."""


def cells(reached: int, **faults: int) -> Cells:
    return {("sqlite", KILLS): Cell(reached + 1, reached, 2.0, Counter(faults), ["1"] if faults else [])}


def test_counts_are_added_up_for_each_version_alone(tmp_path: Path) -> None:
    board: Board = {}
    add_cells(board, "1.0+a", cells(10, lost=1))
    add_cells(board, "1.0+b", cells(3))
    add_cells(board, "1.0+b", cells(4))
    path = tmp_path / "build" / "counts.json"
    write_board(path, board)
    assert read_board(path) == board
    lines = table(board["1.0+b"], FULL, NAMES).splitlines()
    assert lines[2] == f"| {KILLS} | sqlite | 7 | 1,000 |" + " 0 |" * 8
    assert lines[3].startswith("| **all** | | **7** | **1,000** | **0** |")


def test_the_table_of_a_release_has_the_trials_and_failures_of_each_kind() -> None:
    counted = cells(10, lost=1) | {("faiss", KILLS): Cell(6, 5), ("faiss", "bit flip"): Cell(2, 2)}
    assert release_table(counted, NAMES).splitlines()[2:] == [
        f"| {KILLS} | 15 | 1 |", "| bit flip | 2 | 0 |", "| **all** | **17** | **1** |"
    ]  # fmt: skip
    head = summary(counted, "1.0+a", {})
    assert head.startswith("ragkit 1.0+a, commit ")
    assert head.endswith(": 19 trials in 0.0 hours.")


def test_the_name_of_a_version_changes_with_the_package_alone() -> None:
    assert re.fullmatch(r"[\d.]+\w*\+[0-9a-f]{12}", tree_name())
    assert tree_name() == tree_name()


def test_what_is_done_is_not_run_again(tmp_path: Path) -> None:
    own: Cells = {("sqlite", KILLS): Cell(9, 9), ("faiss", KILLS): Cell(2, 2, done=True)}
    plan = Plan({"sqlite": {KILLS: 9}, "faiss": {KILLS: 9}}, 1, None, 1, tmp_path)
    assert list(run_all(plan, own)) == []


def test_every_loader_reads_a_file_of_the_formats() -> None:
    router = Router()
    told_only = ("notes.zip", "notes.tar.gz", "rows.sqlite")
    read = {router.select_route(format_file(name, 0), f"/x/{name}").name for name in FORMATS if name not in told_only}
    told = set(re.findall(r"name: (\w+)", SETTINGS))
    assert read | told | OTHER_LOADERS >= set(LOADERS.names()), set(LOADERS.names()) - read - told


def test_every_kind_of_source_is_read() -> None:
    text = sources.settings(Path("/x"), {"site": 1, "s3": 2, "dav": 3, "imap": 4})
    assert set(re.findall(r"\{name: (\w+)", text)) == set(SOURCES.names()) | {"folder"}


def test_changed_folders_keep_a_file_of_each_source_and_most_formats() -> None:
    for seed in range(12):
        first = SourcesFolder().first()
        after = SourcesFolder().change(first, random.Random(seed))
        for kind in sources.KINDS:
            assert sum(name.startswith(f"{kind}/") for name in after) >= sources.EACH - 1
        assert sum(after.get(name) != content for name, content in first.items()) >= len(sources.KINDS)
    assert len(FormatsFolder().change(FormatsFolder().first(), random.Random(1))) == len(FORMATS)

"""What is counted, and what is covered."""

from __future__ import annotations

import random
import re
import subprocess
import sys
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
    NOT_RUN,
    SHARED,
    STORES_WITH_OWN_CODE,
    Board,
    Cell,
    Cells,
    Code,
    add_cells,
    code_digests,
    read_board,
    read_code,
    summary,
    table,
    tree_name,
    with_same_code,
    write_board,
)
from tests.torture.sources import SourcesFolder
from tests.torture.subjects import STORES

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
    path = tmp_path / "counts.json"
    write_board(path, board, "1.0+b")
    assert read_board(path) == board
    assert list(read_board(path)) == ["1.0+a", "1.0+b"]
    lines = table(board, "1.0+b", FULL, NAMES).splitlines()
    assert lines[2] == f"| {KILLS} | sqlite | 7 | 1,000 | 10 |" + " 0 |" * 8
    assert lines[3].startswith("| **all** | | **7** | **1,000** | **10** | **0** |")
    assert table(board, "1.0+c", FULL, NAMES).splitlines()[2].startswith(f"| {KILLS} | sqlite | 0 | 1,000 | 17 |")


def test_the_last_version_with_the_full_numbers_is_named_until_the_next_one_has_them() -> None:
    wanted = {"sqlite": {KILLS: 10}}
    board: Board = {"1.0+a": cells(10), "1.0+b": cells(12, lost=1), "1.0+c": cells(3)}
    assert summary(board, "1.0+c", wanted, {}).splitlines()[2:] == [
        "The last version with the full numbers: ragkit 1.0+b, 12 trials, 1 fault."
    ]
    assert len(summary(board, "1.0+b", wanted, {}).splitlines()) == 1
    assert len(summary({"1.0+c": cells(3)}, "1.0+c", wanted, {}).splitlines()) == 1


def test_the_name_of_a_version_changes_with_the_package_alone() -> None:
    assert re.fullmatch(r"[\d.]+\w*\+[0-9a-f]{12}", tree_name())
    assert tree_name() == tree_name()


def test_a_changed_store_begins_anew_alone(tmp_path: Path) -> None:
    code: Code = {
        "1.0+a": {SHARED: "1", "duckdb": "1", "faiss": "1"},
        "1.0+b": {SHARED: "1", "duckdb": "2", "faiss": "1"},
        "1.0+c": {SHARED: "2", "duckdb": "2", "faiss": "1"},
    }
    trials: Board = {
        tree: {(store, KILLS): Cell(number, number) for store in ("sqlite", "faiss", "duckdb")}
        for number, tree in enumerate(("0.9", *code), 1)
    }
    path = tmp_path / "counts.json"
    write_board(path, trials, "1.0+b", code)
    board, same = with_same_code(read_board(path), read_code(path), "1.0+b")
    assert same == ["1.0+a"]
    reached = {tree: {store: cell.reached for (store, _), cell in cells.items()} for tree, cells in board.items()}
    assert reached == {
        "0.9": {"sqlite": 1, "faiss": 1, "duckdb": 1},
        "1.0+a": {"duckdb": 2},
        "1.0+b": {"sqlite": 5, "faiss": 5, "duckdb": 3},
        "1.0+c": {"sqlite": 4, "faiss": 4, "duckdb": 4},
    }
    assert read_board(path) == trials
    assert "those of 1.0+a on stores" in summary(board, "1.0+b", {}, {}, same)


def test_the_code_of_a_store_is_apart_from_all_other_code(tmp_path: Path) -> None:
    files = ("cli.py", "store/base.py", "store/backends/adapter_utils.py", "store/backends/sqlite.py", "load/faiss.py")
    own = ("store/backends/duckdb.py", "store/backends/qdrant.py", "store/backends/qdrant_engine.py")
    for name in (*files, *own, *NOT_RUN):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    before = code_digests(tmp_path)
    for name in (*files, *own, *NOT_RUN):
        (tmp_path / name).write_text("changed")
        changed = {part for part, digest in code_digests(tmp_path).items() if digest != before[part]}
        part = SHARED if name in files else re.split(r"[/_.]", name)[2]
        assert changed == (set() if name in NOT_RUN else {part})
        (tmp_path / name).write_text("")


def test_a_store_runs_no_code_of_another_one(tmp_path: Path) -> None:
    """What `with_same_code` relies on."""
    program = """if True:
        import sys
        from ragkit import KnowledgeBase, Pipeline
        pipeline = Pipeline.from_yaml(f"store: {{name: {sys.argv[2]}}}\\nembed: {{name: hashing}}")
        with KnowledgeBase.open(sys.argv[1], pipeline) as base:
            base.index(sys.argv[3])
            base.search("moved")
            print(base.ask("What was moved?").text)
        print(*(name for name in sys.modules if name.startswith("ragkit.")))
    """
    (tmp_path / "a.txt").write_text("The archive was moved in spring.")
    for store in STORES:
        command = [sys.executable, "-c", program, str(tmp_path / store), store, str(tmp_path / "a.txt")]
        loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1].split()
        backends = [name for name in loaded if name.startswith("ragkit.store.backends.")]
        stores = {name.rpartition(".")[2].partition("_")[0] for name in backends} & set(STORES_WITH_OWN_CODE)
        assert not {f"{name.replace('.', '/')}.py".removeprefix("ragkit/") for name in loaded} & set(NOT_RUN)
        assert stores == {store} & set(STORES_WITH_OWN_CODE)


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

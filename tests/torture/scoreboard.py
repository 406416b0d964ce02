"""The counts of all trials, by the version that they broke, as JSON and as Markdown tables.

A tree is a version of the package: its number, and a digest of its files. Counts of several runs are added up for each
tree alone; the table shows those of one tree, what is missing of the full numbers, and how often others were broken.
Trees that differ in the code of one store alone are one tree to all other stores (`with_same_code`), and those that
differ in modules that no trial runs are one tree to all (`NOT_RUN`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import ragkit
from tests.torture.oracle import FAULTS

BEGIN, END = "<!-- torture: made by `make torture` -->", "<!-- end of torture -->"
EARLIER = "earlier"
"""The tree of counts that were made before trees were told apart."""
SHARED = "shared"
STORES_WITH_OWN_CODE = ("chroma", "duckdb", "faiss", "lancedb", "milvus", "qdrant")
"""Stores whose modules in `ragkit/store/backends` no other subject runs: `duckdb.py`, `qdrant_engine.py`."""
NOT_RUN = ("embed/onnx_graph.py", "embed/onnx_session.py")
"""Modules that neither the trials nor the targets of `tests/fuzz` run: they embed by hashing, or not at all."""


def tree_name() -> str:
    """The version of the package under test: `0.2.0+4f1c7a90b2d3`."""
    root = Path(ragkit.__file__).parent
    return f"{ragkit.__version__}+{_digest(root, _files(root))}"


def code_digests(root: Path | None = None) -> dict[str, str]:
    """The digest of the code of each store with code of its own, and that of all else that trials run (`SHARED`)."""
    root = root or Path(ragkit.__file__).parent
    parts: dict[str, list[Path]] = {name: [] for name in (SHARED, *STORES_WITH_OWN_CODE)}
    for path in _files(root):
        store = path.stem.partition("_")[0]
        if path.relative_to(root).as_posix() in NOT_RUN:
            continue
        is_own = path.parent == root / "store" / "backends" and store in STORES_WITH_OWN_CODE
        parts[store if is_own else SHARED].append(path)
    return {name: _digest(root, paths) for name, paths in parts.items()}


def _files(root: Path) -> list[Path]:
    return [path for path in sorted(root.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]


def _digest(root: Path, paths: Sequence[Path]) -> str:
    result = blake2b(digest_size=6)
    for path in paths:
        result.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return result.hexdigest()


@dataclass
class Cell:
    """The counts of one kind of trial on one subject."""

    trials: int = 0
    reached: int = 0
    """Breaks that came in time; of a database, processes that were killed."""
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    """Trials with a fault."""
    done: bool = False
    """Whether there are no other trials: every call was broken."""
    details: Counter[str] = field(default_factory=Counter)
    """Other counts of the trials, by name."""

    def add(self, other: Cell) -> None:
        """Add the counts of other trials."""
        self.trials += other.trials
        self.reached += other.reached
        self.seconds += other.seconds
        self.faults += other.faults
        self.failed += other.failed
        self.done = self.done or other.done
        self.details += other.details

    def to_json(self) -> dict[str, Any]:
        """The counts as JSON."""
        counts = {kind: self.faults[kind] for kind in FAULTS}
        more: dict[str, Any] = {"done": True} if self.done else {}
        if self.details:
            more["details"] = dict(sorted(self.details.items()))
        return {"trials": self.trials, "reached": self.reached, "seconds": round(self.seconds, 1), **counts, **more,
                "failed": sorted(self.failed)[:50]}  # fmt: skip

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Cell:
        """The counts of `to_json`."""
        faults = Counter({kind: values[kind] for kind in FAULTS if values.get(kind)})
        return cls(values["trials"], values["reached"], values.get("seconds", 0.0), faults, list(values["failed"]),
                   values.get("done", False), Counter(values.get("details", {})))  # fmt: skip

    def share(self, wanted: int) -> float:
        """How much of the wanted number is done, 0 to 1."""
        return 1.0 if self.done else min(1.0, self.reached / wanted)


Cells = dict[tuple[str, str], Cell]
"""(subject, kind) -> counts."""
Board = dict[str, Cells]
"""Tree -> counts."""
Code = dict[str, dict[str, str]]
"""Tree -> digests of its code (`code_digests`)."""


def read_board(path: Path | None) -> Board:
    """The stored counts; empty if there is no file."""
    if path is None or not path.exists():
        return {}
    stored: dict[str, Any] = json.loads(path.read_text()).get("torture", {})
    return {
        tree: {
            (name, kind): Cell.from_json(values) for name, kinds in subjects.items() for kind, values in kinds.items()
        }
        for tree, subjects in stored.items()
    }


def read_code(path: Path | None) -> Code:
    """The stored digests; empty if there is no file."""
    return json.loads(path.read_text()).get("code", {}) if path is not None and path.exists() else {}


def with_same_code(board: Board, code: Code, tree: str) -> tuple[Board, list[str]]:
    """The counts with those of other trees that hold for `tree`, since their subject runs the same code, moved to it.

    Returns them, and the names of these other trees.
    """
    result: Board = deepcopy(board)
    moved: list[str] = []
    own = code.get(tree, {})
    for name in board:
        other = code.get(name, {})
        if name == tree or not own or other.get(SHARED) != own[SHARED]:
            continue
        same = [key for key in board[name] if other.get(key[0]) == own.get(key[0])]
        add_cells(result, tree, {key: result[name].pop(key) for key in same})
        moved += [name] if same else []
    return result, moved


def add_cells(board: Board, tree: str, cells: Cells) -> None:
    """Add the counts of trials."""
    for key, cell in cells.items():
        board.setdefault(tree, {}).setdefault(key, Cell()).add(cell)


def write_board(path: Path, board: Board, tree: str, code: Code | None = None) -> None:
    """Write the counts to the JSON file; other keys are kept. `tree` comes last: it is the one that tables show."""
    result = json.loads(path.read_text()) if path.exists() else {}
    torture: dict[str, dict[str, dict[str, object]]] = {}
    for name in [*(name for name in board if name != tree), tree]:
        subjects = torture.setdefault(name, {})
        for (subject, kind), cell in sorted(board.get(name, {}).items()):
            subjects.setdefault(subject, {})[kind] = cell.to_json()
    result["torture"] = torture
    if code:
        result["code"] = code
    new = path.with_suffix(".new")
    new.write_text(json.dumps(result, indent=1) + "\n")
    new.rename(path)


def table(board: Board, tree: str, wanted: Mapping[str, Mapping[str, int]], kinds: Sequence[str]) -> str:
    """A Markdown table with a row for each kind and subject that was tried."""
    head = ["kind", "store", "times", "wanted", "before", *FAULTS]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    own = board.get(tree, {})
    tried = {key for cells in board.values() for key in cells}
    total, counted = Cell(), Counter[str]()
    for key in sorted(tried, key=lambda key: (kinds.index(key[1]), list(wanted).index(key[0]))):
        cell, number = own.get(key, Cell()), wanted[key[0]].get(key[1], 0)
        before = _others(board, tree, key)
        number = min(number, cell.reached) if cell.done else number
        counts = [str(cell.faults[fault]) for fault in FAULTS]
        lines.append(
            f"| {key[1]} | {key[0]} | {cell.reached:,} | {number:,} | {before.reached:,} | {' | '.join(counts)} |"
        )
        total.add(Cell(reached=cell.reached, faults=cell.faults))
        counted.update(wanted=number, before=before.reached)
    totals = [total.reached, counted["wanted"], counted["before"], *(total.faults[fault] for fault in FAULTS)]
    lines.append(f"| **all** | | {' | '.join(f'**{count:,}**' for count in totals)} |")
    return "\n".join(lines)


def _others(board: Board, tree: str, key: tuple[str, str]) -> Cell:
    """The counts of all other trees."""
    result = Cell()
    for name, cells in board.items():
        if name != tree and key in cells:
            result.add(cells[key])
    return result


def summary(
    board: Board,
    tree: str,
    wanted: Mapping[str, Mapping[str, int]],
    details: Mapping[str, Sequence[tuple[str, str]]],
    same: Sequence[str] = (),
) -> str:
    """The text above the table: the version, the last one with the full numbers, the counts of a database in words.

    `details`: kind -> (name of a count, how it reads). `same`: the trees whose counts are among those of `tree`.
    """
    cells = board.get(tree, {}).values()
    trials, hours = sum(cell.trials for cell in cells), sum(cell.seconds for cell in cells) / 3600
    lines = [f"ragkit {tree}: {trials:,} trials in {hours:.1f} hours. `before` counts those of other versions."]
    if same:
        lines.append(f"Among them those of {', '.join(same)} on stores that run the same code, file by file.")
    if not _is_complete(board.get(tree, {}), wanted):
        complete = [name for name, others in board.items() if name != tree and _is_complete(others, wanted)]
        for name in complete[-1:]:
            reached = sum(cell.reached for cell in board[name].values())
            faults = sum(sum(cell.faults.values()) for cell in board[name].values())
            noun = "fault" if faults == 1 else "faults"
            lines.append(f"The last version with the full numbers: ragkit {name}, {reached:,} trials, {faults} {noun}.")
    for (subject, kind), cell in sorted(board.get(tree, {}).items()):
        if kind in details and cell.details:
            words = [f"{cell.details[name]:,} {text}" for name, text in details[kind]]
            lines.append(f"{subject}, {kind}: {', '.join(words)}.")
    return "\n\n".join(lines)


def _is_complete(cells: Cells, wanted: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether every kind was tried as often as wanted, on every subject."""
    return all(
        cells.get((subject, kind), Cell()).share(number) == 1
        for subject, kinds in wanted.items()
        for kind, number in kinds.items()
    )


def write_table(path: Path, text: str) -> None:
    """Put the text between its marks in a Markdown file."""
    page = path.read_text()
    if BEGIN not in page or END not in page:
        raise ValueError(f"{path} has no lines {BEGIN!r} and {END!r}")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    path.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}")

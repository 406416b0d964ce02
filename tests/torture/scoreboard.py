"""The counts of all trials, by the version of the package, as JSON and as Markdown tables.

A tree is a version of the package: its number, and a digest of its files. Counts of several runs are added up for each
tree alone; the tables show those of one tree, and what is missing of the full numbers.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import ragkit
from tests.torture.oracle import FAULTS


def tree_name() -> str:
    """The version of the package under test: `0.3.0+4f1c7a90b2d3`."""
    root = Path(ragkit.__file__).parent
    result = blake2b(digest_size=6)
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            result.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return f"{ragkit.__version__}+{result.hexdigest()}"


def commit_name() -> str:
    """The commit of the repository, and whether files differ from it: `4f1c7a9`, `4f1c7a9 with changes`."""
    command = ["git", "describe", "--always", "--exclude=*", "--dirty= with changes"]
    named = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return named.stdout.strip() or "unknown"


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


def add_cells(board: Board, tree: str, cells: Cells) -> None:
    """Add the counts of trials."""
    for key, cell in cells.items():
        board.setdefault(tree, {}).setdefault(key, Cell()).add(cell)


def write_board(path: Path, board: Board) -> None:
    """Write the counts to the JSON file."""
    torture: dict[str, dict[str, dict[str, object]]] = {}
    for name, cells in board.items():
        subjects = torture.setdefault(name, {})
        for (subject, kind), cell in sorted(cells.items()):
            subjects.setdefault(subject, {})[kind] = cell.to_json()
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"torture": torture}, indent=1) + "\n")
    new.rename(path)


def table(cells: Cells, wanted: Mapping[str, Mapping[str, int]], kinds: Sequence[str]) -> str:
    """A Markdown table with a row for each kind and subject that was tried."""
    head = ["kind", "store", "times", "wanted", *FAULTS]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    total, all_wanted = Cell(), 0
    for subject, kind in sorted(cells, key=lambda key: (kinds.index(key[1]), list(wanted).index(key[0]))):
        cell, number = cells[subject, kind], wanted[subject].get(kind, 0)
        number = min(number, cell.reached) if cell.done else number
        counts = [str(cell.faults[fault]) for fault in FAULTS]
        lines.append(f"| {kind} | {subject} | {cell.reached:,} | {number:,} | {' | '.join(counts)} |")
        total.add(Cell(reached=cell.reached, faults=cell.faults))
        all_wanted += number
    totals = [total.reached, all_wanted, *(total.faults[fault] for fault in FAULTS)]
    lines.append(f"| **all** | | {' | '.join(f'**{count:,}**' for count in totals)} |")
    return "\n".join(lines)


def release_table(cells: Cells, kinds: Sequence[str]) -> str:
    """The table of a release in `docs/reliability.md`: a row for each kind, its trials and failures."""
    lines = ["| kind | trials | failures |", "| --- | --: | --: |"]
    total = Cell()
    for kind in kinds:
        row = Cell()
        for (_, name), cell in cells.items():
            if name == kind:
                row.add(cell)
        if row.reached:
            lines.append(f"| {kind} | {row.reached:,} | {len(row.failed)} |")
            total.add(row)
    lines.append(f"| **all** | **{total.reached:,}** | **{len(total.failed)}** |")
    return "\n".join(lines)


def summary(cells: Cells, tree: str, details: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    """The text above the tables: version, commit, date and duration, and the counts of a database in words.

    `details`: kind -> (name of a count, how it reads).
    """
    trials, hours = sum(cell.trials for cell in cells.values()), sum(cell.seconds for cell in cells.values()) / 3600
    lines = [
        f"ragkit {tree}, commit {commit_name()}, {datetime.now(UTC):%Y-%m-%d}: {trials:,} trials in {hours:.1f} hours."
    ]
    for (subject, kind), cell in sorted(cells.items()):
        if kind in details and cell.details:
            words = [f"{cell.details[name]:,} {text}" for name, text in details[kind]]
            lines.append(f"{subject}, {kind}: {', '.join(words)}.")
    return "\n\n".join(lines)

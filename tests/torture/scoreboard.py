"""The counts of all trials, as JSON and as a Markdown table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.torture.oracle import FAULTS

BEGIN, END = "<!-- torture: made by `make torture` -->", "<!-- end of torture -->"


@dataclass
class Cell:
    """The counts of one kind of trial on one store."""

    trials: int = 0
    reached: int = 0
    """Trials in which the interruption came in time."""
    faults: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    """Trials with a fault."""

    def to_json(self) -> dict[str, object]:
        """The counts as JSON."""
        counts = {kind: self.faults[kind] for kind in FAULTS}
        return {"trials": self.trials, "reached": self.reached, **counts, "failed": sorted(self.failed)[:50]}


Board = dict[str, dict[str, dict[str, object]]]
"""Store -> kind -> counts."""


def read_board(path: Path) -> Board:
    """The previous counts; empty if there is no file."""
    if not path.exists():
        return {}
    results: dict[str, Board] = json.loads(path.read_text())
    return results.get("torture", {})


def merged(board: Board, cells: Mapping[tuple[str, str], Cell], *, add: bool) -> Board:
    """The board with new cells; they replace the old ones, or with `add` are added to them."""
    for (store, kind), cell in cells.items():
        new = cell.to_json()
        old = board.setdefault(store, {}).get(kind)
        if add and old is not None:
            for key, value in new.items():
                before = old.get(key, 0)
                if isinstance(value, int) and isinstance(before, int):
                    new[key] = value + before
        board[store][kind] = new
    return board


def write_board(path: Path, board: Board, about: Mapping[str, object]) -> None:
    """Write the counts to the JSON file; other keys are kept."""
    result = json.loads(path.read_text()) if path.exists() else {}
    result["torture"] = {store: dict(sorted(kinds.items())) for store, kinds in sorted(board.items())}
    result["torture_run"] = dict(about)
    path.write_text(json.dumps(result, indent=1) + "\n")


def table(board: Board, kinds: list[str]) -> str:
    """A Markdown table with a row for each kind and store."""
    head = ["what is done", "store", "times", *FAULTS]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for kind in kinds:
        for store in sorted(board):
            cell = board[store].get(kind)
            if cell is not None:
                counts = [str(cell[fault]) for fault in FAULTS]
                lines.append(f"| {kind} | {store} | {cell['reached']} | {' | '.join(counts)} |")
    totals = [_total(board, key) for key in ("reached", *FAULTS)]
    lines.append(f"| **all** | | **{totals[0]:,}** | {' | '.join(f'**{count}**' for count in totals[1:])} |")
    return "\n".join(lines)


def _total(board: Board, key: str) -> int:
    counts = [cell[key] for kinds in board.values() for cell in kinds.values()]
    return sum(count for count in counts if isinstance(count, int))


def write_table(path: Path, text: str) -> None:
    """Put the table between its marks in a Markdown file."""
    page = path.read_text()
    if BEGIN not in page or END not in page:
        raise ValueError(f"{path} has no lines {BEGIN!r} and {END!r}")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    path.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}")

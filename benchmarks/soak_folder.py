"""The changing folder of documents that `soak.py` indexes. Every paragraph names the edition of its file."""

from __future__ import annotations

import random
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

LETTERS = "bcdfghjklmnpqrtvwxz"
"""No vowels, so that a stemmer does not change a mark."""
MARK = re.compile(rf"\bmk[{LETTERS}]{{10}}\b")
PARAGRAPHS = 8
"""Paragraphs of one note."""


@dataclass
class Step:
    """The changes of one round."""

    new: dict[str, Path] = field(default_factory=dict)
    """Mark -> the file that contains it from now on."""
    gone: list[str] = field(default_factory=list)
    """Marks that no file contains any more."""
    expected: dict[str, int] = field(default_factory=dict)
    """The expected counts of an index run: added, updated, removed."""


class Folder:
    """The unchanged sample, and notes built from its paragraphs, some of which change each round.

    Each edition of a note has a mark, a unique word, before each of its paragraphs: the marks in an answer show which
    editions it comes from.
    """

    def __init__(self, root: Path, sample: Path, notes: int, seed: int) -> None:
        self.root = root
        self._rng = random.Random(seed)
        self._paragraphs = _paragraphs(sample)
        self._number = 0
        self.marks: dict[Path, str] = {}
        """Note -> its mark."""
        shutil.copytree(sample, root / "sample")
        for _ in range(notes):
            self._write(self._new_path())

    def step(self, changed: int = 3, exchanged: int = 1, renamed: int = 1) -> Step:
        """Change some notes, delete as many as are added, rename some."""
        paths = self._rng.sample(sorted(self.marks), changed + exchanged + renamed)
        step = Step(expected={"added": exchanged + renamed, "updated": changed, "removed": exchanged + renamed})
        for path in paths[:changed]:
            step.gone.append(self.marks[path])
            step.new[self._write(path)] = path
        for path in paths[changed : changed + exchanged]:
            step.gone.append(self.marks.pop(path))
            path.unlink()
            new_path = self._new_path()
            step.new[self._write(new_path)] = new_path
        for path in paths[changed + exchanged :]:
            new_path = self._new_path()
            mark = self.marks[new_path] = self.marks.pop(path)
            path.rename(new_path)
            step.new[mark] = new_path
        return step

    def _new_path(self) -> Path:
        self._number += 1
        return self.root / "notes" / f"{self._number % 7}" / f"note-{self._number:05}.md"

    def _write(self, path: Path) -> str:
        """Write a new edition of a note and return its mark."""
        mark = self.marks[path] = "mk" + "".join(self._rng.choices(LETTERS, k=10))
        body = [f"{mark}: {text}" for text in self._rng.sample(self._paragraphs, PARAGRAPHS)]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join([f"# {path.stem}", *body]) + "\n", "utf-8")
        return mark


def _paragraphs(sample: Path) -> list[str]:
    """Paragraphs of the sample that are suitable for notes."""
    paragraphs: list[str] = []
    for path in sorted([*sample.rglob("*.md"), *sample.rglob("*.txt")]):
        parts = re.split(r"\n\s*\n", path.read_text("utf-8"))
        paragraphs += [" ".join(part.split()) for part in parts if 150 <= len(part) <= 900 and "|" not in part]
    return paragraphs

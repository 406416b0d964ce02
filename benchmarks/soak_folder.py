"""A folder of documents that changes: what `soak.py` indexes. Every paragraph names the edition of its file."""

from __future__ import annotations

import random
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

LETTERS = "bcdfghjklmnpqrtvwxz"
"""Without vowels a mark has no ending that a stemmer would take off."""
MARK = re.compile(rf"\bmk[{LETTERS}]{{10}}\b")
PARAGRAPHS = 8
"""Of one note."""


@dataclass
class Step:
    """What one round did to the folder."""

    new: dict[str, Path] = field(default_factory=dict)
    """Mark -> the file that holds it from now on."""
    gone: list[str] = field(default_factory=list)
    """Marks that no file holds any more."""
    expected: dict[str, int] = field(default_factory=dict)
    """What an index run has to count: added, updated, removed."""


class Folder:
    """The sample, which stays as it is, and notes made of its paragraphs, some of which change each round.

    Each edition of a note has a mark, a word that nothing else holds, before each of its paragraphs: an answer tells
    by its marks which editions it was made of.
    """

    def __init__(self, root: Path, sample: Path, notes: int, seed: int) -> None:
        self.root = root
        self._chance = random.Random(seed)
        self._paragraphs = _paragraphs(sample)
        self._number = 0
        self.marks: dict[Path, str] = {}
        """Note -> its mark."""
        shutil.copytree(sample, root / "sample")
        for _ in range(notes):
            self._write(self._new_path())

    def step(self, changed: int = 3, exchanged: int = 1, renamed: int = 1) -> Step:
        """Change some notes, delete as many as are added, rename some."""
        chosen = self._chance.sample(sorted(self.marks), changed + exchanged + renamed)
        step = Step(expected={"added": exchanged + renamed, "updated": changed, "removed": exchanged + renamed})
        for path in chosen[:changed]:
            step.gone.append(self.marks[path])
            step.new[self._write(path)] = path
        for path in chosen[changed : changed + exchanged]:
            step.gone.append(self.marks.pop(path))
            path.unlink()
            fresh = self._new_path()
            step.new[self._write(fresh)] = fresh
        for path in chosen[changed + exchanged :]:
            fresh = self._new_path()
            mark = self.marks[fresh] = self.marks.pop(path)
            path.rename(fresh)
            step.new[mark] = fresh
        return step

    def _new_path(self) -> Path:
        self._number += 1
        return self.root / "notes" / f"{self._number % 7}" / f"note-{self._number:05}.md"

    def _write(self, path: Path) -> str:
        """A new edition of a note; returns its mark."""
        mark = self.marks[path] = "mk" + "".join(self._chance.choices(LETTERS, k=10))
        body = [f"{mark}: {text}" for text in self._chance.sample(self._paragraphs, PARAGRAPHS)]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join([f"# {path.stem}", *body]) + "\n", "utf-8")
        return mark


def _paragraphs(sample: Path) -> list[str]:
    """What the sample's notes are made of."""
    found: list[str] = []
    for path in sorted([*sample.rglob("*.md"), *sample.rglob("*.txt")]):
        parts = re.split(r"\n\s*\n", path.read_text("utf-8"))
        found += [" ".join(part.split()) for part in parts if 150 <= len(part) <= 900 and "|" not in part]
    return found

"""A small folder of changing files, and the listings of fresh builds."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from tests.torture.forks import Commands

FILES = 24
DRAFT = "draft.txt"
"""A file that `EXCLUDE_DRAFT` leaves out: a repair that loses the pattern indexes it."""
EXCLUDE_DRAFT = ("--exclude", "*draft*")
_WORDS = (
    "account address answer archive balance battery bicycle border bridge budget button camera capital captain carbon"
    " castle channel climate college comedy company copper corner cotton culture current customer daughter decade"
    " delivery desert detail dinner doctor energy engine evening factory farmer figure finger forest freedom garden"
    " harbor history holiday income island journey justice kitchen language leather lesson letter library machine"
    " manager margin market meadow member memory message mirror moment morning mountain museum nature network number"
    " office orange paper parent partner pattern pepper picture planet pocket police powder problem quality quarter"
    " railway record region report river schedule school season secret silver sister soldier speaker spirit station"
    " storage story street summer surface teacher theory ticket timber traffic valley village voice wagon weather"
)
WORDS = _WORDS.split()

Files = dict[str, bytes]
"""Name below the folder, `/` between its parts -> content."""


def paragraphs_of(name: str, edition: int, *, words: tuple[int, int] = (60, 110)) -> list[str]:
    """The paragraphs of a file in one edition. Every paragraph names both and becomes about one chunk."""
    chance = random.Random(f"{name}/{edition}")
    parts = []
    for number in range(3):
        text = " ".join(chance.choice(WORDS) for _ in range(chance.randint(*words)))
        parts.append(f"Canary {name.partition('.')[0]} edition{edition} part {number}: {text}.")
    return parts


def text_of(name: str, edition: int) -> str:
    """The text of a file in one edition."""
    return "\n\n".join(paragraphs_of(name, edition)) + "\n"


class Folder(Protocol):
    """What is indexed, and how it changes."""

    def first(self) -> Files:
        """The initial files of every trial."""

    def change(self, files: Files, chance: random.Random) -> Files:
        """Change files."""

    def publish(self, folder: Path) -> None:
        """Called after files of the folder were written."""


class TextFolder:
    """24 texts, and a draft that is not indexed."""

    def first(self) -> Files:
        """See `Folder`."""
        return {**edition_files(0), DRAFT: text_of(DRAFT, 0).encode()}

    def change(self, files: Files, chance: random.Random) -> Files:
        """Change files: some edited, some new, some deleted, one renamed, one extended."""
        after = dict(files)
        names = sorted(after)
        chance.shuffle(names)
        for name in names[:4]:
            after[name] = text_of(name, chance.randrange(1, 10**6)).encode()
        for _ in range(chance.randint(1, 3)):
            name = f"new{chance.randrange(10**4)}.md"
            after[name] = text_of(name, 1).encode()
        for name in names[4 : 4 + chance.randint(1, 3)]:
            del after[name]
        after[f"moved-{names[8]}"] = after.pop(names[8])
        after[names[9]] += f"A last line of edition{chance.randrange(10**6)}.\n".encode()
        return after

    def publish(self, folder: Path) -> None:
        """Nothing: the folder itself is indexed."""


def edition_files(number: int) -> Files:
    """The texts with every file in the same edition."""
    names = [f"file{file:02}.txt" for file in range(FILES)]
    return {name: text_of(name, number).encode() for name in names}


def write_files(folder: Path, files: Files) -> bool:
    """Make the folder hold exactly these files; unchanged files are not rewritten. Returns whether any was."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = False
    for path in sorted(folder.rglob("*")):
        if path.is_file() and str(path.relative_to(folder)) not in files:
            path.unlink()
            changed = True
    for name, content in files.items():
        path = folder / name
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            changed = True
    return changed


def digest(files: Files) -> str:
    """A digest of names and contents."""
    result = blake2b(digest_size=8)
    for name, content in sorted(files.items()):
        result.update(f"{name} {len(content)} ".encode() + content)
    return result.hexdigest()


Listing = tuple[str, ...]
"""The lines of `ragkit list --chunks --json`."""


class FreshBuilds:
    """Listings of freshly built knowledge bases, by state of the folder."""

    def __init__(self, commands: Commands, folder: Path, kind: Folder, index: Sequence[str]) -> None:
        self._commands = commands
        self._folder = folder
        self._kind = kind
        self._index = index
        self._known: dict[str, Listing] = {}

    def write(self, files: Files) -> None:
        """Make the folder hold these files."""
        if write_files(self._folder, files):
            self._kind.publish(self._folder)

    def listing(self, files: Files) -> Listing:
        """Write these files to the folder; returns the listing of a fresh build."""
        self.write(files)
        name = digest(files)
        if name not in self._known:
            if len(self._known) > 200:
                self._known.clear()
            kb = str(self._commands.scratch / "fresh")
            shutil.rmtree(kb, ignore_errors=True)
            result = self._commands.run(*self._index, "--kb", kb, "--config", "fresh.yaml")
            output = self._commands.run("list", "--chunks", "--json", "--kb", kb)
            if result.code != 0 or output.code != 0 or not output.out:
                raise RuntimeError(f"a fresh build failed: {result.summary()} / {output.summary()}")
            self._known[name] = tuple(output.out.splitlines())
        return self._known[name]

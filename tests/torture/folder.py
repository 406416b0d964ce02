"""A small folder of changing text files, and the listings of fresh builds."""

from __future__ import annotations

import json
import random
import shutil
from hashlib import blake2b
from pathlib import Path

from tests.torture.forks import Commands

FILES = 24
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

Files = dict[str, str]
"""Name -> text."""


def text_of(name: str, edition: int) -> str:
    """The text of a file in one edition. Every paragraph names both and becomes about one chunk."""
    chance = random.Random(f"{name}/{edition}")
    parts = []
    for number in range(3):
        words = " ".join(chance.choice(WORDS) for _ in range(chance.randint(60, 110)))
        parts.append(f"Canary {name.partition('.')[0]} edition{edition} part {number}: {words}.")
    return "\n\n".join(parts) + "\n"


def first_files() -> Files:
    """The initial files of every trial."""
    return {f"file{number:02}.txt": text_of(f"file{number:02}.txt", 0) for number in range(FILES)}


def change_files(files: Files, chance: random.Random) -> Files:
    """Change files: some edited, some new, some deleted, one renamed, one extended."""
    after = dict(files)
    names = sorted(after)
    chance.shuffle(names)
    for name in names[:4]:
        after[name] = text_of(name, chance.randrange(1, 10**6))
    for _ in range(chance.randint(1, 3)):
        name = f"new{chance.randrange(10**4)}.md"
        after[name] = text_of(name, 1)
    for name in names[4 : 4 + chance.randint(1, 3)]:
        del after[name]
    after[f"moved-{names[8]}"] = after.pop(names[8])
    after[names[9]] += f"A last line of edition{chance.randrange(10**6)}.\n"
    return after


def edition_files(number: int) -> Files:
    """The folder with every file in the same edition."""
    return {name: text_of(name, number) for name in first_files()}


def write_files(folder: Path, files: Files) -> None:
    """Make the folder hold exactly these files; unchanged files are not rewritten."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def digest(files: Files) -> str:
    """A digest of names and texts."""
    return blake2b(json.dumps(files, sort_keys=True).encode(), digest_size=8).hexdigest()


Listing = tuple[str, ...]
"""The lines of `ragkit list --chunks --json`."""


class FreshBuilds:
    """Listings of freshly built knowledge bases, by state of the folder."""

    def __init__(self, commands: Commands, folder: Path) -> None:
        self._commands = commands
        self._folder = folder
        self._known: dict[str, Listing] = {}

    def listing(self, files: Files) -> Listing:
        """Write these files to the folder; returns the listing of a fresh build."""
        write_files(self._folder, files)
        name = digest(files)
        if name not in self._known:
            if len(self._known) > 200:
                self._known.clear()
            kb = str(self._commands.scratch / "fresh")
            shutil.rmtree(kb, ignore_errors=True)
            result = self._commands.run("index", self._folder.name, "--kb", kb, "--config", "fresh.yaml", "-q")
            output = self._commands.run("list", "--chunks", "--json", "--kb", kb)
            if result.code != 0 or output.code != 0 or not output.out:
                raise RuntimeError(f"a fresh build failed: {result.summary()} / {output.summary()}")
            self._known[name] = tuple(output.out.splitlines())
        return self._known[name]

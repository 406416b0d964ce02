"""A folder of knowledge bases that owners make, rename and delete.

A file beside them says which name stands for which directory. Directories never move, since an index knows uploaded
files by their path. A server reads the names at its start; after a change it starts again, on the same socket.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragkit.errors import InvalidOption, KnowledgeBaseDamaged
from ragkit.index.catalog.directory import knowledge_base_exists

NAMES_FILE = "names.json"
FIRST_NAME = "main"
"""The name of the first knowledge base of an empty folder."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_DIRECTORY = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")


@dataclass(slots=True)
class BaseFolder:
    """The names and directories. For one server: its processes are not told of changes."""

    folder: Path
    changed: bool = field(default=False, init=False)
    """Whether names were changed, which a server knows after its next start."""
    ends_server: bool = field(default=False, init=False)
    """Whether the server was ended for that."""

    def open(self) -> dict[str, Path]:
        """The directories by name, the default first; deletes what was to be deleted.

        Without a file of names, they are the knowledge bases in the folder, or one that is empty.

        Raises:
            KnowledgeBaseDamaged: the file of names is invalid.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        names, deleted = self._read()
        for directory in deleted:
            shutil.rmtree(self.folder / directory, ignore_errors=True)
        self._write(names, [one for one in deleted if (self.folder / one).exists()])
        return {name: self.folder / directory for name, directory in names.items()}

    def make(self, name: str) -> None:
        """Add an empty knowledge base. Raises InvalidOption for a name that is taken or invalid."""
        names, deleted = self._read()
        _check_new(name, names)
        directory = name
        while (self.folder / directory).exists() or directory in deleted:
            directory = f"{name}-{secrets.token_hex(3)}"
        (self.folder / directory).mkdir(mode=0o700)
        self._change({**names, name: directory}, deleted)

    def rename(self, name: str, new: str) -> None:
        """Give a knowledge base another name. Raises InvalidOption for a name that is taken or invalid."""
        names, deleted = self._read()
        _check_new(new, names)
        self._change({new if one == name else one: directory for one, directory in names.items()}, deleted)

    def delete(self, name: str) -> None:
        """Remove a knowledge base; its directory is deleted at the next start. Raises InvalidOption for the last."""
        names, deleted = self._read()
        if set(names) <= {name}:
            raise InvalidOption("name", name, "one of several knowledge bases: the last one stays")
        left = {one: directory for one, directory in names.items() if one != name}
        self._change(left, [*deleted, *(names[one] for one in names if one == name)])

    def names(self) -> list[str]:
        """The names from the next start on."""
        return list(self._read()[0])

    def _read(self) -> tuple[dict[str, str], list[str]]:
        path = self.folder / NAMES_FILE
        try:
            data: dict[str, Any] = json.loads(path.read_text("utf-8"))
            names, deleted = dict(data["bases"]), list(data["deleted"])
            if not names or not all(map(_NAME.fullmatch, names)):
                raise ValueError("a name is invalid")
            if not all(map(_DIRECTORY.fullmatch, [*names.values(), *deleted])):
                raise ValueError("a directory is invalid")
        except FileNotFoundError:
            found = sorted(one.name for one in self.folder.iterdir() if _NAME.fullmatch(one.name) and _is_served(one))
            return {name: name for name in found or [FIRST_NAME]}, []
        except (ValueError, KeyError, TypeError) as error:
            fix = "correct it, or remove it to take the names of the directories"
            raise KnowledgeBaseDamaged(str(path), f"does not hold names of knowledge bases ({error})", fix) from error
        return names, deleted

    def _change(self, names: dict[str, str], deleted: list[str]) -> None:
        self._write(names, deleted)
        self.changed = True

    def _write(self, names: dict[str, str], deleted: list[str]) -> None:
        draft = self.folder / f"{NAMES_FILE}.tmp"
        draft.write_text(json.dumps({"bases": names, "deleted": deleted}), "utf-8")
        draft.replace(self.folder / NAMES_FILE)


def _is_served(directory: Path) -> bool:
    """Whether a directory is a knowledge base, or was served as an empty one."""
    return knowledge_base_exists(directory) or (directory / "server.sqlite").exists()


def _check_new(name: str, names: dict[str, str]) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidOption("name", name, "1 to 40 small letters, digits, - and _, a letter or digit first")
    if name in names:
        raise InvalidOption("name", name, f"a new name: there are {', '.join(names)}")

"""The source `maildir`: the mails of a Maildir, with its subfolders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from ragkit.errors import LoadError
from ragkit.load.files.file_io import MB, describe_os_error, read_bytes
from ragkit.load.sources.base import DocumentGone, SourceContext, SourceFile, SourceItem
from ragkit.load.sources.options import MaildirOptions


class MaildirSource:
    """A mail keeps its key when it is read, flagged, or moved from `new` to `cur`."""

    def __init__(self, options: MaildirOptions) -> None:
        self._root = Path(os.path.abspath(Path(options.path).expanduser()))  # noqa: PTH100 - without following links
        self._paths: dict[str, Path] = {}

    @property
    def location(self) -> str:
        """The absolute path."""
        return str(self._root)

    def list(self, context: SourceContext) -> Iterator[SourceItem]:
        """Every mail; see `Source.list`."""
        try:
            folders = [self._root, *sorted(path for path in self._root.iterdir() if _is_subfolder(path))]
            for folder in folders:
                box = "" if folder == self._root else f"{folder.name.removeprefix('.')}/"
                for path in _mails(folder):
                    name = _name(path)
                    key = f"maildir://{quote(str(self._root))}/{quote(box + name)}"
                    try:
                        size = path.stat().st_size
                    except FileNotFoundError:  # moved or deleted meanwhile
                        continue
                    self._paths[box + name] = path
                    yield SourceItem(key, str(size), size, path=box + name)
        except OSError as error:
            raise LoadError(self.location, describe_os_error(error), "check the path of the Maildir") from error

    def fetch(self, item: SourceItem, context: SourceContext) -> SourceFile:
        """The mail; see `Source.fetch`."""
        path = self._paths.get(item.path)
        if path is None or not path.exists():
            path = self._find(item.path)
        if path is None:
            raise DocumentGone(item.key, "was deleted", "run again")
        return SourceFile(read_bytes(path, None, int(context.max_file_mb * MB)), "message/rfc822", suffix=".eml")

    def _find(self, name: str) -> Path | None:
        """The path of a mail that was moved or flagged since it was listed."""
        box, _, name = name.rpartition("/")
        for folder in (self._root / f".{box}", self._root / box) if box else (self._root,):
            for path in _mails(folder) if folder.is_dir() else ():
                if _name(path) == name:
                    return path
        return None


def _mails(folder: Path) -> Iterator[Path]:
    """The mails of one folder: `new` first, from where programs move them to `cur`.

    Raises FileNotFoundError if it is no Maildir.
    """
    for part in ("new", "cur"):
        yield from sorted(path for path in (folder / part).iterdir() if path.is_file())


def _name(path: Path) -> str:
    """The unique name of a mail, without its flags."""
    return path.name.partition(":")[0]


def _is_subfolder(path: Path) -> bool:
    return path.name not in ("cur", "new", "tmp") and (path / "cur").is_dir() and (path / "new").is_dir()

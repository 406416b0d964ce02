"""Documents with one call: from text, a file, a folder or a URL."""

from __future__ import annotations

import logging
import mimetypes
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ragkit.errors import InvalidOption, LoadError, UnsupportedFormat
from ragkit.load.encoding import replace_invalid_chars
from ragkit.load.fetch import FetchOptions, fetch_url
from ragkit.load.file_io import MB, read_bytes
from ragkit.load.file_types import LOADER_BY_SUFFIX, file_suffix
from ragkit.load.parse_pool import ParsePool
from ragkit.load.parsing import ParseFailure, ParseLimits, ParseTask, load_bytes
from ragkit.load.router import LoaderRoute, Router
from ragkit.load.walk import FolderOptions, SkippedPath, walk_files
from ragkit.records import Document, Metadata

LOG = logging.getLogger("ragkit.load")

DEFAULT_LIMITS = ParseLimits(max_file_mb=1024)


class DocumentLoader:
    """Reads what it is given at once, in this process, and keeps nothing.

    Every method gives a list, most often of one Document. Text that is empty is a Document too.
    """

    @staticmethod
    def from_text(text: str, metadata: Metadata | None = None) -> list[Document]:
        """A Document of text that is at hand."""
        return [Document(text=replace_invalid_chars(text), metadata=metadata or {})]

    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> list[Document]:
        """A file of any known format. Raises LoadError."""
        return [_load_file(path)]

    @staticmethod
    def from_pdf(path: str | os.PathLike[str]) -> list[Document]:
        """A PDF, whatever its name. Raises LoadError."""
        return [_load_file(path, "pdf")]

    @staticmethod
    def from_csv(path: str | os.PathLike[str]) -> list[Document]:
        """A table in text form, whatever its name; one line of text for each row. Raises LoadError."""
        return [_load_file(path, "csv")]

    @staticmethod
    def from_json(path: str | os.PathLike[str]) -> list[Document]:
        """A JSON file, whatever its name. Raises LoadError."""
        return [_load_file(path, "json")]

    @staticmethod
    def from_html(path: str | os.PathLike[str]) -> list[Document]:
        """A web page on disk, whatever its name. Raises LoadError."""
        return [_load_file(path, "html")]

    @staticmethod
    def from_directory(
        path: str | os.PathLike[str],
        glob: str | Sequence[str] = "**/*",
        *,
        recursive: bool = True,
        errors: Literal["log", "raise"] = "log",
        jobs: int = 0,
    ) -> list[Document]:
        """Every file of a folder that has text, in the order of names.

        Args:
            path: the folder. Hidden files, what `.gitignore` names, and files that look like secrets stay out.
            glob: which files, written as in a `.gitignore`: `*.md` means at any depth.
            recursive: go into the folders below.
            errors: `log`: a file that cannot be read is a warning of the logger `ragkit.load`; `raise`: it ends the
                call. Files of unknown formats, such as images, are only ever logged.
            jobs: processes that parse; 0: this one does, and a hostile file may hang it.

        Raises:
            LoadError: `path` is not there; or, with `errors="raise"`, the first file that cannot be read.
        """
        if errors not in ("log", "raise"):
            raise InvalidOption("errors", errors, "'log' or 'raise'")
        folder = Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would follow links, and change the source
        if not folder.exists():
            raise LoadError(str(folder), "not there", "look at the path")
        include = (glob,) if isinstance(glob, str) else tuple(glob)
        options = FolderOptions(include=include, exclude=() if recursive else ("/*/",))
        tasks: list[ParseTask] = []
        for item in walk_files(folder, options):
            if isinstance(item, SkippedPath):
                LOG.info("%s: %s", item.path, item.reason)
            else:
                tasks.append(ParseTask(item.path, str(item.path), item.stat))
        return _load_files(tasks, errors, jobs)

    @staticmethod
    def from_url(url: str, *, seconds: float = 30.0, max_mb: float = 50, allow_private: bool = False) -> list[Document]:
        """What stands at an http or https URL, in any known format.

        Args:
            url: where it stands; redirects are followed.
            seconds: for the whole fetch.
            max_mb: the largest answer.
            allow_private: reach loopback, private and link-local addresses too.

        Raises:
            LoadError: it cannot be fetched, or no text can be taken from it.
        """
        fetched = fetch_url(url, FetchOptions(seconds, max_mb, allow_private))
        suffix = (
            ""
            if file_suffix(fetched.url) in LOADER_BY_SUFFIX
            else (mimetypes.guess_extension(fetched.media_type) or "")
        )
        named = fetched.url.rstrip("/") + (suffix if suffix in LOADER_BY_SUFFIX else "")
        _, document = load_bytes(fetched.data, named, Router(), DEFAULT_LIMITS)
        return [replace(document, source=fetched.url, id="")]


def _load_file(path: str | os.PathLike[str], name: str = "") -> Document:
    source = os.path.abspath(path)  # noqa: PTH100 - as above
    data = read_bytes(Path(os.path.realpath(path)), None, int(DEFAULT_LIMITS.max_file_mb * MB))
    return load_bytes(data, source, Router(), DEFAULT_LIMITS, name)[1]


def _load_files(tasks: Sequence[ParseTask], errors: str, jobs: int) -> list[Document]:
    found: list[Document] = []
    with ParsePool(jobs, DEFAULT_LIMITS, (LoaderRoute("folder"),)) as pool:
        for outcome in pool.parse(tasks):
            if not isinstance(outcome, ParseFailure):
                found.append(outcome.document)
            elif errors == "raise" and not isinstance(outcome.error, UnsupportedFormat):
                raise outcome.error
            else:
                LOG.warning("%s", outcome.error)
    return [document for document in found if document.text.strip()]

"""`DocumentLoader`: documents from text, a file, a folder or a URL with one call."""

from __future__ import annotations

import logging
import mimetypes
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ragkit.argument_types import check_types
from ragkit.errors import InvalidOption, LoadError, UnsupportedFormat
from ragkit.load.file_types import LOADER_BY_SUFFIX, file_suffix
from ragkit.load.files.fetch import FetchOptions, fetch_url
from ragkit.load.files.file_io import MB, read_bytes
from ragkit.load.files.walk import FolderOptions, SkippedPath, walk_files
from ragkit.load.process.parse_pool import ParsePool
from ragkit.load.process.parsing import ParseFailure, ParseLimits, ParseTask, load_bytes
from ragkit.load.router import LoaderRoute, Router
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.records import Document, Metadata

LOG = logging.getLogger("ragkit.load")

DEFAULT_LIMITS = ParseLimits(max_file_mb=1024)


@check_types()
class DocumentLoader:
    """Loads documents eagerly, without state; in this process, unless `jobs` is given.

    Every method returns a list, usually of one Document. An empty text is a Document too. `metadata` is added to the
    metadata that the loader found, and overrides it.
    """

    @staticmethod
    def from_text(text: str, metadata: Metadata | None = None) -> list[Document]:
        """A Document with the given text."""
        return [Document(text=replace_invalid_chars(text), metadata=metadata or {})]

    @staticmethod
    def from_file(path: str | os.PathLike[str], metadata: Metadata | None = None) -> list[Document]:
        """A file in any supported format, then the documents inside it, such as attachments. Raises LoadError."""
        document = _load_file(path)
        return [_add_metadata(found, metadata) for found in (document, *document.parts)]

    @staticmethod
    def from_pdf(path: str | os.PathLike[str], metadata: Metadata | None = None) -> list[Document]:
        """A PDF file, regardless of its suffix. Raises LoadError."""
        return [_add_metadata(_load_file(path, "pdf"), metadata)]

    @staticmethod
    def from_csv(path: str | os.PathLike[str], metadata: Metadata | None = None) -> list[Document]:
        """A CSV file, regardless of its suffix; one line of text per row. Raises LoadError."""
        return [_add_metadata(_load_file(path, "csv"), metadata)]

    @staticmethod
    def from_json(path: str | os.PathLike[str], metadata: Metadata | None = None) -> list[Document]:
        """A JSON file, regardless of its suffix. Raises LoadError."""
        return [_add_metadata(_load_file(path, "json"), metadata)]

    @staticmethod
    def from_html(path: str | os.PathLike[str], metadata: Metadata | None = None) -> list[Document]:
        """An HTML file, regardless of its suffix. Raises LoadError."""
        return [_add_metadata(_load_file(path, "html"), metadata)]

    @staticmethod
    def from_directory(
        path: str | os.PathLike[str],
        glob: str | Sequence[str] = "**/*",
        *,
        recursive: bool = True,
        errors: Literal["log", "raise"] = "log",
        jobs: int = 0,
        metadata: Metadata | None = None,
    ) -> list[Document]:
        """Every file of a folder that contains text, sorted by name.

        Args:
            path: the folder. Hidden files, files listed in `.gitignore`, and files that look like secrets are skipped.
            glob: patterns of the files to load, in `.gitignore` syntax: `*.md` matches at any depth.
            recursive: include subfolders.
            errors: `log`: a file that cannot be loaded is logged as a warning of the logger `ragkit.load`; `raise`: it
                raises. Files in unsupported formats, such as images, are always logged.
            jobs: number of parser processes; 0 parses in this process, without a timeout.
            metadata: added to the metadata of every document.

        Raises:
            LoadError: `path` does not exist; with `errors="raise"`, also the first file that cannot be loaded.
        """
        if errors not in ("log", "raise"):
            raise InvalidOption("errors", errors, "'log' or 'raise'")
        folder = Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would follow links and change the source
        if not folder.exists():
            raise LoadError(str(folder), "does not exist", "check the path")
        include = (glob,) if isinstance(glob, str) else tuple(glob)
        options = FolderOptions(include=include, exclude=() if recursive else ("/*/",))
        tasks: list[ParseTask] = []
        for item in walk_files(folder, options):
            if isinstance(item, SkippedPath):
                LOG.info("%s: %s", item.path, item.reason)
            else:
                tasks.append(ParseTask(item.path, str(item.path), item.stat))
        return [_add_metadata(document, metadata) for document in _load_files(tasks, errors, jobs)]

    @staticmethod
    def from_url(
        url: str,
        metadata: Metadata | None = None,
        *,
        seconds: float = 30.0,
        max_mb: float = 50,
        allow_private: bool = False,
    ) -> list[Document]:
        """The document at an http or https URL, in any supported format.

        Args:
            url: the URL; redirects are followed.
            metadata: added to the metadata of the document.
            seconds: timeout of the whole request, redirects included.
            max_mb: the largest response body, in MB.
            allow_private: allow loopback, private and link-local addresses.

        Raises:
            LoadError: the request fails, or the response cannot be parsed.
        """
        fetched = fetch_url(url, FetchOptions(seconds, max_mb, allow_private))
        named, suffix = fetched.url.rstrip("/"), mimetypes.guess_extension(fetched.media_type) or ""
        if suffix in LOADER_BY_SUFFIX and file_suffix(fetched.url) not in LOADER_BY_SUFFIX:
            named += suffix
        _, document = load_bytes(fetched.data, named, Router(), DEFAULT_LIMITS)
        return [_add_metadata(replace(document, source=fetched.url, id=""), metadata)]


def _add_metadata(document: Document, metadata: Metadata | None) -> Document:
    if not metadata:
        return document
    return replace(document, metadata={**document.metadata, **metadata}, id="")


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

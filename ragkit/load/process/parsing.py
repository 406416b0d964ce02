"""Parse one file in this process: read, hash, detect the format, load. Errors are returned as values.

`parse_pool` runs it in worker processes.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, replace
from pathlib import Path

from ragkit.errors import LoadError, LoadLimitExceeded, RagkitError
from ragkit.load.files.file_io import MB, FileChanged, FileStat, hash_content, read_bytes_with_stat
from ragkit.load.option_checks import require_positive
from ragkit.load.process.parser_state import set_reads_scans
from ragkit.load.process.saved_document import LOADER_NAME, SAVED_DOCUMENT_SUFFIX, load_document
from ragkit.load.router import Router
from ragkit.load.shared.access_field import settle_access
from ragkit.load.shared.zip_archive import SAVE_AGAIN_HINT
from ragkit.records import Document

MAX_READ_ATTEMPTS = 3
"""Attempts to read a file that changes while it is being read."""


@dataclass(frozen=True)
class ParseLimits:
    """Limits per file."""

    timeout_s: float = 60.0
    """Wall clock time for reading and parsing, in seconds; in worker processes only."""
    max_memory_mb: int = 2048
    """Address space of a worker process, in MB."""
    max_text_mb: float = 64
    """Length of a document's text, in million characters (2**20)."""
    max_file_mb: float = 50
    """Size of a file in MB, for tasks without `stat`."""
    reads_scans: bool = True
    """Read scanned pages; else only count them."""

    def __post_init__(self) -> None:
        for name in ("timeout_s", "max_memory_mb", "max_text_mb", "max_file_mb"):
            require_positive(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class ParseTask:
    """A file to parse."""

    path: Path
    source: str
    """The `source` of the Document."""
    stat: FileStat | None = None
    """The expected version of the file; None: any."""


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A file that was parsed; its text may be empty."""

    task: ParseTask
    document: Document
    content_hash: str
    """blake2b of the file's bytes, 32 hex digits."""
    stat: FileStat
    """The version that was read; newer than that of the task when the file changed in between."""
    loader: str
    """The name of its loader."""


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """A file that was not parsed. `UnsupportedFormat` means that its format has no loader."""

    task: ParseTask
    error: LoadError
    content_hash: str = ""
    """As in `ParsedFile`; empty when the file could not be read or the process exited."""
    stat: FileStat | None = None
    """As in `ParsedFile`; with `mtime_ns` 0 if the file could not be read, or changed at each attempt."""

    @property
    def is_unread(self) -> bool:
        """Whether the file exists and could not be read, so that its content may be the same as before."""
        return not self.content_hash and self.stat is not None and self.stat.mtime_ns == 0


class MemoryLimitExceeded(LoadLimitExceeded):
    """A file whose parser ran out of memory."""


def memory_limit_error(source: str, limits: ParseLimits) -> MemoryLimitExceeded:
    """The error of a file whose parser ran out of memory."""
    return MemoryLimitExceeded(source, f"needs more than {limits.max_memory_mb} MB of memory", "raise max_memory_mb")


def parse_file(task: ParseTask, router: Router, limits: ParseLimits) -> ParsedFile | ParseFailure:
    """Read and load a file. Never raises because of its content."""
    set_reads_scans(limits.reads_scans)
    try:
        data, stat = _read_with_retry(task, limits)
    except LoadError as error:
        # a file that the system could not read may be readable later without a change: its stat never matches
        unread = replace(task.stat, mtime_ns=0) if task.stat and _is_unread(error) else None
        return ParseFailure(task, type(error)(task.source, error.reason, error.hint), stat=unread)
    digest = hash_content(data)
    if task.path.suffix == SAVED_DOCUMENT_SUFFIX and task.source != str(task.path):
        try:
            document = settle_access(load_document(data, task.source))
            return ParsedFile(task, document, digest, stat, LOADER_NAME)
        except LoadError as error:
            return ParseFailure(task, error, digest, stat)
    # the local copy of a web page has the suffix that its URL may lack
    name_for_loader = str(task.path) if "://" in task.source else task.source
    try:
        loader, document = load_bytes(data, name_for_loader, router, limits)
    except LoadError as error:
        return ParseFailure(task, type(error)(task.source, error.reason, error.hint), digest, stat)
    if name_for_loader != task.source:
        document = _rename(document, name_for_loader, task.source)
    return ParsedFile(task, document, digest, stat, loader)


def load_bytes(data: bytes, source: str, router: Router, limits: ParseLimits, name: str = "") -> tuple[str, Document]:
    """The name of the loader (`name`, if given), and the Document. Raises LoadError for any error of the parser."""
    try:
        loader, document = router.load(data, source, name)
    except LoadError:
        raise
    except RagkitError as error:
        raise LoadError(source, str(error)) from error
    except RecursionError as error:
        raise LoadLimitExceeded(source, "nested too deeply", "exclude it") from error
    except MemoryError as error:
        raise memory_limit_error(source, limits) from error
    except Exception as error:  # one file must not stop an index run
        detail = " ".join(str(error).split())[:200]
        reason = f"the parser failed ({type(error).__name__}{': ' if detail else ''}{detail})"
        raise LoadError(source, reason, SAVE_AGAIN_HINT) from error
    if _text_length(document) > limits.max_text_mb * MB:
        reason = f"the text is longer than {limits.max_text_mb:g} million characters"
        raise LoadLimitExceeded(source, reason, "raise max_text_mb")
    return loader, settle_access(document)


def _text_length(document: Document) -> int:
    return len(document.text) + sum(map(_text_length, document.parts))


def _rename(document: Document, old: str, new: str) -> Document:
    """The document and its parts with sources that start with `new` instead of `old`."""
    parts = tuple(_rename(part, old, new) for part in document.parts)
    return replace(document, source=new + document.source.removeprefix(old), id="", parts=parts)


def _is_unread(error: LoadError) -> bool:
    """Whether a file that is still there could not be read, or not in one version."""
    cause = error.__cause__
    is_gone = isinstance(cause, FileNotFoundError | NotADirectoryError)
    failed = isinstance(cause, OSError) and not is_gone and cause.errno != errno.ELOOP  # ELOOP: it is a link now
    return failed or isinstance(error, FileChanged)


def _read_with_retry(task: ParseTask, limits: ParseLimits) -> tuple[bytes, FileStat]:
    """The bytes of the expected version, or else of the newest one."""
    expected = task.stat
    for _ in range(MAX_READ_ATTEMPTS - 1):
        max_bytes = expected.size if expected else int(limits.max_file_mb * MB)
        try:
            return read_bytes_with_stat(task.path, expected, max_bytes)
        except FileChanged:
            if os.path.realpath(task.path) != os.path.abspath(task.path):  # noqa: PTH100 - without following links
                raise  # a parent folder may have been replaced by a link
            expected = None
    return read_bytes_with_stat(task.path, expected, int(limits.max_file_mb * MB))

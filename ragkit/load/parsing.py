"""One file from path to Document, in this process: read, hash, choose, load, with every error as a value.

The border behind which a parser may fail in any way; `workers` puts it into processes of its own.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from ragkit.errors import LoadError, LoadLimitExceeded, RagkitError
from ragkit.load.file_io import MB, FileChanged, FileStat, read_bytes_with_stat
from ragkit.load.options import require_positive
from ragkit.load.router import Router
from ragkit.records import Document

MAX_READ_ATTEMPTS = 3
"""How often a file that changes under our eyes is read before it is given up."""


@dataclass(frozen=True)
class ParseLimits:
    """What one file may cost."""

    timeout_s: float = 60.0
    """Wall clock time for reading and parsing; holds in worker processes only."""
    max_memory_mb: int = 2048
    """Address space of a worker process."""
    max_text_mb: float = 64
    """Length of a document's text, in million characters (2**20)."""
    max_file_mb: float = 50
    """Size of a file whose size was not looked at before."""

    def __post_init__(self) -> None:
        for name in ("timeout_s", "max_memory_mb", "max_text_mb", "max_file_mb"):
            require_positive(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class ParseTask:
    """A file to parse."""

    path: Path
    source: str
    """What the Document gives as its source."""
    stat: FileStat | None = None
    """The state in which it was found; None: not looked at."""


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A file that gave a Document; its text may be empty."""

    task: ParseTask
    document: Document
    content_hash: str
    """blake2b of the file's bytes, 32 hex digits."""
    stat: FileStat
    """The state in which it was read; newer than the task's where the file changed in between."""
    loader: str
    """The name of the loader that took it."""


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """A file that gave none. An `UnsupportedFormat` error means that no loader takes its format."""

    task: ParseTask
    error: LoadError
    content_hash: str = ""
    """As in `ParsedFile`; empty when the file could not be read or the process ended first."""
    stat: FileStat | None = None


def hash_content(data: bytes) -> str:
    """blake2b of a file's bytes, 16 bytes as 32 hex digits."""
    return blake2b(data, digest_size=16).hexdigest()


def parse_file(task: ParseTask, router: Router, limits: ParseLimits) -> ParsedFile | ParseFailure:
    """Read a file and load it. Never raises for what is in the file."""
    try:
        data, status = _read_with_retry(task, limits)
    except LoadError as error:
        return ParseFailure(task, type(error)(task.source, error.reason, error.hint))
    digest = hash_content(data)
    named = (
        str(task.path) if "://" in task.source else task.source
    )  # a page's copy has the suffix that its URL may lack
    try:
        loader, document = load_bytes(data, named, router, limits)
    except LoadError as error:
        return ParseFailure(task, type(error)(task.source, error.reason, error.hint), digest, status)
    if named != task.source:
        document = replace(document, source=task.source, id="")
    return ParsedFile(task, document, digest, status, loader)


def load_bytes(data: bytes, source: str, router: Router, limits: ParseLimits, name: str = "") -> tuple[str, Document]:
    """The name of the loader that took `data` (`name`, where given), and its Document.

    Raises LoadError, whatever the parser raised.
    """
    try:
        loader, document = router.load(data, source, name)
    except LoadError:
        raise
    except RagkitError as error:
        raise LoadError(source, str(error)) from error
    except RecursionError as error:
        raise LoadLimitExceeded(source, "nested too deep", "leave it out") from error
    except MemoryError as error:
        raise LoadLimitExceeded(
            source, f"needs more than {limits.max_memory_mb} MB of memory", "raise max_memory_mb"
        ) from error
    except Exception as error:  # a border: no parser's fault may stop a run over other files
        words = " ".join(str(error).split())[:200]
        reason = f"its parser failed ({type(error).__name__}{': ' if words else ''}{words})"
        raise LoadError(source, reason, "open it in the program it came from and save it again") from error
    if len(document.text) > limits.max_text_mb * MB:
        raise LoadLimitExceeded(
            source, f"its text is longer than {limits.max_text_mb:g} million characters", "raise max_text_mb"
        )
    return loader, document


def _read_with_retry(task: ParseTask, limits: ParseLimits) -> tuple[bytes, FileStat]:
    """The bytes in the state found, or else in the newest whole state."""
    expected = task.stat
    for _ in range(MAX_READ_ATTEMPTS - 1):
        most = expected.size if expected else int(limits.max_file_mb * MB)
        try:
            return read_bytes_with_stat(task.path, expected, most)
        except FileChanged:
            if os.path.realpath(task.path) != os.path.abspath(task.path):  # noqa: PTH100 - without following links
                raise  # a folder above it may have become a link that leads elsewhere
            expected = None
    return read_bytes_with_stat(task.path, expected, int(limits.max_file_mb * MB))

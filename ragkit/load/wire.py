"""What travels between the parsing processes and their parent: JSON, with the text beside it.

No pickle: the process that sends has read hostile files, so what it says is checked like any foreign input.
A frame is two lengths (4 bytes for the JSON, 8 for the text), the JSON in ASCII, and the text in UTF-8.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from typing import cast

from ragkit.errors import LoadError, LoadLimit, UnsupportedFormat
from ragkit.load.files import FileChanged, FileStat
from ragkit.load.parse import Failed, Parsed, ParseLimits, Task
from ragkit.load.route import Route, options_json, route_from_json
from ragkit.records import JSON, Document, Heading

LENGTHS = struct.Struct("!IQ")
MAX_JSON = 256 * 1024 * 1024

ERRORS: Mapping[str, type[LoadError]] = {
    kind.__name__: kind for kind in (LoadError, UnsupportedFormat, LoadLimit, FileChanged)
}


class Nonsense(Exception):
    """A frame that is not of the agreed shape."""


def frame(head: Mapping[str, JSON], text: str = "") -> bytes:
    """A frame as bytes."""
    packed = json.dumps(head, default=_plain).encode("ascii")
    body = text.encode("utf-8", "replace")
    return LENGTHS.pack(len(packed), len(body)) + packed + body


def _plain(value: object) -> JSON:
    """A read-only mapping as JSON has it. Raises TypeError for what JSON does not have."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is no JSON value")


def head_of(packed: bytes) -> Mapping[str, JSON]:
    """The JSON of a frame. Raises Nonsense."""
    try:
        head = json.loads(packed)
    except (ValueError, RecursionError) as error:
        raise Nonsense("no JSON") from error
    return _mapping(head)


# From the parent


def hello(limits: ParseLimits, routes: tuple[Route, ...], parent: int) -> bytes:
    """The first frame: how to parse, for whom."""
    numbers: list[JSON] = [limits.seconds, limits.memory_mb, limits.text_mb, limits.file_mb]
    listed: list[JSON] = [[route.name, options_json(route.options), list(route.suffixes)] for route in routes]
    return frame({"limits": numbers, "routes": listed, "parent": parent})


def read_hello(head: Mapping[str, JSON]) -> tuple[ParseLimits, tuple[Route, ...], int]:
    """What `hello` said."""
    seconds, memory, text, file = cast("list[float]", head["limits"])
    listed = cast("list[tuple[str, dict[str, JSON], list[str]]]", head["routes"])
    return (
        ParseLimits(seconds, int(memory), text, file),
        tuple(route_from_json(*each) for each in listed),
        _int(head["parent"]),
    )


def task_frame(task: Task) -> bytes:
    """A file to parse; its path travels as bytes, so that every name survives."""
    path = os.fsencode(os.path.abspath(task.path)).decode("latin-1")  # noqa: PTH100 - `resolve` would follow links
    return frame({"path": path, "source": task.source, "stat": _stat(task.stat)})


def read_task(head: Mapping[str, JSON]) -> tuple[bytes, str, FileStat | None]:
    """Path, source and state of a file to parse."""
    return _str(head["path"]).encode("latin-1"), _str(head["source"]), _read_stat(head["stat"])


# From the child


def outcome_frame(outcome: Parsed | Failed, *, last: bool) -> bytes:
    """What became of a file; `last` says that this process takes no more."""
    head: dict[str, JSON] = {"hash": outcome.content_hash, "stat": _stat(outcome.stat), "last": last}
    if isinstance(outcome, Failed):
        error = outcome.error
        kind = type(error).__name__ if type(error).__name__ in ERRORS else "LoadError"
        return frame({**head, "error": [kind, error.reason, error.hint]})
    document = outcome.document
    headings: list[JSON] = [[heading.start, heading.level, heading.text] for heading in document.headings]
    return frame(
        {
            **head,
            "loader": outcome.loader,
            "title": document.title,
            "pages": list(document.page_starts),
            "headings": headings,
            "metadata": document.metadata,
            "format": document.format,
            "language": document.language,
        },
        document.text,
    )


def read_outcome(head: Mapping[str, JSON], body: bytes, task: Task) -> tuple[Parsed | Failed, bool]:
    """What became of `task`, and whether the process has ended itself. Raises Nonsense."""
    try:
        return _outcome(head, body.decode("utf-8"), task), head["last"] is True
    except (KeyError, ValueError, TypeError) as error:
        raise Nonsense(str(error)) from error


def _outcome(head: Mapping[str, JSON], text: str, task: Task) -> Parsed | Failed:
    digest, status = _str(head["hash"]), _read_stat(head["stat"])
    if "error" in head:
        kind, reason, hint = (_str(part) for part in _list(head["error"]))
        return Failed(task, ERRORS[kind](task.source, reason, hint), digest, status)
    if status is None:
        raise Nonsense("no state")
    document = Document(
        text=text,
        metadata=_mapping(head["metadata"]),
        source=task.source,
        title=_str(head["title"]),
        page_starts=tuple(_offset(start, text) for start in _list(head["pages"])),
        headings=tuple(_heading(each, text) for each in _list(head["headings"])),
        format=_str(head["format"]),
        language=_str(head["language"]),
    )
    return Parsed(task, document, digest, status, _str(head["loader"]))


def _heading(value: JSON, text: str) -> Heading:
    start, level, words = _list(value)
    return Heading(_offset(start, text), _int(level), _str(words))


def _offset(value: JSON, text: str) -> int:
    number = _int(value)
    if not 0 <= number <= len(text):
        raise Nonsense(f"offset {number}")
    return number


def _stat(status: FileStat | None) -> JSON:
    return [status.size, status.mtime_ns, status.ctime_ns, status.inode] if status else None


def _read_stat(value: JSON) -> FileStat | None:
    return None if value is None else FileStat(*(_int(number) for number in _list(value)))


def _str(value: JSON) -> str:
    if not isinstance(value, str):
        raise Nonsense("a string was wanted")
    return value


def _int(value: JSON) -> int:
    if not isinstance(value, int):
        raise Nonsense("a whole number was wanted")
    return value


def _list(value: JSON) -> list[JSON]:
    if not isinstance(value, list):
        raise Nonsense("a list was wanted")
    return value


def _mapping(value: JSON) -> Mapping[str, JSON]:
    if not isinstance(value, dict):
        raise Nonsense("an object was wanted")
    return value

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

from ragkit.errors import LoadError, LoadLimitExceeded, UnsupportedFormat
from ragkit.load.file_io import FileChanged, FileStat
from ragkit.load.parsing import ParsedFile, ParseFailure, ParseLimits, ParseTask
from ragkit.load.router import LoaderRoute, options_to_json, route_from_json
from ragkit.records import JSON, Document, Heading

FRAME_HEADER = struct.Struct("!IQ")
MAX_JSON_BYTES = 256 * 1024 * 1024

ERROR_TYPES: Mapping[str, type[LoadError]] = {
    kind.__name__: kind for kind in (LoadError, UnsupportedFormat, LoadLimitExceeded, FileChanged)
}


class InvalidFrame(Exception):
    """A frame that is not of the agreed shape."""


def encode_frame(head: Mapping[str, JSON], text: str = "") -> bytes:
    """A frame as bytes."""
    packed = json.dumps(head, default=_to_json).encode("ascii")
    body = text.encode("utf-8", "replace")
    return FRAME_HEADER.pack(len(packed), len(body)) + packed + body


def _to_json(value: object) -> JSON:
    """A read-only mapping as JSON has it. Raises TypeError for what JSON does not have."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is no JSON value")


def decode_json(packed: bytes) -> Mapping[str, JSON]:
    """The JSON of a frame. Raises InvalidFrame."""
    try:
        head = json.loads(packed)
    except (ValueError, RecursionError) as error:
        raise InvalidFrame("no JSON") from error
    return _require_mapping(head)


# From the parent


def encode_setup(limits: ParseLimits, routes: tuple[LoaderRoute, ...], parent: int) -> bytes:
    """The first frame: how to parse, for whom."""
    numbers: list[JSON] = [limits.timeout_s, limits.max_memory_mb, limits.max_text_mb, limits.max_file_mb]
    listed: list[JSON] = [[route.name, options_to_json(route.options), list(route.suffixes)] for route in routes]
    return encode_frame({"limits": numbers, "routes": listed, "parent": parent})


def decode_setup(head: Mapping[str, JSON]) -> tuple[ParseLimits, tuple[LoaderRoute, ...], int]:
    """What `hello` said."""
    seconds, memory, text, file = cast("list[float]", head["limits"])
    listed = cast("list[tuple[str, dict[str, JSON], list[str]]]", head["routes"])
    return (
        ParseLimits(seconds, int(memory), text, file),
        tuple(route_from_json(*each) for each in listed),
        _require_int(head["parent"]),
    )


def encode_task(task: ParseTask) -> bytes:
    """A file to parse; its path travels as bytes, so that every name survives."""
    path = os.fsencode(os.path.abspath(task.path)).decode("latin-1")  # noqa: PTH100 - `resolve` would follow links
    return encode_frame({"path": path, "source": task.source, "stat": _encode_stat(task.stat)})


def decode_task(head: Mapping[str, JSON]) -> tuple[bytes, str, FileStat | None]:
    """Path, source and state of a file to parse."""
    return _require_str(head["path"]).encode("latin-1"), _require_str(head["source"]), _decode_stat(head["stat"])


# From the child


def encode_result(outcome: ParsedFile | ParseFailure, *, last: bool) -> bytes:
    """What became of a file; `last` says that this process takes no more."""
    head: dict[str, JSON] = {"hash": outcome.content_hash, "stat": _encode_stat(outcome.stat), "last": last}
    if isinstance(outcome, ParseFailure):
        error = outcome.error
        kind = type(error).__name__ if type(error).__name__ in ERROR_TYPES else "LoadError"
        return encode_frame({**head, "error": [kind, error.reason, error.hint]})
    document = outcome.document
    headings: list[JSON] = [[heading.start, heading.level, heading.text] for heading in document.headings]
    return encode_frame(
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


def decode_result(head: Mapping[str, JSON], body: bytes, task: ParseTask) -> tuple[ParsedFile | ParseFailure, bool]:
    """What became of `task`, and whether the process has ended itself. Raises InvalidFrame."""
    try:
        return _build_result(head, body.decode("utf-8"), task), head["last"] is True
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidFrame(str(error)) from error


def _build_result(head: Mapping[str, JSON], text: str, task: ParseTask) -> ParsedFile | ParseFailure:
    digest, status = _require_str(head["hash"]), _decode_stat(head["stat"])
    if "error" in head:
        kind, reason, hint = (_require_str(part) for part in _require_list(head["error"]))
        return ParseFailure(task, ERROR_TYPES[kind](task.source, reason, hint), digest, status)
    if status is None:
        raise InvalidFrame("no state")
    document = Document(
        text=text,
        metadata=_require_mapping(head["metadata"]),
        source=task.source,
        title=_require_str(head["title"]),
        page_starts=tuple(_decode_offset(start, text) for start in _require_list(head["pages"])),
        headings=tuple(_decode_heading(each, text) for each in _require_list(head["headings"])),
        format=_require_str(head["format"]),
        language=_require_str(head["language"]),
    )
    return ParsedFile(task, document, digest, status, _require_str(head["loader"]))


def _decode_heading(value: JSON, text: str) -> Heading:
    start, level, words = _require_list(value)
    return Heading(_decode_offset(start, text), _require_int(level), _require_str(words))


def _decode_offset(value: JSON, text: str) -> int:
    number = _require_int(value)
    if not 0 <= number <= len(text):
        raise InvalidFrame(f"offset {number}")
    return number


def _encode_stat(status: FileStat | None) -> JSON:
    return [status.size, status.mtime_ns, status.ctime_ns, status.inode] if status else None


def _decode_stat(value: JSON) -> FileStat | None:
    return None if value is None else FileStat(*(_require_int(number) for number in _require_list(value)))


def _require_str(value: JSON) -> str:
    if not isinstance(value, str):
        raise InvalidFrame("a string was wanted")
    return value


def _require_int(value: JSON) -> int:
    if not isinstance(value, int):
        raise InvalidFrame("a whole number was wanted")
    return value


def _require_list(value: JSON) -> list[JSON]:
    if not isinstance(value, list):
        raise InvalidFrame("a list was wanted")
    return value


def _require_mapping(value: JSON) -> Mapping[str, JSON]:
    if not isinstance(value, dict):
        raise InvalidFrame("an object was wanted")
    return value

"""Messages between the parent and its parser processes.

A parser process has read untrusted files: its results are JSON and every value is validated. Requests of the parent
are trusted and pickled. A result frame is two lengths (4 bytes for the JSON, 8 for the text), the JSON in ASCII, and
the text in UTF-8.
"""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO, TypeVar, get_args

from ragkit.errors import LoadError, LoadLimitExceeded, UnsupportedFormat
from ragkit.load.files.file_io import FileChanged, FileStat
from ragkit.load.process.parsing import MemoryLimitExceeded, ParsedFile, ParseFailure, ParseTask
from ragkit.records import JSON, Document, Heading, Place, PlaceUnit

T = TypeVar("T")

FRAME_HEADER = struct.Struct("!IQ")
MAX_JSON_BYTES = 256 * 1024 * 1024

ERROR_TYPES: Mapping[str, type[LoadError]] = {
    kind.__name__: kind for kind in (LoadError, UnsupportedFormat, LoadLimitExceeded, MemoryLimitExceeded, FileChanged)
}


WORKING: Mapping[str, JSON] = {"working": True}
"""The head of a frame that is no result: the process goes on with another page of a scan."""


class InvalidFrame(Exception):
    """A frame that violates the protocol."""


# Parent to child


def encode_request(request: object) -> bytes:
    """A request as bytes."""
    return pickle.dumps(request)


def read_request(stream: BinaryIO) -> Any:
    """The next request, or None when the parent has closed the pipe."""
    try:
        return pickle.load(stream)  # noqa: S301 - written by the parent process
    except EOFError:
        return None


# Child to parent


def encode_frame(head: Mapping[str, JSON], text: str = "") -> bytes:
    """A frame as bytes."""
    header = json.dumps(head, default=_to_json).encode("ascii")
    body = text.encode("utf-8", "replace")
    return FRAME_HEADER.pack(len(header), len(body)) + header + body


def _to_json(value: object) -> JSON:
    """A read-only mapping as a dict. Raises TypeError for any other type."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON type")


def decode_json(header: bytes) -> Mapping[str, JSON]:
    """The JSON object of a frame. Raises InvalidFrame."""
    try:
        head = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise InvalidFrame("invalid JSON") from error
    return _require(head, dict)


def encode_result(outcome: ParsedFile | ParseFailure, *, last: bool) -> bytes:
    """The result of a task; `last` means that the process exits after it."""
    head: dict[str, JSON] = {"hash": outcome.content_hash, "stat": _encode_stat(outcome.stat), "last": last}
    if isinstance(outcome, ParseFailure):
        error = outcome.error
        kind = type(error).__name__ if type(error).__name__ in ERROR_TYPES else "LoadError"
        return encode_frame({**head, "error": [kind, error.reason, error.hint]})
    documents = list(iter_parts(outcome.document))
    head |= {"loader": outcome.loader, "documents": [_encode_document(document) for document in documents]}
    return encode_frame(head, "".join(document.text for document in documents))


def iter_parts(document: Document) -> Iterator[Document]:
    """A document, and all documents inside it."""
    yield document
    for part in document.parts:
        yield from iter_parts(part)


def _encode_document(document: Document) -> dict[str, JSON]:
    """A document without its parts and its text."""
    return {
        "length": len(document.text),
        "source": document.source,
        "title": document.title,
        "pages": list(document.page_starts),
        "headings": [heading.to_row() for heading in document.headings],
        "places": [place.to_row() for place in document.places],
        "metadata": document.metadata,
        "format": document.format,
        "language": document.language,
    }


def decode_result(head: Mapping[str, JSON], body: bytes, task: ParseTask) -> tuple[ParsedFile | ParseFailure, bool]:
    """The result of `task`, and whether the process exits after it. Raises InvalidFrame."""
    try:
        return _build_result(head, body.decode("utf-8"), task), head["last"] is True
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidFrame(str(error)) from error


def _build_result(head: Mapping[str, JSON], text: str, task: ParseTask) -> ParsedFile | ParseFailure:
    digest, file_stat = _require(head["hash"], str), _decode_stat(head["stat"])
    if "error" in head:
        kind, reason, hint = (_require(field, str) for field in _require(head["error"], list))
        return ParseFailure(task, ERROR_TYPES[kind](task.source, reason, hint), digest, file_stat)
    if file_stat is None:
        raise InvalidFrame("`stat` is missing")
    documents: list[Document] = []
    position = 0
    for item in _require(head["documents"], list):
        fields = _require(item, dict)
        end = position + _require(fields["length"], int)
        documents.append(_decode_document(fields, text[position:end]))
        position = end
    if not documents or position != len(text):
        raise InvalidFrame("the lengths of the documents are wrong")
    # parts of parts are parts of the file: their sources tell where they are
    document = replace(documents[0], source=task.source, id="", parts=tuple(documents[1:]))
    return ParsedFile(task, document, digest, file_stat, _require(head["loader"], str))


def _decode_document(head: Mapping[str, JSON], text: str) -> Document:
    if len(text) != head["length"]:
        raise InvalidFrame("the text is too short")
    return Document(
        text=text,
        metadata=_require(head["metadata"], dict),
        source=_require(head["source"], str),
        title=_require(head["title"], str),
        page_starts=tuple(_decode_offset(start, text) for start in _require(head["pages"], list)),
        headings=tuple(_decode_heading(heading, text) for heading in _require(head["headings"], list)),
        format=_require(head["format"], str),
        language=_require(head["language"], str),
        places=tuple(_decode_place(place, text) for place in _require(head["places"], list)),
    )


def _decode_heading(value: JSON, text: str) -> Heading:
    start, level, title, *end = _require(value, list)
    ends = _decode_offset(end[0], text) if end else None
    return Heading(_decode_offset(start, text), _require(level, int), _require(title, str), ends)


def _decode_place(value: JSON, text: str) -> Place:
    start, unit, number, last, section, columns = _require(value, list)
    if unit not in get_args(PlaceUnit):
        raise InvalidFrame(f"unit must be one of {', '.join(get_args(PlaceUnit))} (got {unit!r:.40})")
    numbers = _require(number, int), _require(last, int)
    return Place(_decode_offset(start, text), unit, *numbers, _require(section, str), _require(columns, str))


def _decode_offset(value: JSON, text: str) -> int:
    offset = _require(value, int)
    if not 0 <= offset <= len(text):
        raise InvalidFrame(f"offset must be between 0 and {len(text)} (got {offset})")
    return offset


def _encode_stat(file_stat: FileStat | None) -> JSON:
    return [file_stat.size, file_stat.mtime_ns, file_stat.ctime_ns, file_stat.inode] if file_stat else None


def _decode_stat(value: JSON) -> FileStat | None:
    return None if value is None else FileStat(*(_require(number, int) for number in _require(value, list)))


def _require(value: JSON, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise InvalidFrame(f"expected {kind.__name__}, got {type(value).__name__}")
    return value

"""What the loaders share beside text: metadata, line starts, white space."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ragkit.load.file_types import file_name, file_suffix
from ragkit.records import JSON, Metadata

_LINE_END = re.compile(r"\r\n?|\n")
_WHITESPACE = re.compile(r"\s+")


def build_metadata(kind: str, source: str, extra: Mapping[str, JSON] | None = None) -> Metadata:
    """What the content and the name say of a document, never the file system's times.

    Empty values of `extra` are left out; `format`, `name` and `suffix` are always ours.
    """
    known: dict[str, JSON] = {key: value for key, value in (extra or {}).items() if value not in ("", None, [], ())}
    known["format"] = kind
    if source:
        known["name"] = file_name(source).encode("utf-8", "replace").decode()
        known["suffix"] = file_suffix(source).encode("utf-8", "replace").decode()
    return known


def line_starts(text: str) -> list[int]:
    """The offset of each line's first character; lines end with LF, CR LF or CR."""
    return [0, *(found.end() for found in _LINE_END.finditer(text))]


def collapse_whitespace(text: str) -> str:
    """`text` with every run of white space as one space, none at its ends."""
    return _WHITESPACE.sub(" ", text).strip()

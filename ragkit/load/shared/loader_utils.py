"""Helpers of the loaders: documents, metadata, line starts, white space."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time

from ragkit.load.file_types import file_name, file_suffix
from ragkit.load.shared.access_field import FIELD
from ragkit.load.shared.layout_blocks import TextLayout
from ragkit.records import JSON, Document, Metadata

_LINE_END = re.compile(r"\r\n?|\n")


def build_document(
    kind: str, source: str, content: TextLayout | str, extra: Mapping[str, JSON], title: str = ""
) -> Document:
    """A document with the metadata of `build_metadata`; a text alone has no headings, and its own lines as places."""
    layout = TextLayout(content) if isinstance(content, str) else content
    metadata = build_metadata(kind, source, extra)
    return Document(layout.text, metadata, source, title, headings=layout.headings, format=kind, places=layout.places)


def build_metadata(kind: str, source: str, extra: Mapping[str, JSON] | None = None) -> Metadata:
    """The metadata of a document: format, file name, suffix and the values of `extra` that are not empty.

    An empty `access` is kept, since it allows nobody.
    Contains no file times, because equal bytes give equal Documents.
    """
    known: dict[str, JSON] = {
        key: value for key, value in (extra or {}).items() if value not in ("", None, [], ()) or key == FIELD
    }
    known["format"] = kind
    if source:
        known["name"] = encodable(file_name(source))
        known["suffix"] = encodable(file_suffix(source))
    return known


def encodable(name: str) -> str:
    """A file name with lone surrogates (undecodable bytes) replaced by `?`."""
    return name.encode("utf-8", "replace").decode()


def line_starts(text: str) -> list[int]:
    """The offset of each line's first character; lines end with LF, CR LF or CR."""
    return [0, *(found.end() for found in _LINE_END.finditer(text))]


def collapse_whitespace(text: str) -> str:
    """`text` with each run of white space replaced by one space, and trimmed."""
    return " ".join(text.split())


class ValueLimitExceeded(ValueError):
    """A value holds more values than allowed, or is nested too deeply. `hint`: what to do."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


def to_json(value: object, budget: list[int], depth: int, max_depth: int) -> JSON:
    """The value of a YAML or TOML file as JSON, times in ISO 8601.

    Args:
        value: what the parser returned.
        budget: the number of values that are left, which stops alias bombs; counted down.
        depth: of `value`, from 0.
        max_depth: the limit of `depth`.

    Raises:
        ValueLimitExceeded: beyond one of the limits.
    """
    budget[0] -= 1
    if budget[0] < 0:
        raise ValueLimitExceeded("contains too many values", "raise max_values")
    if depth > max_depth:
        raise ValueLimitExceeded(f"nested deeper than {max_depth} levels", "exclude it")
    if isinstance(value, Mapping):
        return {str(key): to_json(item, budget, depth + 1, max_depth) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return [to_json(item, budget, depth + 1, max_depth) for item in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and value - value == 0:  # infinity and NaN are not JSON
        return float(value)
    return str(value)

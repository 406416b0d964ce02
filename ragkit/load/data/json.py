"""JSON and JSON Lines: one line of text per value, with its path; one block per record.

`{"a": {"b": [1, 2]}, "c": "x"}` becomes `a.b: 1, 2` and `c: x`. Numbers are kept as written.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ragkit.errors import LoadLimitExceeded
from ragkit.load.options import LOADER_VERSIONS, JsonOptions, RecordOptions
from ragkit.load.shared.access_field import is_access_field
from ragkit.load.shared.encoding import decode_bytes, replace_invalid_chars
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.load.shared.table_records import Record, build_record_documents, list_text, typed_value
from ragkit.records import JSON, Document, Place

MAX_INLINE_LIST_CHARS = 400
"""Longer lists of scalars are written with one line per item."""

JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | bool | None"
"""A parsed value; numbers are strings, as written."""


class JsonLoader:
    """Keeps a file that is not valid JSON (comments, truncated) as plain text."""

    version = LOADER_VERSIONS["json"]

    def __init__(self, options: JsonOptions | None = None) -> None:
        self.options = options or JsonOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The values in `data`. Raises LoadLimitExceeded for too deep nesting or too many values."""
        text = decode_bytes(data).text
        if not text.strip():
            return build_document("json", source, "", {})
        try:
            value = _parse_json(text, source)
        except ValueError as error:
            if self.options.records is not None:  # JSON Lines
                return _build_records("json", text, self.options, source)
            note = f"not valid JSON: {error}"
            records, invalid = _parse_records(text, self.options, source)
            if invalid:
                records = _parse_values(text.strip(), self.options, source)
            if len(records) > 1:  # JSON Lines, or values over several lines
                return build_document("json", source, "\n\n".join(records), {"records": len(records)})
            return build_document("json", source, text, {"note": note[:200]})
        if self.options.records is not None:
            items = value if isinstance(value, list) else [value]
            objects = (
                Record(_flatten(item, self.options), Place(0, "record", number))
                for number, item in enumerate(items, start=1)
                if isinstance(item, dict)
            )
            is_lone = not isinstance(value, list)
            return build_record_documents("json", source, objects, self.options.records, is_lone=is_lone)
        return build_document("json", source, _JsonTextWriter(self.options, source).to_text(value), {})


class JsonlLoader:
    """Keeps a line that is not valid JSON as plain text, and counts it."""

    version = LOADER_VERSIONS["jsonl"]

    def __init__(self, options: JsonOptions | None = None) -> None:
        self.options = options or JsonOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The records in `data`. Raises LoadLimitExceeded for too deep nesting or too many values."""
        if self.options.records is not None:
            return _build_records("jsonl", decode_bytes(data).text, self.options, source)
        records, invalid = _parse_records(decode_bytes(data).text, self.options, source)
        extra: dict[str, JSON] = {"records": len(records), "invalid_lines": invalid or None}
        return build_document("jsonl", source, "\n\n".join(records), extra)


def _build_records(kind: str, text: str, options: JsonOptions, source: str) -> Document:
    """The objects of JSON Lines as documents; other lines are left out."""
    records: list[Record] = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            value = _parse_json(line, source) if line.strip() else None
        except ValueError:
            continue
        if isinstance(value, dict):
            records.append(Record(_flatten(value, options), Place(0, "line", number)))
    return build_record_documents(kind, source, records, options.records or RecordOptions())


def _flatten(value: dict[str, JsonValue], options: JsonOptions) -> dict[str, JSON]:
    """The fields of an object, `a.b` for those of an object inside it; lists of scalars are kept, others are a text."""
    fields = {name: _access_value(item) for name, item in value.items() if is_access_field(name)}
    pending = [(name, item) for name, item in reversed(value.items()) if name not in fields]
    while pending and len(fields) < options.max_values:
        name, item = pending.pop()
        if isinstance(item, dict):
            pending += [(f"{name}.{key}", inner) for key, inner in reversed(item.items())]
        elif isinstance(item, list):
            if all(isinstance(inner, str | bool) for inner in item):
                fields[name] = [_typed(inner) for inner in item]
            else:
                fields[name] = replace_invalid_chars(list_text(item))
        elif item is not None:
            fields[name] = _typed(item)
    return fields


def _access_value(value: JsonValue) -> JSON:
    """A text or a list of texts; None for none; [None] for what `access` cannot be."""
    if isinstance(value, list) and all(isinstance(item, str) and not isinstance(item, _Number) for item in value):
        return [replace_invalid_chars(str(item)) for item in value]
    is_text = isinstance(value, str) and not isinstance(value, _Number)
    return replace_invalid_chars(str(value)) if is_text else None if value is None else [None]


def _typed(value: JsonValue) -> JSON:
    """A scalar of `_parse_json`, where a number is a `_Number`."""
    if isinstance(value, _Number):
        return typed_value(str(value))
    return replace_invalid_chars(value) if isinstance(value, str) else bool(value)


class _Number(str):
    """A number as written."""

    __slots__ = ()


def _parse_json(text: str, source: str) -> JsonValue:
    """The value of a JSON text. Raises ValueError for invalid JSON, LoadLimitExceeded for too deep nesting."""
    try:
        value: JsonValue = _DECODER.decode(text)
    except RecursionError as error:
        raise LoadLimitExceeded(source, "nested too deeply", "exclude it") from error
    return value


def _parse_values(text: str, options: JsonOptions, source: str) -> list[str]:
    """The blocks of JSON values that follow each other; [] unless the text holds nothing else."""
    writer = _JsonTextWriter(options, source)
    records: list[str] = []
    position = 0
    while position < len(text):
        try:
            value, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            return []
        records.append(writer.to_text(value))
        while text[position : position + 1].isspace():
            position += 1
    return records


def _to_object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """An object; of a name that is given twice the last value, but for `access`, which is then not understood."""
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        value |= {name: False for name in value if counts[name] > 1 and is_access_field(name)}
    return value


def _parse_records(text: str, options: JsonOptions, source: str) -> tuple[list[str], int]:
    """The blocks of JSON Lines, and the number of invalid lines."""
    writer = _JsonTextWriter(options, source)
    records: list[str] = []
    invalid = 0
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            records.append(writer.to_text(_parse_json(line, source)))
        except ValueError:
            invalid += 1
            records.append(line.strip())
    return [record for record in records if record], invalid


_DECODER = json.JSONDecoder(
    parse_int=_Number, parse_float=_Number, parse_constant=_Number, object_pairs_hook=_to_object
)


@dataclass
class _JsonTextWriter:
    """Writes values as lines, within the limits."""

    options: JsonOptions
    source: str
    value_count: int = 0

    def to_text(self, value: JsonValue) -> str:
        """A value as lines; objects in a list are separated by empty lines."""
        return "\n".join(self._lines("", value, 0)).strip("\n")

    def _lines(self, path: str, value: JsonValue, depth: int) -> Iterator[str]:
        if depth > self.options.max_depth:
            reason = f"nested deeper than {self.options.max_depth} levels"
            raise LoadLimitExceeded(self.source, reason, "raise max_depth")
        if isinstance(value, dict):
            for key, item in value.items():
                name = collapse_whitespace(replace_invalid_chars(key))
                yield from self._lines(f"{path}.{name}" if path else name, item, depth + 1)
        elif isinstance(value, list):
            yield from self._list_lines(path, value, depth)
        else:
            self._count_values(1)
            yield _format_line(path, _format_scalar(value))

    def _list_lines(self, path: str, items: list[JsonValue], depth: int) -> Iterator[str]:
        scalars = [_format_scalar(item) for item in items[:MAX_INLINE_LIST_CHARS] if not isinstance(item, dict | list)]
        if (
            len(scalars) == len(items)
            and sum(map(len, scalars)) <= MAX_INLINE_LIST_CHARS
            and not any("\n" in scalar for scalar in scalars)
        ):
            self._count_values(len(scalars))
            if scalars:
                yield _format_line(path, ", ".join(scalars))
            return
        for position, item in enumerate(items):
            if isinstance(item, dict):
                yield ""
            # top-level records have no index: it would be repeated in each line
            yield from self._lines(f"{path}[{position}]" if path or not isinstance(item, dict) else "", item, depth + 1)

    def _count_values(self, values: int) -> None:
        self.value_count += values
        if self.value_count > self.options.max_values:
            reason = f"contains more than {self.options.max_values} values"
            raise LoadLimitExceeded(self.source, reason, "raise max_values")


def _format_line(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text


def _format_scalar(value: JsonValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return replace_invalid_chars(value).strip() if isinstance(value, str) else ""

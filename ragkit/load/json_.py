"""JSON and JSON Lines: one line of text for each value, with the way to it; one block for each record.

`{"a": {"b": [1, 2]}, "c": "x"}` reads as `a.b: 1, 2` and `c: x`. Numbers stay as they are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ragkit.errors import LoadLimitExceeded
from ragkit.load.encoding import decode_bytes, replace_invalid_chars
from ragkit.load.loader_utils import build_metadata, collapse_whitespace
from ragkit.load.options import LOADER_VERSIONS, JsonlOptions, JsonOptions
from ragkit.records import JSON, Document

MAX_INLINE_LIST_CHARS = 400
"""Characters up to which a list of plain values stands on one line."""

JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | bool | None"
"""What the reader below gives: numbers are strings, as they are written."""


class JsonLoader:
    """A file that is not valid JSON (a settings file with comments, a download cut short) is kept as it stands."""

    version = LOADER_VERSIONS["json"]

    def __init__(self, options: JsonOptions | None = None) -> None:
        self.options = options or JsonOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The values in `data`. Raises LoadLimitExceeded for JSON that is nested too deep or holds too much."""
        text = decode_bytes(data).text
        if not text.strip():
            return _build_document("", "json", source, {})
        try:
            value = _parse_json(text, source)
        except ValueError as error:
            note = f"not valid JSON: {error}"
            records, bad = _parse_records(text, self.options, source)
            if not bad and len(records) > 1:  # several values in a row, as JSON Lines has them
                return _build_document("\n\n".join(records), "json", source, {"records": len(records)})
            return _build_document(text, "json", source, {"note": note[:200]})
        return _build_document(_JsonTextWriter(self.options, source).to_text(value), "json", source, {})


class JsonlLoader:
    """A line that is not valid JSON is kept as it stands, and counted."""

    version = LOADER_VERSIONS["jsonl"]

    def __init__(self, options: JsonlOptions | None = None) -> None:
        self.options = options or JsonlOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The records in `data`. Raises LoadLimitExceeded for one that is nested too deep, or for too much in all."""
        records, bad = _parse_records(decode_bytes(data).text, self.options, source)
        extra: dict[str, JSON] = {"records": len(records), "invalid_lines": bad or None}
        return _build_document("\n\n".join(records), "jsonl", source, extra)


def _build_document(text: str, kind: str, source: str, extra: dict[str, JSON]) -> Document:
    return Document(text=text, metadata=build_metadata(kind, source, extra), source=source, format=kind)


def _parse_json(text: str, source: str) -> JsonValue:
    """The value of a JSON text. Raises ValueError for broken JSON, LoadLimitExceeded for nesting beyond any use."""
    try:
        value: JsonValue = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except RecursionError as error:
        raise LoadLimitExceeded(source, "nested too deep", "no program wrote this for readers: leave it out") from error
    return value


def _parse_records(text: str, options: JsonOptions, source: str) -> tuple[list[str], int]:
    """The blocks of JSON Lines, and how many lines are broken."""
    writer = _JsonTextWriter(options, source)
    records: list[str] = []
    bad = 0
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            records.append(writer.to_text(_parse_json(line, source)))
        except ValueError:
            bad += 1
            records.append(line.strip())
    return [record for record in records if record], bad


@dataclass
class _JsonTextWriter:
    """Writes values as lines, while the limits last."""

    options: JsonOptions
    source: str
    value_count: int = 0

    def to_text(self, value: JsonValue) -> str:
        """A value as lines; the objects of a list are set apart by empty lines."""
        return "\n".join(self._lines("", value, 0)).strip("\n")

    def _lines(self, path: str, value: JsonValue, depth: int) -> Iterator[str]:
        if depth > self.options.max_depth:
            raise LoadLimitExceeded(self.source, f"nested deeper than {self.options.max_depth}", "raise max_depth")
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
        plain = [_format_scalar(item) for item in items[:MAX_INLINE_LIST_CHARS] if not isinstance(item, dict | list)]
        if (
            len(plain) == len(items)
            and sum(map(len, plain)) <= MAX_INLINE_LIST_CHARS
            and not any("\n" in each for each in plain)
        ):
            self._count_values(len(plain))
            if plain:
                yield _format_line(path, ", ".join(plain))
            return
        for place, item in enumerate(items):
            if isinstance(item, dict):
                yield ""
            # records of the whole file need no number: it would only push their words apart
            yield from self._lines(f"{path}[{place}]" if path or not isinstance(item, dict) else "", item, depth + 1)

    def _count_values(self, values: int) -> None:
        self.value_count += values
        if self.value_count > self.options.max_values:
            raise LoadLimitExceeded(
                self.source, f"holds more than {self.options.max_values} values", "raise max_values"
            )


def _format_line(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text


def _format_scalar(value: JsonValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return replace_invalid_chars(value).strip() if isinstance(value, str) else ""

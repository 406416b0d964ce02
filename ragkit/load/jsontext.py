"""JSON and JSON Lines: one line of text for each value, with the way to it; one block for each record.

`{"a": {"b": [1, 2]}, "c": "x"}` reads as `a.b: 1, 2` and `c: x`. Numbers stay as they are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ragkit.errors import LoadLimit
from ragkit.load.encoding import clean, decode
from ragkit.load.meta import metadata, one_line
from ragkit.load.options import VERSIONS, JsonlOptions, JsonOptions
from ragkit.records import JSON, Document

SHORT_LIST = 400
"""Characters up to which a list of plain values stands on one line."""

Value: TypeAlias = "dict[str, Value] | list[Value] | str | bool | None"
"""What the reader below gives: numbers are strings, as they are written."""


class JsonLoader:
    """A file that is not valid JSON (a settings file with comments, a download cut short) is kept as it stands."""

    version = VERSIONS["json"]

    def __init__(self, options: JsonOptions | None = None) -> None:
        self.options = options or JsonOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The values in `data`. Raises LoadLimit for JSON that is nested too deep or holds too much."""
        text = decode(data).text
        if not text.strip():
            return _document("", "json", source, {})
        try:
            value = _parsed(text, source)
        except ValueError as error:
            note = f"not valid JSON: {error}"
            records, bad = _records(text, self.options, source)
            if not bad and len(records) > 1:  # several values in a row, as JSON Lines has them
                return _document("\n\n".join(records), "json", source, {"records": len(records)})
            return _document(text, "json", source, {"note": note[:200]})
        return _document(_Writer(self.options, source).text(value), "json", source, {})


class JsonlLoader:
    """A line that is not valid JSON is kept as it stands, and counted."""

    version = VERSIONS["jsonl"]

    def __init__(self, options: JsonlOptions | None = None) -> None:
        self.options = options or JsonlOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The records in `data`. Raises LoadLimit for one that is nested too deep, or for too much in all."""
        records, bad = _records(decode(data).text, self.options, source)
        extra: dict[str, JSON] = {"records": len(records), "invalid_lines": bad or None}
        return _document("\n\n".join(records), "jsonl", source, extra)


def _document(text: str, kind: str, source: str, extra: dict[str, JSON]) -> Document:
    return Document(text=text, metadata=metadata(kind, source, extra), source=source, format=kind)


def _parsed(text: str, source: str) -> Value:
    """The value of a JSON text. Raises ValueError for broken JSON, LoadLimit for nesting beyond any use."""
    try:
        value: Value = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except RecursionError as error:
        raise LoadLimit(source, "nested too deep", "no program wrote this for readers: leave it out") from error
    return value


def _records(text: str, options: JsonOptions, source: str) -> tuple[list[str], int]:
    """The blocks of JSON Lines, and how many lines are broken."""
    writer = _Writer(options, source)
    records: list[str] = []
    bad = 0
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            records.append(writer.text(_parsed(line, source)))
        except ValueError:
            bad += 1
            records.append(line.strip())
    return [record for record in records if record], bad


@dataclass
class _Writer:
    """Writes values as lines, while the limits last."""

    options: JsonOptions
    source: str
    written: int = 0

    def text(self, value: Value) -> str:
        """A value as lines; the objects of a list are set apart by empty lines."""
        return "\n".join(self._lines("", value, 0)).strip("\n")

    def _lines(self, path: str, value: Value, depth: int) -> Iterator[str]:
        if depth > self.options.max_depth:
            raise LoadLimit(self.source, f"nested deeper than {self.options.max_depth}", "raise max_depth")
        if isinstance(value, dict):
            for key, item in value.items():
                name = one_line(clean(key))
                yield from self._lines(f"{path}.{name}" if path else name, item, depth + 1)
        elif isinstance(value, list):
            yield from self._list(path, value, depth)
        else:
            self._count(1)
            yield _line(path, _plain(value))

    def _list(self, path: str, items: list[Value], depth: int) -> Iterator[str]:
        plain = [_plain(item) for item in items[:SHORT_LIST] if not isinstance(item, dict | list)]
        if len(plain) == len(items) and sum(map(len, plain)) <= SHORT_LIST and not any("\n" in each for each in plain):
            self._count(len(plain))
            if plain:
                yield _line(path, ", ".join(plain))
            return
        for place, item in enumerate(items):
            if isinstance(item, dict):
                yield ""
            # records of the whole file need no number: it would only push their words apart
            yield from self._lines(f"{path}[{place}]" if path or not isinstance(item, dict) else "", item, depth + 1)

    def _count(self, values: int) -> None:
        self.written += values
        if self.written > self.options.max_values:
            raise LoadLimit(self.source, f"holds more than {self.options.max_values} values", "raise max_values")


def _line(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text


def _plain(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return clean(value).strip() if isinstance(value, str) else ""

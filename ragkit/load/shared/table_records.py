"""Rows of tables as documents of their own, with their fields as typed metadata. Independent of file formats."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.options import RecordOptions, RowOptions
from ragkit.load.shared.access_field import EVERYONE, FIELD, PROBLEM, access_metadata, is_access_field
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.shared.loader_utils import build_document, build_metadata, collapse_whitespace
from ragkit.places import format_places
from ragkit.records import JSON, Document, Metadata, Place

MAX_VALUE_CHARS = 1_000
"""A longer value is text, and no metadata."""
MAX_CHARS = 256 * 2**20
"""Characters of all rows of a file."""
MAX_LIST_DEPTH = 20
"""What is nested deeper in the lists of a record is left out."""

_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,17})")
_FLOAT = re.compile(r"-?(?:0|[1-9]\d{0,17})\.\d{1,17}(?:[eE][-+]?\d{1,3})?|-?\d{1,17}[eE][-+]?\d{1,3}")
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Record:
    """A row of a table, or an object of a list."""

    fields: Mapping[str, JSON]
    place: Place


def build_rows_document(kind: str, source: str, rows: Iterable[Record], options: RowOptions) -> Document:
    """The rows of a database as lines, `name: value; name: value`, below the names of their tables; or as records.

    Raises LoadLimitExceeded above `max_rows` and `MAX_CHARS`: a compressed or computed table can be far larger than its
    file.
    """
    records: list[Record] = []
    chars = 0
    for record in rows:
        chars += sum(len(value) for value in record.fields.values() if isinstance(value, str))
        if len(records) == options.max_rows:
            raise LoadLimitExceeded(source, f"has more than {options.max_rows} rows", "raise max_rows")
        if chars > MAX_CHARS:
            raise LoadLimitExceeded(source, f"holds more than {MAX_CHARS // 2**20} MB of text", "split the file")
        records.append(record)
    if options.records is not None:
        return build_record_documents(kind, source, records, options.records)
    return build_document(kind, source, join_blocks(_row_blocks(records)), {"rows": len(records)})


def _row_blocks(records: Sequence[Record]) -> Iterator[LayoutBlock]:
    table = ""
    for record in records:
        if record.place.section != table:
            table = record.place.section
            yield LayoutBlock("h", collapse_whitespace(table), 1, place=record.place)
        cells = (f"{name}: {collapse_whitespace(str(value))}" for name, value in record.fields.items())
        yield LayoutBlock("row", "; ".join(cells), place=record.place)


def typed_value(text: str) -> JSON:
    """A number or boolean that is written as one, else the text: `7`, `1.5`, `true`, but `007` and `1,5` are texts."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):  # JSON has no infinite numbers
        return float(text)
    return _BOOLEANS.get(text.lower(), text)


def table_record(header: Sequence[str], cells: Sequence[str], place: Place) -> Record:
    """The record of a row; cells without a column name, and empty ones, have no field, but for `access`."""
    fields: dict[str, JSON] = {}
    for name, cell in zip_longest(header, cells[: len(header)], fillvalue=""):
        if is_access_field(name):
            fields[name] = cell
        elif cell:
            fields[name] = typed_value(cell)
    return Record(fields, place)


def build_record_documents(
    kind: str, source: str, records: Iterable[Record], options: RecordOptions, *, is_lone: bool = False
) -> Document:
    """A document without text whose parts are the records, in order; one record if `is_lone`: others of its kind are in
    other files.

    Raises:
        LoadError: no record has a field that the options name; a lone one: none of these fields.
    """
    base = build_metadata(kind, source)
    names: dict[str, None] = {}
    parts: list[Document] = []
    for number, record in enumerate(records, start=1):
        names.update(dict.fromkeys(record.fields))
        text = _record_text(record, options.text)
        if not text:
            continue
        names_kept = [
            name for name in options.metadata or record.fields if not is_access_field(name) and name != PROBLEM
        ]
        values = {name: record.fields[name] for name in names_kept if _is_metadata(record.fields.get(name))}
        values |= _record_access(record, options)
        shows_title = options.title and not is_access_field(options.title)
        title = collapse_whitespace(str(record.fields.get(options.title, "")))[:500] if shows_title else ""
        parts.append(
            Document(
                text,
                {**base, "record": number, **values},
                f"{source}/{record.place.number}" if not record.place.section else _section_source(source, record),
                title,
                format=kind,
                places=_line_places(text, record.place),
            )
        )
    wanted = [name for name in (*options.text, options.title, *options.metadata) if name]
    if not is_lone or not any(name in names for name in wanted):
        _check_names(source, wanted, names)
    extra: dict[str, JSON] = {"columns": list[JSON](list(names)[:100]), "records": len(parts)}
    return Document("", {**build_metadata(kind, source, extra)}, source, format=kind, parts=tuple(parts))


def _record_access(record: Record, options: RecordOptions) -> Metadata:
    """The field `access` of a row, which no option and no limit takes away."""
    found = [value for name, value in record.fields.items() if is_access_field(name)]
    if len(found) == 1 and (found[0] is None or found[0] == "") and options.empty_access:
        return {FIELD: [] if options.empty_access == "closed" else EVERYONE}
    return access_metadata(found, format_places(record.place, record.place))


def _line_places(text: str, place: Place) -> tuple[Place, ...]:
    """One place for each line, since all of them stand in the same line or row of the file."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    return tuple(replace(place, start=start) for start in starts)


def _section_source(source: str, record: Record) -> str:
    section = re.sub(r"[/\\\x00-\x1f]", "_", record.place.section)
    return f"{source}/{section}/{record.place.number}"


def _check_names(source: str, wanted: Sequence[str], known: Mapping[str, None]) -> None:
    missing = [name for name in wanted if name not in known]
    if missing and known:
        reason = f"no record has a field {missing[0]!r} (fields: {', '.join(list(known)[:20])})"
        raise LoadError(source, reason, "correct `records` of the loader")


def _record_text(record: Record, columns: Sequence[str]) -> str:
    """The value of a single text column, else `name: value` per line."""
    shown = [name for name in columns or record.fields if not is_access_field(name)]
    values = [(name, field_text(record.fields.get(name))) for name in shown]
    if len(columns) == 1:
        return values[0][1] if values else ""
    return "\n".join(f"{name}: {value}" for name, value in values if value)


def field_text(value: object) -> str:
    """The value of a field as it is written; '' for none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ", ".join(filter(None, map(field_text, value)))
    return replace_invalid_chars(str(value)).strip()


def list_text(items: Sequence[object], depth: int = 0) -> str:
    """Objects of a list on one line, `part: Filter, price: 4; part: Seal, price: 2`, without fields named `access`."""
    between = "; " if any(isinstance(item, Mapping) for item in items) else ", "
    return between.join(filter(None, (_item_text(item, "", depth) for item in items)))


def _item_text(item: object, path: str, depth: int) -> str:
    if depth > MAX_LIST_DEPTH:
        return ""
    if isinstance(item, Mapping):
        shown = ((str(name), value) for name, value in item.items() if not is_access_field(str(name)))
        texts = (_item_text(value, f"{path}.{name}" if path else name, depth + 1) for name, value in shown)
        return ", ".join(filter(None, texts))
    is_list = isinstance(item, list)
    text = list_text(item, depth + 1) if is_list else field_text(item)  # type: ignore[arg-type]
    return f"{path}: {collapse_whitespace(text)}" if path and text else text


def _is_metadata(value: JSON) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= MAX_VALUE_CHARS
    return value is not None

"""The metadata field `access`: who may read a document. What is not understood allows nobody, and is reported."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias
from unicodedata import category, normalize

from ragkit.records import JSON, Document, Metadata

FIELD = "access"
"""The metadata field with the users and groups that may read a document; an empty list: nobody but owners."""
PROBLEM = "access_problem"
"""The metadata field that says why `access` is closed, or what was wrong around it; with the line."""
EVERYONE = "everyone"
NAME = re.compile(r"[\w.@+-]{1,100}")
"""A name of a user or group."""
TABLE_FORMATS = frozenset({"csv", "json", "jsonl", "ods", "parquet", "sqlite", "xls", "xlsx", "xml"})
"""Formats whose rows have columns, but are one document unless `records` is set."""
_ACCESS_CELL = re.compile(
    r"^(?:[^\n]*; )?[ \t]{0,9}access[ \t]{0,9}(?:[.\[][^\s:]{0,100})?: ", re.IGNORECASE | re.MULTILINE
)
Names: TypeAlias = frozenset[str]
"""`user:NAME`, `group:NAME` and `everyone`."""


def is_access_field(name: object) -> bool:
    """Whether a name means the field `access`: in any case, with spaces around it or invisible characters in it."""
    if not isinstance(name, str):
        return False
    if name.isascii():
        return name.strip().casefold() == FIELD
    visible = "".join(char for char in normalize("NFKC", name) if category(char) != "Cf")
    return visible.strip().casefold() == FIELD


def read_names(value: JSON) -> Names | None:
    """The names in a value, a text with commas or a list of texts; a name alone is a user. None: not understood."""
    parts = [part for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or (isinstance(value, str) and not parts):
        return None
    names: set[str] = set()
    for part in parts:
        text = part.strip() if isinstance(part, str) else ""
        kind, colon, name = text.rpartition(":")
        if text == EVERYONE:
            names.add(text)
        elif NAME.fullmatch(name) and (kind in ("user", "group") if colon else True):
            names.add(text if colon else f"user:{name}")
        else:
            return None
    return frozenset(names)


def access_value(value: object) -> JSON:
    """The value of a column `access` of a database: a text, a list of texts or None; [None] for any other."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return list[JSON](value)
    return value if value is None or isinstance(value, str) else [None]


def access_metadata(values: Sequence[JSON], place: str = "", problem: str = "") -> Metadata:
    """The metadata of a document whose author gave these values for `access`; {} for none.

    Args:
        values: more than one is not understood.
        place: where they stand: `line 3`.
        problem: what else is wrong there; it is reported, and the value holds.
    """
    if not values:
        return {}
    wrong = "`access` is given more than once" if len(values) > 1 else ""
    if not wrong and read_names(values[0]) is None:
        shown = repr(values[0])
        shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
        wrong = f"`access` is {shown}" if values[0] not in ("", None) else "`access` is empty"
    if wrong:
        return closed_metadata(wrong, place)
    return {FIELD: values[0], **({PROBLEM: f"{place}: {problem}" if place else problem} if problem else {})}


def closed_metadata(problem: str, place: str = "") -> Metadata:
    """The metadata of a document that only owners may read."""
    return {FIELD: [], PROBLEM: f"{f'{place}: ' if place else ''}{problem}: only owners may read it"}


def settle_access(document: Document, above: JSON | None = None) -> Document:
    """The document and its parts with a field `access` that is understood, if they have one.

    A part without the field has that of the document it came from, `above`; with both, the names that both allow.
    """
    values = [value for key, value in document.metadata.items() if is_access_field(key)]
    settled: Mapping[str, JSON] = {}
    if not values and not document.parts and _names_access(document):
        settled = closed_metadata("it has a column `access`, which holds for rows that are documents (`records`)")
    elif values:
        settled = access_metadata(values)
        if settled.get(FIELD) == values[0] and FIELD in document.metadata:
            settled = {}  # it is as it should be, with the problem that the loader met
    own = settled.get(FIELD, values[0] if values else None)
    if above is not None:
        own = above if own is None else _names_of_both(own, above)
        settled = {**settled, FIELD: own}
    parts = tuple(settle_access(part, own) for part in document.parts)
    if settled:
        others = {key: value for key, value in document.metadata.items() if not is_access_field(key)}
        return replace(document, metadata={**others, **settled}, parts=parts)
    return replace(document, parts=parts) if parts else document


def _names_access(document: Document) -> bool:
    """Whether a table whose rows are no documents has a column `access`."""
    columns = document.metadata.get("columns")
    if document.format not in TABLE_FORMATS:
        return False
    is_column = isinstance(columns, list | tuple) and any(map(is_access_field, columns))
    return is_column or _ACCESS_CELL.search(document.text) is not None


def _names_of_both(first: JSON, second: JSON) -> list[JSON]:
    allowed = read_names(first) or frozenset(), read_names(second) or frozenset()
    open_ones = [names for names in allowed if EVERYONE in names]
    if len(open_ones) == 2:
        return [EVERYONE]
    both = next(names for names in allowed if EVERYONE not in names) if open_ones else allowed[0] & allowed[1]
    return list[JSON](sorted(both))

"""YAML, TOML and XML files as records: each object of a list is a document, with its fields as metadata."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

from lxml import etree

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.file_types import file_suffix
from ragkit.load.options import LOADER_VERSIONS, DataOptions
from ragkit.load.shared.access_field import is_access_field
from ragkit.load.shared.encoding import decode_bytes
from ragkit.load.shared.loader_utils import ValueLimitExceeded, collapse_whitespace, to_json
from ragkit.load.shared.ooxml import local_name, parse_xml
from ragkit.load.shared.table_records import Record, build_record_documents, list_text, typed_value
from ragkit.records import JSON, Document, Place

MAX_DEPTH = 50
"""Deeper nesting is an error."""
_YAML_ERRORS = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError)
"""Errors of ruamel.yaml for invalid input, besides its YAMLError."""
Path: TypeAlias = tuple[str, ...]


class DataLoader:
    """The records of a file: the list that `at` names, or else its longest list of objects."""

    version = LOADER_VERSIONS["data"]

    def __init__(self, options: DataOptions | None = None) -> None:
        self.options = options or DataOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The records in `data`.

        Raises:
            LoadError: it cannot be parsed, or holds no such list.
            LoadLimitExceeded: too deep nesting or too many values, aliases of YAML expanded.
        """
        try:
            value = to_json(_parse(data, source), [self.options.max_values], 0, MAX_DEPTH)
        except ValueLimitExceeded as error:
            raise LoadLimitExceeded(source, str(error), error.hint) from error
        items = self._select(value, source)
        records = (Record(dict(_fields(item)), Place(0, "record", n)) for n, item in enumerate(items, 1))
        return build_record_documents("data", source, records, self.options.records)

    def _select(self, value: JSON, source: str) -> Sequence[Mapping[str, JSON]]:
        lists = dict(_find_lists(value, ()))
        if not self.options.at:
            if isinstance(value, dict) and not lists:
                return [value]
            return max(lists.values(), key=len, default=())
        wanted = tuple(self.options.at.split("."))
        if wanted not in lists:
            known = ", ".join(".".join(path) for path in list(lists)[:20] if path)
            reason = f"holds no list of objects at {self.options.at!r} (lists: {known or 'none'})"
            raise LoadError(source, reason, "correct `at` of the loader")
        return lists[wanted]


def _parse(data: bytes, source: str) -> object:
    suffix, text = file_suffix(source), decode_bytes(data).text
    if suffix == ".toml":
        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise _invalid(source, "TOML", error) from error
    if suffix in (".yaml", ".yml"):
        return _parse_yaml(text, source)
    root = parse_xml(data, source, "the file")
    return {local_name(root): _element_value(root, 0, source)}


def _parse_yaml(text: str, source: str) -> object:
    """The document, or the list of the documents of a file with several."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - slow to import, and few files need it
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415

    try:
        documents = list(YAML(typ="safe", pure=True).load_all(text))
    except (YAMLError, *_YAML_ERRORS) as error:
        raise _invalid(source, "YAML", error) from error
    return documents[0] if len(documents) == 1 else documents


def _invalid(source: str, kind: str, error: Exception) -> LoadError:
    reason = f"invalid {kind} ({collapse_whitespace(str(error))[:200]})"
    return LoadError(source, reason, "correct it, or load it as text: remove its suffix from `only` of this loader")


def _element_value(element: etree._Element, depth: int, source: str) -> object:
    """The text of an element, or its attributes and children by name; children of one name are a list."""
    if depth > MAX_DEPTH:
        raise LoadLimitExceeded(source, f"nested deeper than {MAX_DEPTH} levels", "exclude it")
    fields: dict[str, object] = {str(name).rpartition("}")[2]: typed_value(v) for name, v in element.attrib.items()}
    children = sorted(filter(local_name, element), key=local_name)
    for name, group in groupby(children, key=local_name):
        values = [_element_value(child, depth + 1, source) for child in group]
        fields[name] = values[0] if len(values) == 1 else values
    text = collapse_whitespace("".join(element.itertext())) if not children else ""
    if not fields:
        return typed_value(text)
    return {**fields, "text": text} if text else fields


def _find_lists(value: JSON, path: Path) -> Iterator[tuple[Path, Sequence[Mapping[str, JSON]]]]:
    """(path of names, objects) of each list of objects, from the outside."""
    if isinstance(value, list):
        objects = [item for item in value if isinstance(item, dict)]
        if objects and len(objects) == len(value):
            yield path, objects
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _find_lists(item, (*path, name))


def _fields(item: Mapping[str, JSON]) -> Iterator[tuple[str, JSON]]:
    """The fields of an object, `a.b` for those of an object inside it; lists of scalars are kept, others are a text."""
    for name, value in item.items():
        if is_access_field(name):
            yield name, value
        elif isinstance(value, dict):
            yield from ((f"{name}.{inner}", found) for inner, found in _fields(value))
        elif isinstance(value, list):
            if not any(isinstance(inner, dict | list) for inner in value):
                yield name, [inner if isinstance(inner, str | bool) else str(inner) for inner in value]
            else:
                yield name, list_text(value)
        elif value is not None:
            yield name, value

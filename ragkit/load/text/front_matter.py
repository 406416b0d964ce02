"""Front matter of Markdown files: YAML between `---` lines or TOML between `+++` lines.

Front matter that is invalid or exceeds the limits is ignored; the text is never changed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time

from ragkit.records import JSON

MAX_FRONT_MATTER_CHARS = 65_536
"""Longer front matter is treated as text."""

MAX_VALUES = 2_000
"""Values in the front matter, after YAML aliases are expanded."""

MAX_DEPTH = 20

_OPENING_FENCE = re.compile(r"(---|\+\+\+)[ \t]*(?:\r\n?|\n)")
_YAML_ERRORS = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError)
"""Errors of ruamel.yaml for invalid input, besides its YAMLError."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The values of the front matter, and its length in characters."""

    values: Mapping[str, JSON] = field(default_factory=dict)
    length: int = 0


def parse_front_matter(text: str) -> FrontMatter:
    """The front matter of `text`; empty when it is missing or invalid."""
    opening = _OPENING_FENCE.match(text)
    if opening is None:
        return FrontMatter()
    fence = opening[1]
    closing = re.compile(r"^(?:---|\.\.\.)[ \t]*$" if fence == "---" else r"^\+\+\+[ \t]*$", re.MULTILINE)
    window = text[:MAX_FRONT_MATTER_CHARS].replace("\r\n", " \n").replace("\r", "\n")  # same length
    closing_match = closing.search(window, opening.end())
    if closing_match is None:
        return FrontMatter()
    block = window[opening.end() : closing_match.start()]
    values = _parse_yaml(block) if fence == "---" else _parse_toml(block)
    return FrontMatter(values, closing_match.end()) if values is not None else FrontMatter()


def _parse_toml(block: str) -> Mapping[str, JSON] | None:
    try:
        return _to_json_mapping(tomllib.loads(block))
    except (ValueError, RecursionError):
        return None


def _parse_yaml(block: str) -> Mapping[str, JSON] | None:
    from ruamel.yaml import YAML  # noqa: PLC0415 - slow to import, and few files need it
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415

    try:
        return _to_json_mapping(YAML(typ="safe", pure=True).load(block))
    except (YAMLError, *_YAML_ERRORS):
        return None


def _to_json_mapping(value: object) -> Mapping[str, JSON] | None:
    if not isinstance(value, Mapping):
        return None
    budget = [MAX_VALUES]
    return {str(key): _to_json(item, budget, 0) for key, item in value.items() if isinstance(key, str | int)}


def _to_json(value: object, budget: list[int], depth: int) -> JSON:
    """`value` as JSON. Raises ValueError beyond the limits, which stops alias bombs."""
    budget[0] -= 1
    if budget[0] < 0 or depth > MAX_DEPTH:
        raise ValueError("the front matter is too large")
    if isinstance(value, Mapping):
        return {str(key): _to_json(item, budget, depth + 1) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return [_to_json(item, budget, depth + 1) for item in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and value - value == 0:  # infinity and NaN are not JSON
        return float(value)
    return str(value)

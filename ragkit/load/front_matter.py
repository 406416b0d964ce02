"""The head of a Markdown file: YAML between `---` lines or TOML between `+++` lines.

A head that cannot be read, or that unfolds beyond the limits, counts as no head: the text stays whole either way.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time

from ragkit.records import JSON

MAX_FRONT_MATTER_CHARS = 65_536
"""Characters of a head; a longer one is text."""

MAX_VALUES = 2_000
"""Values in a head, after its aliases are unfolded."""

MAX_DEPTH = 20

_OPENING_FENCE = re.compile(r"(---|\+\+\+)[ \t]*(?:\r\n?|\n)")
_YAML_ERRORS = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError)
"""What ruamel.yaml raises for broken input beside its own YAMLError."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What a head says, and how many characters of the text it takes."""

    values: Mapping[str, JSON] = field(default_factory=dict)
    length: int = 0


def parse_front_matter(text: str) -> FrontMatter:
    """The head of `text`; empty when there is none or it cannot be read."""
    opened = _OPENING_FENCE.match(text)
    if opened is None:
        return FrontMatter()
    fence = opened[1]
    closing = re.compile(r"^(?:---|\.\.\.)[ \t]*$" if fence == "---" else r"^\+\+\+[ \t]*$", re.MULTILINE)
    window = text[:MAX_FRONT_MATTER_CHARS].replace("\r\n", " \n").replace("\r", "\n")  # same length
    closed = closing.search(window, opened.end())
    if closed is None:
        return FrontMatter()
    head = window[opened.end() : closed.start()]
    values = _parse_yaml(head) if fence == "---" else _parse_toml(head)
    return FrontMatter(values, closed.end()) if values is not None else FrontMatter()


def _parse_toml(head: str) -> Mapping[str, JSON] | None:
    try:
        return _to_json_mapping(tomllib.loads(head))
    except (ValueError, RecursionError):
        return None


def _parse_yaml(head: str) -> Mapping[str, JSON] | None:
    from ruamel.yaml import YAML  # noqa: PLC0415 - slow to import, and few files have a head
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415

    try:
        return _to_json_mapping(YAML(typ="safe", pure=True).load(head))
    except (YAMLError, *_YAML_ERRORS):
        return None


def _to_json_mapping(value: object) -> Mapping[str, JSON] | None:
    if not isinstance(value, Mapping):
        return None
    budget = [MAX_VALUES]
    return {str(key): _to_json(item, budget, 0) for key, item in value.items() if isinstance(key, str | int)}


def _to_json(value: object, budget: list[int], depth: int) -> JSON:
    """`value` as JSON holds it. Raises ValueError beyond the limits, so that no alias bomb unfolds."""
    budget[0] -= 1
    if budget[0] < 0 or depth > MAX_DEPTH:
        raise ValueError("the head is too large")
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

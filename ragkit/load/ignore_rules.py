"""The rules of `.gitignore` files, as git reads them.

Made for a walk that prunes: a rule is asked about a file or folder itself, never about what lies below it.
Takes time in proportion to the length of a name, whatever a hostile rule says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAX_RULES = 10_000
"""Rules of one file that are read."""

_POSIX_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_ANY_DEPTH = None


@dataclass(frozen=True, slots=True)
class _Rule:
    """One line of a file."""

    ignores: bool
    """False for a line that begins with `!`."""
    folders_only: bool
    segments: tuple[re.Pattern[str] | None, ...]
    """One pattern for each part of the path; None stands for `**`, any number of parts."""
    matches_any_depth: bool
    """The line names no folder: it is about names at any depth."""

    def matches(self, parts: Sequence[str], is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        if self.matches_any_depth:
            return self.segments[0] is not None and self.segments[0].fullmatch(parts[-1]) is not None
        return _matches_path(self.segments, parts)


class IgnoreRules:
    """The lines of one file; paths are asked about relative to the folder it stands in."""

    def __init__(self, lines: Iterable[str]) -> None:
        rules = [rule for rule in map(_parse_rule, list(lines)[:MAX_RULES]) if rule is not None]
        self._reversed_rules = rules[::-1]
        self._name_patterns = [rule.segments[0] for rule in rules if rule.matches_any_depth]
        self._has_path_rules = len(self._name_patterns) < len(rules)
        joined = "|".join(f"(?:{name.pattern})" for name in self._name_patterns if name is not None)
        self._combined_name_pattern = re.compile(joined, re.DOTALL) if joined else None

    def __bool__(self) -> bool:
        return bool(self._reversed_rules)

    def match(self, parts: Sequence[str], is_folder: bool) -> bool | None:
        """True: ignored; False: kept by a `!` line; None: no line speaks of it.

        Args:
            parts: the path from the folder of these rules, part by part.
            is_folder: whether it is a folder.
        """
        if not self._has_path_rules and (
            self._combined_name_pattern is None or not self._combined_name_pattern.fullmatch(parts[-1])
        ):
            return None
        for rule in self._reversed_rules:
            if rule.matches(parts, is_folder):
                return rule.ignores
        return None


def _parse_rule(line: str) -> _Rule | None:
    """The rule of a line, or None for a blank line, a comment, or a pattern that can match nothing."""
    line = _strip_trailing_spaces(line.rstrip("\r\n"))
    if not line or line.startswith("#"):
        return None
    ignores = not line.startswith("!")
    body = line if ignores else line[1:]
    folders_only = body.endswith("/")
    body = body[:-1] if folders_only else body
    anchored = "/" in body
    raw = body.removeprefix("/").split("/")
    if not body or not all(raw):
        return None
    while len(raw) > 1 and raw[0] == "**":
        raw, anchored = raw[1:], len(raw) > 2
        if anchored:
            raw = ["**", *raw]
            break
    try:
        segments = tuple(_compile_segment(part) if part != "**" or not anchored else _ANY_DEPTH for part in raw)
    except (ValueError, re.error):
        return None
    return _Rule(ignores, folders_only, segments, not anchored)


def _strip_trailing_spaces(line: str) -> str:
    bare = line.rstrip(" ")
    slashes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if slashes % 2 and len(bare) < len(line) else bare


def _compile_segment(glob: str) -> re.Pattern[str]:
    """The pattern of one part of a path. Raises ValueError for one that git never matches."""
    pieces: list[str] = [""]  # what stands between two stars
    place = 0
    while place < len(glob):
        sign = glob[place]
        if sign == "*":
            pieces.append("")
        elif sign == "?":
            pieces[-1] += "."
        elif sign == "[":
            place, text = _parse_bracket(glob, place)
            pieces[-1] += text
        elif sign == "\\":
            place += 1
            if place == len(glob):
                raise ValueError("a backslash at the end")
            pieces[-1] += re.escape(glob[place])
        else:
            pieces[-1] += re.escape(sign)
        place += 1
    if len(pieces) == 1:
        return re.compile(pieces[0], re.DOTALL)
    inner = "".join(f"(?>.*?{piece})" for piece in pieces[1:-1] if piece)  # atomic: no step is ever taken back
    return re.compile(f"{pieces[0]}{inner}.*{pieces[-1]}", re.DOTALL)


def _parse_bracket(glob: str, start: int) -> tuple[int, str]:
    """A set such as `[!a-z]`: the place of its `]`, and its pattern."""
    place = start + 1
    negated = glob[place : place + 1] in ("!", "^")
    place += negated
    inside: list[str] = []
    first = place
    while place < len(glob) and (glob[place] != "]" or place == first):
        named = re.match(r"\[:(\w+):\]", glob[place:])
        if named:
            inside.append(_POSIX_CLASSES.get(named[1], ""))
            place += named.end()
            continue
        if glob[place] == "\\":
            place += 1
        sign = glob[place : place + 1]
        ranges = (
            sign == "-" and place > first and glob[place - 1] != "\\" and glob[place + 1 : place + 2] not in ("", "]")
        )
        inside.append(sign if ranges else re.escape(sign))
        place += 1
    if place >= len(glob):
        raise ValueError("a set that is never closed")
    return place, f"[{'^' if negated else ''}{''.join(inside)}]"


def _matches_path(pattern: Sequence[re.Pattern[str] | None], parts: Sequence[str]) -> bool:
    """Whether the whole path matches. A later `**` never needs an earlier one to be tried again."""
    at, part = 0, 0
    star, retry = -1, 0
    while part < len(parts):
        segment = pattern[at] if at < len(pattern) else None
        if at < len(pattern) and segment is None:
            if at == len(pattern) - 1:
                return True  # `a/**`: everything below a, and a part is left
            star, retry = at, part
            at += 1
        elif segment is not None and segment.fullmatch(parts[part]):
            at, part = at + 1, part + 1
        elif star >= 0:
            retry += 1
            at, part = star + 1, retry
        else:
            return False
    return at == len(pattern)

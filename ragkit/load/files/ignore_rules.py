"""Rules of `.gitignore` files, with the semantics of git.

For a walk that prunes folders: a rule is matched against a path itself, never against its parents. Matching is linear
in the length of the path for any pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAX_RULES = 10_000
"""Rules per file; further lines are ignored."""

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
    """False for a line that starts with `!`."""
    folders_only: bool
    segments: tuple[re.Pattern[str] | None, ...]
    """One pattern per path component; None is `**`, any number of components."""
    matches_any_depth: bool
    """The pattern contains no slash: it matches names at any depth."""

    def matches(self, parts: Sequence[str], is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        if self.matches_any_depth:
            return self.segments[0] is not None and self.segments[0].fullmatch(parts[-1]) is not None
        return _matches_path(self.segments, parts)


class IgnoreRules:
    """The rules of one ignore file; paths are relative to its folder."""

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
        """True: ignored; False: kept by a `!` rule; None: no rule matches.

        Args:
            parts: the components of the path, relative to the folder of the rules.
            is_folder: whether the path is a folder.
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
    """The rule of a line; None for a blank line, a comment, or a pattern that cannot match."""
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
    """The pattern of one path component. Raises ValueError for a glob that git never matches."""
    pieces: list[str] = [""]  # the patterns between stars
    position = 0
    while position < len(glob):
        char = glob[position]
        if char == "*":
            pieces.append("")
        elif char == "?":
            pieces[-1] += "."
        elif char == "[":
            position, text = _parse_bracket(glob, position)
            pieces[-1] += text
        elif char == "\\":
            position += 1
            if position == len(glob):
                raise ValueError("a backslash at the end")
            pieces[-1] += re.escape(glob[position])
        else:
            pieces[-1] += re.escape(char)
        position += 1
    if len(pieces) == 1:
        return re.compile(pieces[0], re.DOTALL)
    inner = "".join(f"(?>.*?{piece})" for piece in pieces[1:-1] if piece)  # atomic: no backtracking
    return re.compile(f"{pieces[0]}{inner}.*{pieces[-1]}", re.DOTALL)


def _parse_bracket(glob: str, start: int) -> tuple[int, str]:
    """A character class such as `[!a-z]`: the position of its `]`, and its pattern."""
    position = start + 1
    negated = glob[position : position + 1] in ("!", "^")
    position += negated
    members: list[str] = []
    first = position
    while position < len(glob) and (glob[position] != "]" or position == first):
        posix_class = re.match(r"\[:(\w+):\]", glob[position:])
        if posix_class:
            members.append(_POSIX_CLASSES.get(posix_class[1], ""))
            position += posix_class.end()
            continue
        if glob[position] == "\\":
            position += 1
        char = glob[position : position + 1]
        is_range = (
            char == "-"
            and position > first
            and glob[position - 1] != "\\"
            and glob[position + 1 : position + 2] not in ("", "]")
        )
        members.append(char if is_range else re.escape(char))
        position += 1
    if position >= len(glob):
        raise ValueError("unclosed character class")
    return position, f"[{'^' if negated else ''}{''.join(members)}]"


def _matches_path(pattern: Sequence[re.Pattern[str] | None], parts: Sequence[str]) -> bool:
    """Whether the whole path matches. Only the last `**` needs to be retried."""
    index, part_index = 0, 0
    star, retry = -1, 0
    while part_index < len(parts):
        segment = pattern[index] if index < len(pattern) else None
        if index < len(pattern) and segment is None:
            if index == len(pattern) - 1:
                return True  # `a/**` matches everything below a
            star, retry = index, part_index
            index += 1
        elif segment is not None and segment.fullmatch(parts[part_index]):
            index, part_index = index + 1, part_index + 1
        elif star >= 0:
            retry += 1
            index, part_index = star + 1, retry
        else:
            return False
    return index == len(pattern)

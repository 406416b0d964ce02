"""Ignore files, with the semantics of git. Every case was checked against `git ls-files --exclude-standard`."""

from __future__ import annotations

import time

import pytest

from ragkit.load.files.ignore_rules import IgnoreRules


def kept_files(lines: str, *paths: str) -> list[str]:
    """The files that a walk with pruning keeps."""
    rules = IgnoreRules(lines.split("\n"))

    def is_kept(path: str) -> bool:
        parts = path.split("/")
        return not any(rules.match(parts[:depth], depth < len(parts)) for depth in range(1, len(parts) + 1))

    return [path for path in paths if is_kept(path)]


@pytest.mark.parametrize(
    ("lines", "ignored", "not_ignored"),
    [
        ("*.log", ["a.log", "d/b.log"], ["a.txt", "log"]),
        ("/top.txt", ["top.txt"], ["d/top.txt"]),
        ("build/", ["build/x", "d/build/x"], ["build", "rebuild/x"]),
        ("docs/*.md", ["docs/a.md"], ["docs/d/a.md", "x/docs/a.md"]),
        ("docs/**/x", ["docs/x", "docs/a/x", "docs/a/b/x"], ["x", "a/docs/x"]),
        ("**/foo", ["foo", "a/foo", "a/b/foo/c"], ["food"]),
        ("**/a/b", ["a/b", "x/a/b"], ["a/x/b"]),
        ("a/**", ["a/x", "a/b/c"], ["a", "b/a/x"]),
        ("a?c", ["abc"], ["ac", "abbc"]),
        ("[a-c]x", ["ax", "cx"], ["dx"]),
        ("[!a]x", ["bx"], ["ax"]),
        ("[[:digit:]]x", ["1x"], ["ax"]),
        ("[]-]x", ["]x", "-x"], ["ax"]),
        ("\\#a", ["#a"], ["a"]),
        ("\\!a", ["!a"], ["a"]),
        ("# a", [], ["# a", "a"]),
        ("a\\ ", ["a "], ["a"]),
        ("a   ", ["a"], ["a "]),
        ("[a", [], ["[a", "a"]),
        ("a\\", [], ["a", "a\\"]),
        ("*.py\n!keep.py", ["a.py"], ["keep.py", "d/keep.py"]),
        ("!a\na", ["a"], []),
        ("*\n!*/\n!*.txt", ["a.md", "d/a.md"], ["a.txt", "d/e/a.txt"]),
        ("d/\n!d/a", ["d/a"], []),
        ("d/*\n!d/a", ["d/b"], ["d/a"]),
        ("/*\n!/src", ["a", "docs/a"], ["src/a", "src/b/c"]),
        ("foo**bar", ["foobar", "foo-x-bar"], ["foo/bar"]),
        ("a//b", [], ["a/b"]),
        ("/", [], ["a"]),
    ],
)
def test_patterns_match_like_git(lines: str, ignored: list[str], not_ignored: list[str]) -> None:
    assert kept_files(lines, *ignored, *not_ignored) == not_ignored


def test_a_pattern_with_many_stars_is_matched_quickly() -> None:
    rules = IgnoreRules(["*a*a*a*a*a*a*a*a*a*a*a*b", "**/x/**/x/**/x/**/x/**/y"])
    started = time.process_time()
    assert rules.match(["a" * 255], False) is None
    assert rules.match(["x"] * 500, False) is None
    assert time.process_time() - started < 0.5


def test_an_empty_file_has_no_rules() -> None:
    assert not IgnoreRules(["", "# only a comment", "   "])

"""The documentation tests detect errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import console, snippets
from .blocks import MarkerInvalid, blocks, read_marker

PAGE = Path("page.md")


def read(text: str) -> list[tuple[int, str, str]]:
    return [(item.line, item.language, item.code) for item in blocks(PAGE, text)]


def test_blocks_in_lists_and_hidden_setups_are_found_with_their_lines() -> None:
    text = (
        "# A\n\n- item\n\n  ```python\n  a = 1\n  ```\n\n<!-- setup: console\n$ mkdir docs\n-->\n\n```yaml\na: 1\n```\n"
    )
    assert read(text) == [(6, "python", "a = 1\n"), (10, "console", "$ mkdir docs\n"), (14, "yaml", "a: 1\n")]


def test_a_marker_belongs_to_the_next_block_only() -> None:
    first, second = blocks(PAGE, "<!-- test: needs a key, exit 4 -->\n```console\n```\n\n```console\n```\n")
    assert (first.marker.needs, first.marker.exit, second.marker.needs) == ("a key", 4, "")


@pytest.mark.parametrize("text", ["skip", "need a key", "exit four", ""])
def test_a_typo_in_a_marker_is_an_error(text: str) -> None:
    with pytest.raises(MarkerInvalid, match="is not a marker"):
        read_marker(text, "page.md:1")


@pytest.mark.parametrize("text", ["<!-- test: needs x -->\n\ntext\n\n```sh\n```\n", "<!-- test: needs x -->\n"])
def test_a_marker_without_a_block_is_an_error(text: str) -> None:
    with pytest.raises(MarkerInvalid, match="marker"):
        list(blocks(PAGE, text))


@pytest.mark.parametrize(
    "shown, actual, same",
    [
        ("43 added", "43 added\n", True),
        ("43 added", "42 added\n", False),
        ("done in 8.5 s, 40 a second", "done in 12.1 s, 31 a second\n", True),
        ("first\n...\nlast", "first\na\nb\nlast\n", True),
        ("first\n...\nlast", "first\na\n", False),
        ("a.b", "axb", False),
    ],
)
def test_output_is_compared_except_for_times_and_dots(shown: str, actual: str, same: bool) -> None:
    assert console.matches(shown, actual) is same


@pytest.mark.parametrize(
    "text, problem",
    [
        ("ragkit idnex docs", "has no verb 'idnex'"),
        ("ragkit index docs --dryrun", "has no option --dryrun"),
        ("X=1 ragkit ask q --modle a | head", "has no option --modle"),
        ("ragkit pipeline shwo", "has no verb 'shwo'"),
        ("pip install 'ragkit-kb[servr]'", "no extra 'servr'"),
    ],
)
def test_a_command_that_is_not_run_is_still_checked(text: str, problem: str) -> None:
    assert problem in " ".join(console.problems(text))


def test_a_valid_command_has_no_problems() -> None:
    assert not list(
        console.problems("ragkit --kb k search \"a - b\" -k 3 --where 'a == 1' --mode=dense | head -4  # all")
    )


@pytest.mark.parametrize(
    "text, problem",
    [
        ("from ragkit import Agnet", "Agnet"),
        ("import ragkit.nothing", "ragkit.nothing"),
        ("from ragkit import KnowledgeBase as KB\nKB.open('kb', pipline='x')", "takes no 'pipline'"),
    ],
)
def test_code_that_is_not_run_is_still_checked(text: str, problem: str) -> None:
    assert problem in " ".join(snippets.problems(text))

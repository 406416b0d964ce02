"""The structure of a text: paragraphs, lists, tables, terms, code, headings and noise."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.answer.extractive.blocks import parse_blocks


def read(text: str, *, is_code: bool = False, fenced: bool = False) -> list[tuple[str, str]]:
    """Kind and text of every block."""
    blocks = parse_blocks(text, is_code=is_code, fenced=fenced)
    return [(block.kind.value, text[block.start : block.end]) for block in blocks]


def kinds(text: str) -> list[str]:
    return [kind for kind, _ in read(text)]


def test_wrapped_lines_are_one_paragraph_and_a_blank_line_ends_it() -> None:
    first = "The mill was built beside the river\nby the carpenters of the village."
    assert read(f"{first}\n\nIt burned down.") == [("paragraph", first), ("paragraph", "It burned down.")]


@pytest.mark.parametrize("line", ["# Opening hours", "2.4. Opening hours", "OPENING HOURS", "3 Opening Hours"])
def test_a_heading_is_known_by_its_form(line: str) -> None:
    text = f"{line}\nThe mill is open to all from May until the end of October."
    assert kinds(text)[0] == "heading"


def test_a_known_heading_is_one_whatever_its_form() -> None:
    text = "when to come\nThe mill is open to all from May until the end of October."
    assert [block.kind.value for block in parse_blocks(text, {0})] == ["heading", "paragraph"]


@pytest.mark.parametrize("mark", ["-", "*", "•", "1.", "2)", "(a)", "o     "])
def test_an_item_has_its_continuation_lines(mark: str) -> None:
    item = f"{mark} The transfer list consists of a single item, either\n  a file or an empty directory."
    assert read(f"{item}\n{mark} The second one.")[0] == ("item", item)


def test_the_options_of_a_man_page_are_terms_above_deeper_definitions() -> None:
    force = "       -f, --force\n              Tells the program to go on."
    text = f"OPTIONS\n{force}\n\n       -n\n              Counts only."
    assert read(text) == [
        ("heading", "OPTIONS"),
        ("term", "-f, --force"),
        ("paragraph", "Tells the program to go on."),
        ("term", "-n"),
        ("paragraph", "Counts only."),
    ]


def test_the_names_of_one_option_are_one_term() -> None:
    text = "-n\n--dry-run\nDon't remove anything, just show what would be done."
    assert read(text)[0] == ("term", "-n\n--dry-run")


def test_a_glossary_entry_is_a_term_and_its_definition() -> None:
    text = "job control\nA mechanism to stop and restart processes.\nmetacharacter\nA character that separates words."
    assert kinds(text) == ["term", "paragraph", "term", "paragraph"]


@pytest.mark.parametrize(
    "code", ["$ git bisect reset", "    valgrind --leak-check=yes myprog", "r = requests.get(url, timeout=0.5)"]
)
def test_what_follows_a_colon_and_is_no_sentence_is_code(code: str) -> None:
    assert kinds(f"To return to the original state, issue the following command:\n\n{code}\n\nThen go on.") == [
        "paragraph",
        "code",
        "paragraph",
    ]


def test_the_output_of_a_command_belongs_to_it() -> None:
    text = (
        "$ restic snapshots\nenter password for repository:\nID        Date\n--------------------\n40dc1520  2015-05-08"
    )
    assert read(text) == [("code", text)]


def test_a_fence_holds_code_whatever_it_looks_like() -> None:
    text = "```\n# not a heading\n- not an item\n```"
    assert [kind for kind in kinds(text) if kind != "noise"] == ["code"]
    assert parse_blocks("a line\n```\nText after it.", fenced=True)[0].kind.value == "code"


@pytest.mark.parametrize(
    "line",
    [
        "2.4. OPTIONS . . . . . . . . . . . . . . . 4",
        "- 12 -",
        "17",
        "xiv",
        "=====================",
        "- Prev 9.8. Scheduling Asynchronous Tasks",
        "HYPERFINE(1)              User Commands              HYPERFINE(1)",
    ],
)
def test_page_numbers_leaders_rules_and_running_heads_are_noise(line: str) -> None:
    assert read(f"{line}\n\nThe mill is open.")[0] == ("noise", line)


@pytest.mark.parametrize("line", [".. code-block:: console", ".. include:: cache.rst", "..  c:function::"])
def test_a_directive_is_noise_and_what_it_shows_is_not(line: str) -> None:
    assert kinds(f"Mount it with this command:\n\n{line}\n\n    $ mount /mnt\n") == ["paragraph", "noise", "code"]
    assert kinds(".. note:: The folder must be empty.") == ["paragraph"]


def test_short_lines_that_begin_alike_are_entries_and_wrapped_lines_are_not() -> None:
    assert kinds("box XC23 contains 1 toy\nbox HJ22 contains 2 games") == ["paragraph"] * 2
    assert kinds("the box of the miller, which had been\nthe box of the smith.") == ["paragraph"] * 2
    assert kinds("the box of the miller that stands below the window,\nthe box of the smith.") == ["paragraph"]


def test_tables_and_records_are_rows() -> None:
    assert kinds("| a | b |\n| --- | --- |\n| 1 | 2 |") == ["row"] * 3
    assert kinds(
        "version: 2.2; codename: Potato; created: 1999-03-09\nversion: 3.0; codename: Woody; created: 2000"
    ) == ["row", "row"]
    assert read("x[0].name: Lek\nx[0].code: 008\nx[1].name: Dram") == [
        ("row", "x[0].name: Lek\nx[0].code: 008"),
        ("row", "x[1].name: Dram"),
    ]


def test_a_command_with_a_pipe_is_no_table() -> None:
    assert "row" not in kinds("pg_dump -h host1 dbname | psql -X -h host2 dbname")


@given(
    st.lists(
        st.one_of(
            st.sampled_from(["- a", "T", "x: y", "# H", "```", "$ c", "", "A b c.", "| a |"]), st.text(max_size=9)
        )
    )
)
def test_blocks_are_in_order_and_hold_every_character(lines: list[str]) -> None:
    text = "\n".join(lines)
    blocks = parse_blocks(text)
    covered = "".join("".join(text[block.start : block.end].split()) for block in blocks)
    assert covered == "".join(text.split())
    assert all(before.end <= after.start for before, after in pairwise(blocks))


def test_a_line_of_a_sentence_that_begins_with_a_decimal_is_no_heading() -> None:
    text = "The network has a price of $800 billion, and it has over\n8.4 billion connected devices online today."
    assert kinds(text) == ["paragraph"]
    assert kinds("The pump is greased in October.\n8.4 greasing the valve\nIt is done.")[1] == "heading"

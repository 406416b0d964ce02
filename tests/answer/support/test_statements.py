"""Splitting an answer into statements with their citations."""

from __future__ import annotations

import pytest

from ragkit.answer.support.statements import split_statements


def split(text: str) -> list[tuple[str, tuple[int, ...]]]:
    return [(statement.text, statement.citations) for statement in split_statements(text)]


def test_a_number_after_the_full_stop_belongs_to_the_sentence_before() -> None:
    text = "Roses are cut in March. [1] Hedges are cut in August.[2][3] Ivy grows slowly [4, 5]."
    assert split(text) == [
        ("Roses are cut in March.", (1,)),
        ("Hedges are cut in August.", (2, 3)),
        ("Ivy grows slowly.", (4, 5)),
    ]


def test_a_sentence_takes_the_next_number_of_its_paragraph_and_no_other() -> None:
    text = "Roses are cut. Hedges are cut too [1]. Ivy is not cut.\n\nMoss is kept."
    assert split(text) == [
        ("Roses are cut.", (1,)),
        ("Hedges are cut too.", (1,)),
        ("Ivy is not cut.", ()),
        ("Moss is kept.", ()),
    ]


def test_a_list_and_the_line_that_introduces_it_share_their_numbers() -> None:
    assert split("There are two tools [1]:\n- a **rake** for leaves\n- a `hoe` for weeds [2]") == [
        ("There are two tools:", (1,)),
        ("a rake for leaves", (1,)),
        ("a `hoe` for weeds", (2,)),
    ]
    assert split("There are two tools:\n1. a rake for leaves [1]\n2. a hoe for weeds [2]")[0] == (
        "There are two tools:",
        (1, 2),
    )


def test_a_number_alone_below_a_list_or_code_is_that_of_all_of_it() -> None:
    assert split("Run these commands:\n- make clean first\n- make tests then\n\n[3]")[1:] == [
        ("make clean first", (3,)),
        ("make tests then", (3,)),
    ]
    assert split("```\nmake all\n```\n[3]") == [("make all", (3,))]


def test_a_table_row_is_a_statement_with_the_names_of_its_columns() -> None:
    text = "| Tool | Price |\n| --- | ---: |\n| Rake | 12 euros [1] |\n| Hoe | 9 euros [2] |"
    assert split(text) == [("Tool: Rake; Price: 12 euros", (1,)), ("Tool: Hoe; Price: 9 euros", (2,))]


@pytest.mark.parametrize(
    "text",
    [
        "Here is what I found:",
        "# Pruning of roses",
        "**Pruning of roses**",
        "Hope this helps!",
        "Would you like more details about roses?",
        "See [1] and [2].",
        "Sources: [1][2]",
        "The documents do not mention the price of roses.",
        "Yes.",
        "---",
        "",
    ],
)
def test_what_claims_nothing_is_no_statement(text: str) -> None:
    assert split(text) == []


def test_a_pointer_to_a_source_is_not_part_of_the_statement() -> None:
    assert split("According to [2], roses are cut in March.") == [("roses are cut in March.", (2,))]

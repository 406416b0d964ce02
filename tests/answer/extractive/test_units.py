"""Answer units: the statements that an answer can quote."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.answer.extractive.units import UnitKind, extract_answer_units
from ragkit.records import Document, Heading
from tests.answer.hits import hit


def read(text: str, title: str = "") -> list[str]:
    """The texts of the statements of one passage, without whole lists."""
    units = extract_answer_units([hit(text, title=title)])
    return [item.text for item in units if item.kind is not UnitKind.LIST]


def test_every_sentence_is_a_statement_at_its_place_in_the_document() -> None:
    text = "The mill was built beside the river in 1790. Nobody ground there after the flood of 1921."
    first, second = extract_answer_units([hit(text, start=500)])
    assert (first.start, first.end, second.start, second.end) == (500, 544, 545, 500 + len(text))
    assert [first.text, second.text] == [text[:44], text[45:]]


def test_a_sentence_without_content_is_joined_to_its_neighbour() -> None:
    text = "The council offered the mill to the carpenter of the village. He declined."
    assert read(text) == [text]
    assert read("No. The mill is not open to visitors on any day of the winter.") == [
        "No. The mill is not open to visitors on any day of the winter."
    ]


def test_a_sentence_that_refers_to_the_previous_one_is_quoted_with_it() -> None:
    text = "The miller of the third mill was Ada Quill. She kept its books for more than fifty years."
    [statement] = extract_answer_units([hit(text)])
    assert (statement.text, statement.sentence_count) == (text, 2)


def test_a_very_short_sentence_is_not_counted() -> None:
    [statement] = extract_answer_units(
        [hit("The council offered the mill to the carpenter of the village. He declined.")]
    )
    assert statement.sentence_count == 1


def test_headings_rules_and_fences_are_no_statements() -> None:
    code = "```sh\nrun the mill --with-all-its-wheels\n```"
    text = f"# Mills\n\n---\n\n{code}\n\nThe mills of the valley grind barley and rye."
    assert read(text, "Mills") == [
        "run the mill --with-all-its-wheels",
        "The mills of the valley grind barley and rye.",
    ]


def test_a_heading_in_plain_text_is_known_by_its_name() -> None:
    assert read("2. Opening\nThe mill is open to all from May until the end of October.", "2. Opening") == [
        "The mill is open to all from May until the end of October."
    ]


def test_a_short_line_without_a_full_stop_is_the_title_of_the_next_sentence() -> None:
    assert read("Entrance fee\nAdults pay four euros, and children pay nothing at all.") == [
        "Entrance fee: Adults pay four euros, and children pay nothing at all."
    ]


def test_a_term_and_its_definition_are_one_statement_and_lines_without_full_stops_are_not_joined() -> None:
    assert read("**Leat.**\nA ditch that brings water to the wheel.\n\n**Sluice.**\nA gate in a leat.") == [
        "Leat: A ditch that brings water to the wheel.",
        "Sluice: A gate in a leat.",
    ]
    assert read("Fall of water 4.2 m\nWheel 3.6 m\nMillstones 2") == [
        "Fall of water 4.2 m",
        "Wheel 3.6 m",
        "Millstones 2",
    ]


def test_a_row_of_a_markdown_table_is_read_with_the_names_of_its_columns() -> None:
    text = "| Grain | Price |\n| --- | --- |\n| Barley | €31 per sack |\n| Rye | €34 per sack |\n"
    result = extract_answer_units([hit(text)])
    assert [item.text for item in result] == ["Grain: Barley; Price: €31 per sack", "Grain: Rye; Price: €34 per sack"]
    assert text[result[0].start : result[0].end] == "| Barley | €31 per sack |"


def test_a_table_of_plain_text_has_names_when_its_first_row_holds_no_number() -> None:
    assert read("Grain | Price\nBarley | 31\nRye | 34") == ["Grain: Barley; Price: 31", "Grain: Rye; Price: 34"]
    assert read("Barley | 31\nRye | 34") == ["Barley | 31", "Rye | 34"]


def test_rows_after_text_begin_a_new_table() -> None:
    between = "The prices of straw are those of the year before."
    text = f"Grain | Price\nBarley | 31\n\n{between}\n\nRye straw | 9\nOat straw | 8"
    assert read(text)[0] == "Grain: Barley; Price: 31"
    assert read(text)[2:] == ["Rye straw | 9", "Oat straw | 8"]


def test_the_items_of_a_list_are_read_with_the_line_that_introduces_them() -> None:
    text = (
        "Before you start the wheel:\n\n1. Open the upper sluice by two turns.\n2. Take the chain off the brake lever."
    )
    assert read(text) == [
        "Before you start the wheel:",
        "Before you start the wheel: 1. Open the upper sluice by two turns.",
        "Before you start the wheel: 2. Take the chain off the brake lever.",
    ]


def test_the_introduction_ends_with_the_list() -> None:
    after = "Nobody is let in after dark, whatever they have brought."
    text = f"Bring with you:\n- a lamp with a full battery\n\n{after}\n\n- rope"
    assert read(text) == ["Bring with you:", "Bring with you: a lamp with a full battery", after, "rope"]


def test_the_introduction_holds_for_all_items_however_many_sentences_they_have() -> None:
    first = "1. Warm the place in water of 37 degrees. No warmer water is of any use to anybody."
    assert read(f"Burns by cold:\n{first}\n2. Cover it with a clean cloth from the box.")[-1] == (
        "Burns by cold: 2. Cover it with a clean cloth from the box."
    )


def test_comments_and_bars_in_code_are_neither_headings_nor_tables() -> None:
    text = "# The limit is that of the old sluice.\nlimit: int | None = None\nname: str | None = None\n"
    passage = hit(text)
    code = replace(passage, chunk=replace(passage.chunk, metadata={"format": "code"}))
    assert [item.text for item in extract_answer_units([code])] == [
        "The limit is that of the old sluice.",
        "limit: int | None = None",
        "name: str | None = None",
    ]


def test_the_entries_of_a_record_are_read_together() -> None:
    text = "mills[0].name: Upper Mill\nmills[0].wheel.diameter_m: 3.6\nmills[1].name: Lower Mill\nmills[1].stones: 2"
    result = extract_answer_units([hit(text)])
    assert [item.text for item in result] == ["name: Upper Mill; wheel.diameter_m: 3.6", "name: Lower Mill; stones: 2"]
    assert text[result[1].start : result[1].end] == "mills[1].name: Lower Mill\nmills[1].stones: 2"


def test_a_question_is_the_context_of_its_answer_and_no_answer_itself() -> None:
    text = (
        "May I bring my dog?\nDogs on a lead are welcome in the yard and on the paths.\n"
        "Inside the mill the noise of the stones would frighten them.\n"
    )
    first, second = extract_answer_units([hit(text, title="Visitors")])
    assert first.text == "Dogs on a lead are welcome in the yard and on the paths."
    assert second.heading_context == "Visitors May I bring my dog?"


def test_a_numbered_question_is_the_context_of_the_paragraph_below_it() -> None:
    text = (
        "20.  Who may remove the mill?\nThe miller, the abbey\n\n21.  May it be sold?\nYes, to a smith of the village."
    )
    first, second = extract_answer_units([hit(text)])
    assert (first.text, second.text) == ("The miller, the abbey", "Yes, to a smith of the village.")
    assert "Who may remove the mill?" in first.heading_context


def test_a_record_has_cells_and_a_sentence_with_semicolons_has_none() -> None:
    record, broken = extract_answer_units(
        [hit("Region: North; Code: 00042; Quantity: 40"), hit("Region: North; Code: 00042; Quantity: 40; sold out")]
    )
    assert record.cells == (("Region", "North"), ("Code", "00042"), ("Quantity", "40"))
    assert broken.cells == ()


def test_a_definition_and_its_docstring_are_one_statement() -> None:
    assert read('def grind(sacks):\n    """Grind some sacks of barley, one after the other."""') == [
        "def grind(sacks): Grind some sacks of barley, one after the other."
    ]


def test_a_line_that_was_cut_by_the_page_goes_on_in_the_next() -> None:
    text = (
        "The wheel of the upper mill is made of the larch that\ngrows above the pond. It weighs nine tonnes.\nIron 4 t"
    )
    assert read(text)[0].startswith("The wheel of the upper mill is made of the larch that grows above the pond.")


def test_marks_of_lists_quotations_and_emphasis_are_not_read() -> None:
    assert read("> **Closed.** The mill has been *closed to visitors* since the flood of last spring.") == [
        "Closed. The mill has been closed to visitors since the flood of last spring."
    ]
    assert read(": If this gate is open, the mill turns as long as the river has water.") == [
        "If this gate is open, the mill turns as long as the river has water."
    ]
    assert read("- The area is 3 * 4 metres, and the roof slopes to the north.") == [
        "The area is 3 * 4 metres, and the roof slopes to the north."
    ]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("[Instant grain](grain.md#fast) is milled at once.", "Instant grain is milled at once."),
        (
            'See [the sieve](/img/a.png "A sieve") and [its maker](https://smith.example/a).',
            "See the sieve and its maker.",
        ),
        ("Lift the gate. ![The gate](img/gate.png){ width=500 } It is heavy.", "Lift the gate. It is heavy."),
        ("The range [0, 1](see below) and `a[i](b)` stay.", "The range [0, 1](see below) and `a[i](b)` stay."),
        (
            "Choose _is about_ for _wheat_, never `_raw_` or __init__.",
            "Choose is about for wheat, never `_raw_` or __init__.",
        ),
    ],
)
def test_links_are_read_as_their_words_and_images_not_at_all(text: str, read: str) -> None:
    assert [unit.text for unit in extract_answer_units([hit(text)])] == [read]


def test_an_image_between_two_items_does_not_end_their_list() -> None:
    images = "\n   ![The key](/img/key.png)\n\n", "\n\n   ![](/img/gate.png)\n\n"
    text = f"1. Turn the key.{images[0]}2. Lift the gate.{images[1]}3. Lock the chain."
    [steps] = [unit for unit in extract_answer_units([hit(text)]) if unit.kind is UnitKind.LIST]
    assert steps.body == "1. Turn the key.\n2. Lift the gate.\n3. Lock the chain."


def test_text_shared_by_two_passages_appears_once_and_complete() -> None:
    sentence = "The wheel of the lower mill was taken away by the flood of 1921."
    end = "The one above was spared, since its sluice had been left open."
    rest = hit(f"{sentence[10:]} {end}", start=10)
    result = extract_answer_units([rest, hit(f"{sentence} {end}")])
    assert [(item.hit_index, item.start, item.text) for item in result] == [
        (0, len(sentence) + 1, end),
        (1, 0, sentence),
    ]


def test_a_document_of_several_passages_is_read_once_with_its_headings() -> None:
    text = "# Mill\n\n## Wheel\n\nIt has forty buckets of larch wood.\n\n## Roof\n\nThe flood of 1921 took the roof."
    sections = tuple(
        Heading(text.index(f"{'#' * level} {name}"), level, name)
        for level, name in ((1, "Mill"), (2, "Wheel"), (2, "Roof"))
    )
    document = Document(text, source="/a.txt", format="markdown", headings=sections)
    read: list[str] = []

    def find(document_id: str) -> Document:
        read.append(document_id)
        return document

    starts = [text.index("It has"), text.index("The flood")]
    hits = [hit(text[start : text.index(".", start) + 1], start=start) for start in starts]
    units = extract_answer_units(hits, find)
    assert len(read) == 1
    assert [(unit.heading_context, unit.body[:8]) for unit in units] == [
        ("Mill > Wheel", "It has f"),
        ("Mill > Roof", "The floo"),
    ]
    for unit in units:
        assert unit.heading_context == " > ".join(document.heading_path_at(unit.start))


def test_no_passages_have_no_statements() -> None:
    assert extract_answer_units([]) == []
    assert read("") == read("---\n\n***") == []


PIECES = [
    "The wheel turns.",
    "| a | b |",
    "| --- | --- |",
    "- item",
    "# Head",
    "Why?",
    "x[0].y: 1",
    "```",
    '"""',
    "\n",
    " ",
    "It",
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=12)), max_size=30), st.integers(0, 9))
def test_statements_are_inside_their_passage_in_order_and_contain_a_word(parts: list[str], start: int) -> None:
    text = "\n".join(parts)
    result = extract_answer_units([hit(text, start=start)])
    assert all(start <= item.start < item.end <= start + len(text) for item in result)
    assert [item.start for item in result] == sorted(item.start for item in result)
    assert all(item.text == " ".join(item.text.split()) != "" for item in result)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("unit", ["word ", "a | b\n", "- item:\n", "It is. ", "x!\n", "a[0].b: c\n"])
def test_a_very_long_passage_is_processed_quickly(unit: str) -> None:
    text = unit * 20_000
    assert extract_answer_units([hit(text)])[-1].end == len(text.rstrip())


FAQ = """# Questions

Q: Which browsers are supported?
A: Firefox and Chromium, in the last two versions.

**Q: Can I export my invoices?**
**A:** Yes, as CSV, on the invoices page.

Q. What does the premium plan cost?
A. It costs 12 euros a month.

Frage 4: Wo liegen meine Daten?

Antwort: In einem Rechenzentrum in Frankfurt.

## _Who reads my mail?_

**A:** Nobody does, since all of it is encrypted.
"""


def test_an_answer_of_a_list_of_questions_is_a_statement_without_its_label() -> None:
    units = extract_answer_units([hit(FAQ)])
    assert [unit.text for unit in units] == [
        "Firefox and Chromium, in the last two versions.",
        "Yes, as CSV, on the invoices page.",
        "It costs 12 euros a month.",
        "In einem Rechenzentrum in Frankfurt.",
        "Nobody does, since all of it is encrypted.",
    ]
    assert [unit.text for unit in units] == [FAQ[unit.start : unit.end] for unit in units]
    assert units[1].heading_context.endswith("Can I export my invoices?")


@pytest.mark.parametrize(
    "text",
    [
        "F. Scott Fitzgerald wrote the book in a house beside the sea in the year 1924.",
        "P. 12 shows the mill from the side of the river, with all of its five wheels.",
        "A: the first gear of the mill is used for barley and for nothing else than barley.",
    ],
)
def test_an_initial_is_no_label_of_a_question(text: str) -> None:
    assert read(text) == [text]


def test_a_number_with_its_name_in_capitals_is_no_heading() -> None:
    assert read("The mill is paid at the end of each month.\n\nIBAN DE02 1203 0000 0000 2020 51")[1:] == [
        "IBAN DE02 1203 0000 0000 2020 51"
    ]

"""Answers composed of scored units."""

from __future__ import annotations

import pytest

from ragkit.answer.extractive.composition import MAX_CHARS, MAX_PASSAGES, AnswerPassage, compose_answer
from ragkit.answer.extractive.selection import rank_answer_units
from ragkit.answer.extractive.units import UnitKind, extract_answer_units
from ragkit.records import Hit
from tests.answer.hits import hit
from tests.answer.passages import Shelf


def compose(question: str, *texts: str) -> list[AnswerPassage]:
    """The answer from these documents."""
    hits: list[Hit] = [hit(text, source=f"/{n}.txt") for n, text in enumerate(texts)]
    ranked, units = rank_answer_units(question, hits, Shelf({f"/{n}.txt": text for n, text in enumerate(texts)}))
    return compose_answer(question, ranked, units)


def test_a_sentence_is_followed_by_those_that_continue_it() -> None:
    text = "The flood of 1921 took the roof. It also took most of the grain. The abbey sold the wheel to a smith later."
    [passage] = compose("When did the flood take the roof?", text)
    assert passage.text == text
    assert (passage.start, passage.end, passage.source) == (0, len(text), "/0.txt")


def test_a_long_paragraph_is_not_quoted_whole() -> None:
    sentences = [
        f"Sack number {n} of the barley of this year went to the inn beside the upper mill." for n in range(12)
    ]
    passage = compose("Where did sack number 3 of the barley go?", " ".join(sentences))[0]
    assert passage.text.startswith("Sack number 3 of the barley")
    assert len(passage.text.split()) <= 45


def test_a_list_comes_with_its_introduction_and_an_item_with_its_list() -> None:
    text = "The mill has three wheels:\n\n- the oak wheel\n- the larch wheel\n- the iron wheel"
    for question in ("Which wheels does the mill have?", "Does the mill have a larch wheel?"):
        assert (
            compose(question, text)[0].text
            == "The mill has three wheels:\n- the oak wheel\n- the larch wheel\n- the iron wheel"
        )


def test_numbered_steps_keep_their_numbers() -> None:
    text = "To open the sluice:\n\n1. Turn the key.\n2. Lift the gate.\n3. Lock the chain."
    [passage] = compose("How do I open the sluice?", text)
    assert passage.text == "To open the sluice:\n1. Turn the key.\n2. Lift the gate.\n3. Lock the chain."


def test_a_command_is_marked_and_comes_with_the_sentence_that_introduces_it() -> None:
    text = "To open the sluice, use this command:\n\n    $ sluice --open --slowly\n\nThe water then runs for an hour."
    passage = compose("How do I open the sluice?", text)[0]
    assert passage.text == "To open the sluice, use this command: `sluice --open --slowly`"


RECORDS = "\n".join(
    f"Region: {region}; Code: {code}; Product: barley; Quantity: {quantity}"
    for region, code, quantity in (("North", "00042", 40), ("South", "00230", 3), ("South", "00231", 5))
)


def test_a_record_answers_with_its_key_and_the_asked_value() -> None:
    [passage] = compose("What is the quantity of code 00042?", RECORDS)
    assert passage.text == "Region: North; Code: 00042; Quantity: 40"


def test_records_that_differ_in_a_number_are_all_listed() -> None:
    texts = [passage.text for passage in compose("Which codes are in the South?", RECORDS)]
    assert {"Region: South; Code: 00230", "Region: South; Code: 00231"} <= set(texts)


def test_entries_with_names_are_divided() -> None:
    [passage] = compose("Which wheel does the mill have?", "mill: third\nwheel: oak wheel of the mill\nroof: slate")
    assert "; roof: slate" in passage.text


def test_equal_passages_of_two_documents_are_quoted_once() -> None:
    text = "The flood of 1921 took the roof and most of the grain away."
    assert len(compose("When did the flood take the roof?", text, text)) == 1


def test_a_further_passage_adds_something_and_the_answer_stays_short() -> None:
    texts = [
        f"The wheel number {n} of the mill is made of {wood} and turns once a minute."
        for n, wood in enumerate(("oak wood", "larch wood", "green iron", "old copper", "soft brass"))
    ]
    passages = compose("What is the wheel of the mill made of?", *texts)
    assert 1 < len(passages) <= MAX_PASSAGES
    assert len({passage.text for passage in passages}) == len(passages)
    assert sum(len(passage.text) for passage in passages) <= MAX_CHARS


def test_a_comparison_has_a_passage_for_each_side() -> None:
    oak = "The oak wheel of the mill turns slowly and lasts for ninety years, even without any repair."
    larch = "The larch wheel is cheap."
    passages = compose("What is the difference between the oak wheel and the larch wheel?", oak, larch)
    assert [any(word in passage.text for passage in passages) for word in ("oak wheel", "larch wheel")] == [True, True]


@pytest.mark.parametrize("question", ["When?", "", "What is the difference between a and b?"])
def test_without_units_there_is_no_passage(question: str) -> None:
    assert compose_answer(question, [], []) == []


_TROUBLE = """### Error: entry too far behind

`entry too far behind, oldest acceptable timestamp is 12:00`

**Cause:**

The entry has a timestamp that is older than what the ingester accepts.

**Resolution:**

- Fix the clock of the client.
- Raise the limit of the ingester.

**Default configuration**:

```yaml
max_streams: 5000
```
"""


def test_a_line_in_bold_comes_with_what_it_introduces() -> None:
    cause = compose("What is the cause of entry too far behind?", _TROUBLE)[0]
    assert cause.text == "Cause: The entry has a timestamp that is older than what the ingester accepts."
    [fixes] = [unit for unit in extract_answer_units([hit(_TROUBLE)]) if unit.kind is UnitKind.LIST]
    assert (fixes.lead, fixes.body) == ("Resolution:", "Fix the clock of the client.\nRaise the limit of the ingester.")
    default = compose("What is the default configuration of max_streams?", _TROUBLE)[0]
    assert default.text == "Default configuration: `max_streams: 5000`"


def test_a_sentence_that_ends_with_a_colon_comes_with_the_next_paragraph() -> None:
    text = "The mill has one rule for all visitors of the wheel room:\n\nNobody touches the oak wheel while it turns."
    assert compose("What is the rule for visitors of the wheel room?", text)[0].text == " ".join(text.split())


def test_a_long_sentence_or_row_is_cut_between_its_clauses_but_a_list_that_was_asked_for_is_not() -> None:
    clauses = ", ".join(f"the wheel number {n} of the upper mill turns {n} times a minute in spring" for n in range(20))
    [passage] = compose("How often does the wheel number 3 of the upper mill turn?", f"In short, {clauses}.")
    assert MAX_CHARS // 2 < len(passage.text) < MAX_CHARS
    assert passage.text.endswith("a minute in spring ...")
    steps = "\n".join(
        f"{n}. Turn the wheel number {n} of the sluice once, and wait until the water rests." for n in range(1, 10)
    )
    [passage] = compose("How do I open the sluice?", f"To open the sluice:\n\n{steps}")
    assert len(passage.text) > MAX_CHARS
    assert passage.text.endswith("until the water rests.")


def test_a_comparison_keeps_both_sides_within_the_limit() -> None:
    oak = " ".join(
        f"The oak wheel is made of plank number {n}, which lasts for ninety years in rain." for n in range(6)
    )
    larch = " ".join(f"The larch wheel has {n} spokes, and it is cheap to repair in winter." for n in range(6))
    passages = compose("What is the difference between the oak wheel and the larch wheel?", oak, larch)
    assert [any(word in passage.text for passage in passages) for word in ("oak wheel", "larch wheel")] == [True, True]
    assert sum(len(passage.text) for passage in passages) <= MAX_CHARS


def test_a_command_comes_with_the_words_before_it_even_without_a_colon() -> None:
    text = "If the version of the sluice is broken, type\n\n    $ sluice mark bad\n\nThe sluice then goes on."
    assert compose("How do I mark the version of the sluice as broken?", text)[0].text == (
        "If the version of the sluice is broken, type `sluice mark bad`"
    )


STEPS = "1. Turn the key.\n2. Lift the gate until the mark is under water.\n3. Lock the chain."


@pytest.mark.parametrize(
    "text",
    [
        f"# Opening the sluice\n\nSometimes the sluice has to be opened by hand, as after a flood.\n\n{STEPS}",
        f"# Opening the sluice\n\n{STEPS}\n\nThe gate can be opened by hand even when the sluice is frozen.",
    ],
    ids=["above", "below"],
)
def test_the_steps_beside_the_best_sentence_come_with_it(text: str) -> None:
    passage = compose("How do I open the sluice?", text)[0]
    assert STEPS.splitlines() == [line for line in passage.text.splitlines() if line[:1].isdigit()]
    assert "by hand" in passage.text


def test_a_list_that_would_be_cut_gives_way_to_its_best_item() -> None:
    reasons = [f"The {n} wheel of the mill was made by a smith whose sons never learned the trade." for n in range(12)]
    reasons[9] = "The sluice cannot be closed again before the water of the spring flood has run off."
    text = "What to know about the mill:\n\n" + "\n".join(f"- {reason}" for reason in reasons)
    passage = compose("Can the sluice be closed again after the flood?", text)[0]
    assert reasons[9] in passage.text
    assert "..." not in passage.text


def test_what_introduces_a_list_stands_once() -> None:
    sentence = "The {} wheel of the mill turns {} and was bought from the abbey beside the river in a dry year."
    items = [sentence.format(kind, way) for kind, way in (("oak", "slowly"), ("iron", "at night"), ("lead", "alone"))]
    passages = compose("Does the oak wheel turn at night?", "Of the wheels:\n\n" + "\n".join(f"- {i}" for i in items))
    assert " ".join(passage.text for passage in passages).count("Of the wheels:") == 1


def test_a_colon_brings_the_rows_of_the_next_table() -> None:
    table = "| Wheel | Wood |\n|---|---|\n| Upper | oak |\n| Lower | larch |"
    passage = compose("Which wheels exist?", f"The following wheels exist:\n\n{table}")[0]
    assert passage.text == "The following wheels exist:\n- Wheel: Upper; Wood: oak\n- Wheel: Lower; Wood: larch"


def test_a_row_that_is_named_comes_alone_even_if_several_things_are_asked_for() -> None:
    table = "| Wheel | Names |\n|---|---|\n| Upper | crown, lady |\n| Lower | sow, boar |"
    assert [p.text for p in compose("What are the names of the upper wheel?", table)] == [
        "Wheel: Upper; Names: crown, lady"
    ]


def test_the_value_of_another_setting_is_left_out() -> None:
    settings = (("Width", 20), ("Depth", 50))
    text = "\n\n".join(f"## {name} of the gate\n\nThe default value is `{value}`." for name, value in settings)
    texts = [passage.text for passage in compose("What is the default width of the gate?", text)]
    assert "`20`" in texts[0]
    assert not any("`50`" in other for other in texts)


def titled(question: str, text: str, title: str, source: str) -> list[AnswerPassage]:
    """The answer from one document with a title."""
    hits = [hit(text, source=source, title=title)]
    return compose_answer(question, *rank_answer_units(question, hits, Shelf({source: text})))


README = (
    "# Event Runner\n\nA utility that runs commands when a file changes. It waits for the kernel. "
    "`evr` was made to keep the feedback of `evr` users fast.\n\n## Limits\n\nAt most 1,024 files can be watched."
)


def test_a_definition_begins_with_the_paragraph_below_the_name() -> None:
    opening = "A utility that runs commands when a file changes. It waits for the kernel. `evr` was made to keep"
    assert compose("What is evr?", README)[0].text.startswith("`evr` was made")
    assert titled("What is evr?", README, "Event Runner", "/evr-README.md")[0].text.startswith(opening)
    section = README.replace("# Event Runner", "# Evr")
    assert titled("What is evr?", section, "Evr", "/tools.md")[0].text.startswith(opening)

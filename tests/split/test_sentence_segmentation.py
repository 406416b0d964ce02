"""Sentence segmentation."""

from __future__ import annotations

import re
import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.split.lines import iter_lines
from ragkit.split.sentence_segmentation import STOP, sentence_spans, wrap_width


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    "text",
    [
        "Use a cache, e.g. Redis, for this.",
        "It is fast, i.e. linear.",
        "Dr. Smith met Prof. Jones and Mrs. Brown.",
        "Upgrade to v1.2 at once.",
        "It costs 3.5 dollars.",
        "See Fig. 3 and Sec. 2 for this.",
        "It came out on Jan. 5 of that year.",
        "J. K. Rowling and George R. R. Martin write.",
        "He lives in the U.S. Navy town.",
        "Well... maybe it is so.",
        '"Why?" he asked.',
        "Look at ragkit.toml or example.com for more.",
        "The rate is approx. five percent.",
        "Das ist z.B. ein Satz.",
        "Das gilt z. B. Pumpen im Keller.",
        "Der Keller ist i. d. R. Sache des Hauses.",
        "Er endet am 31. März 2024.",
        "Bis zum 3. Oktober gilt die alte Regel.",
        "Im 20. Jahrhundert war das anders.",
        "Das kostet 5 Mio. Euro im Jahr.",
        "Smith et al. 2019 showed it.",
    ],
)
def test_a_single_sentence_is_not_split(text: str) -> None:
    assert sentences(text) == [text]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four.", ["One.", "Two!", "Three?", "Four."]),
        ('"Stop!" She left. (He stayed.) It rained.', ['"Stop!"', "She left.", "(He stayed.)", "It rained."]),
        ("He works at Apple Inc. The firm is large.", ["He works at Apple Inc.", "The firm is large."]),
        ("It ended at 5 p.m. The train was late.", ["It ended at 5 p.m.", "The train was late."]),
        ("He said no. Then he left.", ["He said no.", "Then he left."]),
        ("It won.[12] Nobody knew.[3]", ["It won.[12]", "Nobody knew.[3]"]),
        ("And so on... The end.", ["And so on...", "The end."]),
        ("a wing in a slipstream . an experiment .", ["a wing in a slipstream .", "an experiment ."]),
        ("all in lower case. nobody cares.", ["all in lower case.", "nobody cares."]),
        ("¿Qué pasa? «Nada.» Bien.", ["¿Qué pasa?", "«Nada.»", "Bien."]),
    ],
)
def test_sentences_end_at_end_punctuation(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_full_width_punctuation_ends_a_sentence_without_white_space() -> None:
    assert sentences("今天天气很好。我们去公园吧！「真的吗？」他问。") == [
        "今天天气很好。",
        "我们去公园吧！",
        "「真的吗？」",
        "他问。",
    ]


def test_devanagari_and_arabic_punctuation_ends_a_sentence() -> None:
    assert sentences("यह एक है। यह दो है।") == ["यह एक है।", "यह दो है।"]
    assert sentences("ما هذا؟ هذا كتاب.") == ["ما هذا؟", "هذا كتاب."]


def test_a_paragraph_without_end_punctuation_is_one_sentence() -> None:
    assert sentences("สวัสดีครับ วันนี้อากาศดี\n\nไปเที่ยวกัน") == ["สวัสดีครับ วันนี้อากาศดี", "ไปเที่ยวกัน"]


def test_a_wrapped_line_does_not_end_a_sentence() -> None:
    text = "The editor wrapped this long line at the\nmargin and went on. The next one\nfollows here."
    assert sentences(text) == [
        "The editor wrapped this long line at the\nmargin and went on.",
        "The next one\nfollows here.",
    ]


WRAPPED = """\
6. Filling the dewar, step by step
The dewar holds 6.0 litres and keeps cold for 16 hours when full. It is filled twice a day in observing
periods: before the night (17:00 in winter, 19:00 in summer) and after it, before the observer goes to
bed. A fill takes about 25 minutes."""


def test_a_wrapped_line_may_continue_with_a_word_and_a_colon() -> None:
    assert "It is filled twice a day in observing\nperiods: before the night (17:00 in winter" in sentences(WRAPPED)[2]


def test_a_heading_above_a_wrapped_paragraph_is_a_separate_sentence() -> None:
    assert sentences(WRAPPED)[:2] == [
        "6. Filling the dewar, step by step",
        "The dewar holds 6.0 litres and keeps cold for 16 hours when full.",
    ]


def test_entries_below_a_wrapped_paragraph_are_separate_sentences() -> None:
    text = "These are the values that the editor has wrapped at the margin of\nthe page and that go on below it.\n"
    assert sentences(f"{text}timeout: 30 seconds for each of them\nretries: 5")[1:] == [
        "timeout: 30 seconds for each of them",
        "retries: 5",
    ]


def test_list_items_rows_headings_and_settings_are_separate_sentences() -> None:
    text = "# Title of this\n- first item of the list that is long\n- second item\n2. third\nname: x\n| a | b |"
    assert sentences(text) == text.split("\n")


def test_wrapped_lines_in_upper_case_are_joined() -> None:
    text = (
        "THE PUMP IS PROVIDED AS IS, WITHOUT A WARRANTY OF ANY KIND, EXPRESS OR\n"
        "IMPLIED, INCLUDING THAT OF ITS VALVES, OF ITS PARTS AND\nITS PIPES."
    )
    assert len(sentence_spans(text)) == 1


def test_a_short_line_that_begins_in_lower_case_is_no_heading() -> None:
    text = (
        "The pump runs when the tank is full and it stops when the\n"
        "tank is empty, which is by\n"
        "Section 3 of the long rules of the plant for all of its pumps,\n"
        "and nothing else may ever stop it for any other reason there is."
    )
    assert len(sentence_spans(text)) == 1


def test_short_lines_are_not_joined() -> None:
    assert sentences("red apples\ngreen pears\nblue plums") == ["red apples", "green pears", "blue plums"]


def test_a_list_number_does_not_end_a_sentence() -> None:
    assert sentences("1. First thing.\n2. Second thing.") == ["1. First thing.", "2. Second thing."]


def test_a_blank_line_ends_a_sentence_for_every_line_break() -> None:
    for end in ("\n", "\r\n", "\r"):
        assert sentences(f"no stop here and so on{end}{end}but a new paragraph") == [
            "no stop here and so on",
            "but a new paragraph",
        ]


def test_a_line_after_a_full_stop_does_not_count_against_wrapped_lines() -> None:
    text = (
        "Mounting is only possible on Linux and FreeBSD.\n"
        "On Linux, the module needs to be loaded and the helper\n"
        "command needs to be in the path.\nOn FreeBSD, you load the kernel module by hand."
    )
    assert [sentence.replace("\n", " ") for sentence in sentences(text)][1:] == [
        "On Linux, the module needs to be loaded and the helper command needs to be in the path.",
        "On FreeBSD, you load the kernel module by hand.",
    ]


def test_white_space_has_no_sentences() -> None:
    assert sentences("") == []
    assert sentences(" \n\t\r\n ") == []


@given(st.text(alphabet="ab.!? \n\r。'\"1A[]é-:|", max_size=200))
def test_every_visible_character_lies_in_exactly_one_sentence(text: str) -> None:
    spans = sentence_spans(text)
    inside = [offset for start, end in spans for offset in range(start, end)]
    assert inside == sorted(set(inside))
    assert {offset for offset, character in enumerate(text) if not character.isspace()} <= set(inside)
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)


def _seconds(text: str) -> float:
    started_at = time.process_time()
    sentence_spans(text)
    return time.process_time() - started_at


@pytest.mark.parametrize(
    "unit", [".", ". ", "a. ", "e.g. ", "?!", '."', "[1]", " ", "\n", "a\n", "。", "a\n\n", "1.", "a b: "]
)
def test_time_grows_no_faster_than_the_text(unit: str) -> None:
    times = []
    for size in (50_000, 200_000):
        text = unit * (size // len(unit))
        times.append(min(_seconds(text) for _ in range(3)))
    assert times[1] < 10 * times[0] + 0.2  # 4 if linear, 16 if quadratic


GERMAN_PARAGRAPHS = (
    "Die Arbeit der Nachtschicht ist durch Pausen von mindestens 30 Minuten bei einer Arbeitszeit von mehr als sechs "
    "bis zu neun Stunden und durch eine Pause von insgesamt 45 Minuten am Ende der Schicht zu unterbrechen. Die Pausen "
    "der Schicht dürfen in Abschnitte von jeweils 15 Minuten aufgeteilt werden.",
    "Kein Mensch arbeitet in der Mühle am Fluss ohne eine solche lange Pause.",
    "Der Frost in den Ventilen der Mühle wird von der Nachtschicht mit Fett und einer Lampe bekämpft. Das Fett wird im "
    "Oktober von einem Schmied in der Stadt am Fluss gekauft und in Fässern aufbewahrt, die in einem Keller unter der "
    "Mühle stehen.",
)
GERMAN = "\n\n".join(textwrap.fill(paragraph, 66) for paragraph in GERMAN_PARAGRAPHS)


def test_a_text_that_is_wrapped_at_a_width_joins_lines_that_continue_with_a_noun() -> None:
    width = wrap_width(GERMAN, list(iter_lines(GERMAN)))
    assert 60 <= width <= 66
    whole = [" ".join(GERMAN[start:end].split()) for start, end in sentence_spans(GERMAN, width)]
    assert whole == [sentence for text in GERMAN_PARAGRAPHS for sentence in sentences(text)] and len(whole) == 5
    assert len(sentence_spans(GERMAN)) > len(whole)


def test_items_that_are_wrapped_at_a_width_of_their_own_do_not_hide_that_of_the_text() -> None:
    items = [textwrap.fill(paragraph, 71, subsequent_indent=5 * " ") for paragraph in GERMAN_PARAGRAPHS]
    text = GERMAN + "\n\n" + "\n\n".join(f"{n}.   {item}" for n, item in enumerate(items, start=1))
    assert wrap_width(text, list(iter_lines(text))) == wrap_width(GERMAN, list(iter_lines(GERMAN)))


def test_lines_that_end_before_the_width_are_not_wrapped() -> None:
    names = "\n".join(f"Pump number {n} of the mill{' beside the river' * (n % 3)}" for n in range(20))
    rows = "\n".join(f"Pump {n:02}   of the old mill   beside the river" for n in range(20))
    for text in (names, rows, GERMAN[:200]):
        assert wrap_width(text, list(iter_lines(text))) == 0


@given(st.text("aB .!?…‼。！？｡।។)”」[1]* \n", max_size=40))
def test_a_sentence_ends_at_the_same_places_with_each_kind_of_punctuation_by_itself(text: str) -> None:
    kinds = r"[.!?…‼⁇⁈⁉]+[\"'”’»›)\]}*_`]*(?:\[\d{1,3}\])*|[。！？｡]+[」』”’）】》〉\"')]*|[।॥۔؟።។៕]+"
    assert [found.span() for found in STOP.finditer(text)] == [found.span() for found in re.finditer(kinds, text)]

"""Lists of the rows of a table that a question asks for are complete, or say how many rows they leave out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragkit import KnowledgeBase
from ragkit.answer.extractive.matching_rows import MAX_TABLE_CHARS, asks_for_several
from ragkit.answer.extractive.units import MAX_LIST_ITEMS

DEPOTS = ("Harbour", "Hillside", "Airport")
LINES = ("Red", "Green", "Blue", "Night")
TRAMS = [
    {
        "name": f"T-{number:03}",
        "depot": DEPOTS[number % 3],
        "lines": [LINES[number % 4], LINES[(number + 1) % 4]],
        "doors": 4 + number % 2,
        "remarks": "Overhauled by the workshop in the spring" + ", with new seats" * (number % 5),
        "driver": f"Driver {chr(64 + number % 26)}{number}",
    }
    for number in range(1, 101)
]


def named(test: str, value: object) -> list[str]:
    """The names of the trams that have a value."""
    return [str(tram["name"]) for tram in TRAMS if tram[test] == value]


@pytest.fixture(scope="module")
def trams(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    """A knowledge base of trams as a list of JSON, within an object, and as CSV; of notes, and of a long list."""
    folder = tmp_path_factory.mktemp("trams")
    docs = folder / "docs"
    docs.mkdir()
    (docs / "trams.json").write_text(json.dumps({"about": "The trams of the town.", "trams": TRAMS}))
    (docs / "notes.md").write_text("# Notes\n\nThe depot of Lund was closed. Trams are washed on Mondays.\n")
    buses = [{"bus": f"B-{n}", "garage": "West" if n % 2 else "East", "text": "long " * 60} for n in range(400)]
    (docs / "buses.json").write_text(json.dumps(buses))
    rows = ["ferry,pier,berths", *(f"F-{n},{('North', 'South')[n % 2]},{20 + n}" for n in range(1, 13))]
    (docs / "ferries.csv").write_text("\n".join(rows) + "\n")
    kb = KnowledgeBase.open(folder / "kb")
    kb.index(docs)
    return kb


def lines_of(text: str) -> list[str]:
    """The first cells of the lines of an answer."""
    return [line.partition("; ")[0].partition(": ")[2] for line in text.splitlines()]


def test_all_records_with_a_value_are_listed_with_their_citations(trams: KnowledgeBase) -> None:
    at_night = [str(tram["name"]) for tram in TRAMS if "Night" in str(tram["lines"]) and tram["depot"] == "Airport"]
    answer = trams.ask("Which trams of the Airport depot are on the Night line?")
    assert lines_of(answer.text) == at_night
    assert len(at_night) > 10
    assert all(
        "depot: Airport" in line and "driver: " in line and "remarks" not in line for line in answer.text.splitlines()
    )
    assert all(citation.verified and "Airport" in citation.quote for citation in answer.citations)


def test_a_number_counts_with_the_name_of_its_column(trams: KnowledgeBase) -> None:
    answer = trams.ask("Which trams of the Hillside depot have 5 doors?")
    assert lines_of(answer.text) == [str(t["name"]) for t in TRAMS if (t["doors"], t["depot"]) == (5, "Hillside")]
    assert "doors: 4" not in answer.text


def test_a_list_that_is_cut_says_how_many_are_left_out(trams: KnowledgeBase) -> None:
    lines = trams.ask("Which trams are in the Hillside depot?").text.splitlines()
    assert lines_of("\n".join(lines[:-1])) == named("depot", "Hillside")[:MAX_LIST_ITEMS]
    assert lines[-1].startswith(f"... and {len(named('depot', 'Hillside')) - MAX_LIST_ITEMS} more")


def test_rows_of_csv_are_listed_too(trams: KnowledgeBase) -> None:
    answer = trams.ask("Which ferries leave from the South pier?")
    assert lines_of(answer.text) == [f"F-{number}" for number in range(1, 13, 2)]


def test_the_passages_closest_to_a_question_without_an_answer_are_few(trams: KnowledgeBase) -> None:
    answer = trams.ask("Which trams belong to the Hillside depot?")
    assert answer.abstained
    assert len(answer.citations) <= 3


def test_rows_with_the_same_text_are_shown_once(tmp_path: Path) -> None:
    labels = "\n\n".join(
        f"## Metric {name}\n\n| Label | Description |\n|---|---|\n| `server` | The server name |\n"
        f"| `handler` | The handler or module name |\n| `{name}` | Counts {name} |\n"
        for name in ("requests", "errors", "bytes")
    )
    (tmp_path / "metrics.md").write_text(f"# Metrics\n\n{labels}")
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        kb.index(tmp_path / "metrics.md")
        answer = kb.ask("What are the handlers?")
    assert answer.text.count("The handler or module name") == 1


def test_a_row_that_is_named_is_shown_alone(trams: KnowledgeBase) -> None:
    assert "T-007;" in trams.ask("Which depot does T-007 belong to?").text
    assert trams.ask("Which lines does T-007 have?").text.count("name:") <= 3


def test_a_long_document_is_not_read_as_a_whole(trams: KnowledgeBase) -> None:
    assert len(json.dumps([{"text": "long " * 60}] * 400)) > MAX_TABLE_CHARS
    assert trams.ask("Which buses are in the West garage?").text.count("West") <= 3


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which stations are on the Bakerloo line?", True),
        ("In which years did a player of Boston win?", True),
        ("Which bacteria have a negative staining?", True),
        ("List the stations in zone 9", True),
        ("Welche Linien halten in Lund?", True),
        ("Quelles lignes passent par Lund ?", True),
        ("¿Qué líneas paran en Lund?", True),
        ("Which station is in zone 9?", False),
        ("What is the price of a ticket?", False),
        ("What does the class need?", False),
        ("Welche Farbe hat die Linie?", False),
        ("How many trams are there?", False),
        ("Who has the key?", False),
    ],
)
def test_questions_that_ask_for_several(question: str, expected: bool) -> None:
    assert asks_for_several(question) == expected
